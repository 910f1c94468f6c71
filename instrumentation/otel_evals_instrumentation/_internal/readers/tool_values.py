"""Tool calls in any form: as parts of messages, and their arguments and results without envelopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Part
from otel_evals_instrumentation._internal.readers.envelopes import read_message_str, read_result_str
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.values import (
    first_present,
    first_text,
    is_true,
    listed,
    literal,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

# --- Tool calls and results as parts of messages, in any provider's form ---


_ARGUMENTS = words("arguments args input parameters tool_kwargs tool_arguments")
_VALUES = words("response result output content server_tool_call_response error")
_NAMES = words("name toolName tool_name function_name tool_function")
_IDS = words("call_id callId tool_call_id tool_use_id toolCallId toolUseId id ref tool_id")


def tool_call(item: dict[str, Any]) -> Part:
    """Read a tool call, whose name and arguments may be in a `function` inside."""
    item = mapping(item.get("tool_call")) or item
    source = {**item, **mapping(item.get("function"))}
    arguments = first_present(source, _ARGUMENTS)
    if isinstance(arguments, str):
        # Some encode the arguments as JSON twice.
        arguments = literal(parse(parse(unmasked(arguments) or None)))
    elif arguments is None:
        server = mapping(item.get("server_tool_call"))
        arguments = server.get("arguments", {k: v for k, v in server.items() if k != "type"} or None)
    return Part(
        kind="tool_call",
        data=arguments,
        tool_call_id=first_text(source, _IDS),
        name=first_text(source, _NAMES),
    )


def tool_result(item: dict[str, Any]) -> Part:
    """Read a tool's result: its value, the call's id, and whether the tool failed."""
    item = {**mapping(item.get("origin")), **item}
    value = first_present(item, _VALUES)
    kind = value.get("type") if isinstance(value, dict) else item.get("type")
    failed = (
        any(is_true(item.get(key)) for key in ("is_error", "isError", "error"))
        or item.get("status") == "error"
        or str(kind).startswith("error-")
        or kind == "tool-error"
    )
    return Part(
        kind="tool_result",
        data=result_value(value),
        tool_call_id=first_text(item, _IDS),
        name=first_text(item, _NAMES[:3]),
        failed=failed,
    )


def unwrapped_value(value: Any) -> Any:
    """Return a result out of `{"result": ...}`, in which Gemini's SDKs wrap texts and lists."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def unwrapped_result(part: Part) -> Part:
    """Return a tool result with its value unwrapped."""
    return replace(part, data=unwrapped_value(part.data))


# Tuples: a recorded type may be a list, which has no hash.
_TYPES = ("text", "json", "error-text", "error-json", "content")
"""Types of results in Vercel's AI SDK."""
_MEDIA = words("image image_url input_image audio input_audio computer_screenshot")
_OF_TEXTS = frozenset(words("type $type text content annotations meta _meta"))
_OF_BLOCKS = frozenset((*_OF_TEXTS, *words("id created_at finished_at")))
_OF_BEDROCK = {"content", "status", "toolUseId"}
_OF_MCP = {"content", "isError", "structuredContent", "_meta", "meta"}
_OF_AGENTSCOPE = {"content", "state", "metadata", "id"}


def result_value(value: Any) -> Any:
    """Return a tool's result without the wrappers of texts and typed outputs."""
    value = parse(value)
    if type(value) is str:  # perhaps the repr of an object
        decoded = literal(value)
        value = decoded if isinstance(decoded, (dict, list)) else unmasked(value)
    wrappers = _OBJECTS if isinstance(value, dict) else _LISTS if isinstance(value, (list, tuple)) else ()
    for is_wrapped, unwrap in wrappers:
        if is_wrapped(value):
            return unwrap(value)
    return value


def _is_media(item: Any) -> bool:
    """Return True for an image or a sound in a result, such as a screenshot."""
    return isinstance(item, dict) and item.get("type") in _MEDIA


def _reference(item: Any) -> Any:
    """Replace recorded bytes by their size and digest; results are read by judges and kept in records."""
    media = read_media(item).media if _is_media(item) else None
    return item if media is None or media.size is None else media.in_result(item["type"])


def is_bedrock(value: dict[str, Any]) -> bool:
    """Return True for the form of results of Bedrock's and of Strands' tools: a status and typed contents."""
    is_status = value.get("status") in ("success", "error") and value.keys() <= _OF_BEDROCK
    content = listed(value.get("content"))
    return is_status and bool(content) and all(mapping(i).keys() in ({"text"}, {"json"}) for i in content)


def _is_text(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("text", item.get("content")), str)
        # A text with an id and no type is a tool's own record.
        and item.keys() <= (_OF_BLOCKS if "type" in item else _OF_TEXTS)
        and item.get("type", "text") == "text"
    )


