"""Arguments and results of tool calls, without the envelopes of instrumentations."""

from __future__ import annotations

from typing import Any

from otel_evals_instrumentation._internal.readers.python_reprs import read_message_str, read_result_str
from otel_evals_instrumentation._internal.readers.tool_parts import is_bedrock, result_value, unwrapped_value
from otel_evals_instrumentation._internal.readers.values import literal, parse

_CALL_ENVELOPE = {"args", "kwargs", "sanitize_inputs_outputs", "cancellation_token"}
_GEMINI = {"id", "name", "response", "will_continue", "scheduling", "parts"}
_CALLBACKS = {"inputs", "input_str", "tags", "metadata", "kwargs", "args"}


def arguments_of(value: Any, depth: int = 0) -> Any:
    """Return a tool call's arguments as a JSON value."""
    parsed = parse(value)
    if parsed is value and isinstance(value, str):
        parsed = literal(value)
    if not isinstance(parsed, dict) or depth > 4:
        return parsed
    keys = parsed.keys()
    if "input_str" in keys or ("inputs" in keys and keys <= _CALLBACKS):
        inner = parsed.get("inputs")
        return arguments_of(parsed.get("input_str") if inner is None else inner, depth + 1)
    if "calling" in keys and "tool_string" in keys:  # CrewAI: `tool_name='lookup' arguments={...}`
        return literal(str(parsed["calling"]).partition(" arguments=")[2])
    if keys == {"input"} and isinstance(parsed["input"], str):  # LangSmith: arguments as text
        inner = arguments_of(parsed["input"], depth + 1)
        return inner if isinstance(inner, dict) else parsed
    if keys == {"input", "options"} and isinstance(parsed["input"], dict):  # BeeAI
        return parsed["input"]
    if keys == {"tool_name", "arguments"}:  # a request to an MCP server
        return arguments_of(parsed["arguments"], depth + 1)
    if keys <= _CALL_ENVELOPE and ("kwargs" in keys or "args" in keys):
        kwargs, args = parsed.get("kwargs"), parsed.get("args")
        if kwargs or not args:
            return kwargs if kwargs is not None else {}
        return parse(args[0]) if isinstance(args, (list, tuple)) and len(args) == 1 else args
    return parsed


def _of_execution(fields: dict[str, Any]) -> tuple[Any, bool]:
    """Return the result in an execution's fields, or else its error, and whether it failed."""
    if "isError" in fields:
        return result_value(fields["content"]), fields["isError"] is True
    failed = fields.get("error") is not None or fields["status"] not in ("success", "ok")
    result = fields["result"]
    return result_value(fields.get("error") if result is None else result), failed


def result_of(value: Any, depth: int = 0, *, wrapped: bool = True) -> tuple[Any, bool]:
    """Return a tool's result as a JSON value, and whether it is a failure.

    If the convention wraps no results, an object with an `output` is the tool's own.
    """
    parsed = parse(value)
    if isinstance(parsed, str):
        executed = read_result_str(parsed)
        if executed is not None:
            return _of_execution(executed)
        message = read_message_str(parsed)
        parsed = parsed if message is None else message
    if isinstance(parsed, list) and len(parsed) == 2 and _is_outcome(*parsed):
        return result_value(parsed[1]["content"]), not parsed[0]
    if not isinstance(parsed, dict) or depth > 4:
        return result_value(parsed), False
    keys = parsed.keys()
    for key in ("output", "outputs"):
        if wrapped and key in keys and keys <= {key, "kwargs", "tags", "metadata"}:
            return result_of(parsed[key], depth + 1)
    if "tool_output" in keys and "tool_name" in keys:  # LlamaIndex' event
        return result_of(parsed["tool_output"], depth + 1)
    for key, mark, of_langchain in (("kwargs", "lc", 1), ("data", "type", "tool")):
        if parsed.get(mark) == of_langchain and isinstance(parsed.get(key), dict):
            return result_of({"type": "tool", **parsed[key]}, depth + 1)
    if "content" in keys and ("tool_call_id" in keys or "toolCallId" in keys):
        return result_value(parsed["content"]), parsed.get("status") == "error"
    if wrapped and "response" in keys and keys <= _GEMINI:
        return unwrapped_value(result_value(parsed["response"])), False
    return result_value(parsed), says_failed(parsed)


def _is_outcome(succeeded: Any, message: Any) -> bool:
    """Return True for AG2's pair of a flag and the message of a function."""
    is_message = isinstance(message, dict) and message.get("role") == "function" and "content" in message
    return isinstance(succeeded, bool) and is_message


def says_failed(result: Any) -> bool:
    """Return True for a result with an error flag, as MCP's have."""
    if not isinstance(result, dict):
        return False
    if result.get("isError") is True or result.get("is_error") is True:
        return True
    return result.get("status") == "error" and is_bedrock(result)