def _text_in(items: Iterable[dict[str, Any]]) -> Any:
    """Return the JSON or the text in texts."""
    # MCP's servers send objects as the JSON in a text.
    return parse(unmasked("\n\n".join(str(item.get("text", item.get("content", ""))) for item in items)))


def _is_envelope(value: dict[str, Any]) -> bool:
    is_plain = value.keys() <= _OF_MCP or value.keys() == _OF_AGENTSCOPE
    return isinstance(value.get("content"), (list, tuple)) and (is_plain or is_bedrock(value))


_Wrapper = tuple[Callable[[Any], bool], Callable[[Any], Any]]
"""A predicate, and the function that unwraps what it is true of."""
_OBJECTS: tuple[_Wrapper, ...] = (
    # Vercel, Microsoft, MCP's only content, a provider's tools, LlamaIndex, MCP and Bedrock; images, sounds.
    (lambda v: v.keys() == {"type", "value"} and v["type"] in _TYPES, itemgetter("value")),
    (lambda v: v.get("type") == "function_result" and "result" in v, lambda v: parse(v["result"])),
    (lambda v: v.get("type", v.get("$type")) == "text" and _is_text(v), lambda v: _text_in((v,))),
    (lambda v: v.keys() == {"type", "output"}, lambda v: result_value(v["output"])),
    (lambda v: "raw_output" in v and "tool_name" in v, itemgetter("raw_output")),
    (_is_envelope, lambda v: result_value(v["content"])),
    (_is_media, _reference),
)
_LISTS: tuple[_Wrapper, ...] = (
    # Texts of Anthropic and MCP, Bedrock; images and sounds among others.
    (lambda v: bool(v) and all(map(_is_text, v)), _text_in),
    (lambda v: len(v) == 1 and "json" in mapping(v[0]), lambda v: mapping(v[0])["json"]),
    (lambda v: any(map(_is_media, v)), lambda v: list(map(_reference, v))),
)


# --- Arguments and results of tool calls, without the envelopes of instrumentations ---


def _without_message(value: Any) -> Any:
    """Return the content of a tool's only message: in TanStack's list or tRPC's response."""
    items = listed(mapping(value).get("choices")) or listed(value)
    message = mapping(mapping(items[0]).get("message", items[0])) if len(items) == 1 else {}
    return parse(message.get("content")) if message.get("role") == "tool" else value


_CALL_ENVELOPE = {"args", "kwargs", "sanitize_inputs_outputs", "cancellation_token"}
_GEMINI = {"id", "name", "response", "will_continue", "scheduling", "parts"}
_CALLBACKS = {"inputs", "input_str", "tags", "metadata", "kwargs", "args"}


def arguments_of(value: Any, depth: int = 0) -> Any:
    """Return a tool call's arguments as a JSON value."""
    parsed = _without_message(literal(parse(value)))
    if not isinstance(parsed, dict) or depth > 4:
        return parsed
    keys = parsed.keys()
    if "input_str" in keys or ("inputs" in keys and keys <= _CALLBACKS) or "ArgumentsInJSON" in keys:
        return arguments_of(first_present(parsed, ("inputs", "input_str", "ArgumentsInJSON")), depth + 1)
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
            return kwargs or {}
        return parse(args[0]) if isinstance(args, (list, tuple)) and len(args) == 1 else args
    return parsed


def _of_execution(fields: dict[str, Any]) -> tuple[Any, bool]:
    """Return the result in an execution's fields, or else its error, and whether it failed."""
    failed = fields.get("error") is not None or fields["status"] not in ("success", "ok")
    return result_value(first_present(fields, ("result", "error"))), failed


def result_of(value: Any, depth: int = 0, *, wrapped: bool = True) -> tuple[Any, bool]:
    """Return a tool's result as a JSON value, and whether it is a failure.

    If the convention wraps no results, an object with an `output` is the tool's own.
    """
    parsed = _without_message(parse(value))
    if isinstance(parsed, str):
        executed = read_result_str(parsed) or read_message_str(parsed)
        if executed is not None and "result" in executed:
            return _of_execution(executed)
        parsed = executed or parsed
    # AG2's pair of a flag and the message of a function.
    if isinstance(parsed, list) and len(parsed) == 2 and mapping(parsed[1]).get("role") == "function":
        return result_value(parsed[1].get("content")), not parsed[0]
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
    return result_value(parsed), _says_failed(parsed)


def _says_failed(result: dict[str, Any]) -> bool:
    """Return True for a result with an error flag, as MCP's have."""
    is_error = is_true(result.get("isError", result.get("is_error")))
    ended = result.get("status", result.get("state"))
    return is_error or (ended in ("error", "denied") and _is_envelope(result))
