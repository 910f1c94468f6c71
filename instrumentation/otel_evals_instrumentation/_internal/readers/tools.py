"""Tool spans: the call's name, id, arguments, result and status, and exceptions that are no errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from otel_evals.model import Availability, ToolCall
from otel_evals_instrumentation._internal.readers.events import exception_of
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import arguments_of, result_of
from otel_evals_instrumentation._internal.readers.values import (
    first_text,
    is_masked,
    mapping,
    parse,
    parse_or_repair,
    without_envelope,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

_METHODS = words(".__call__ .__acall__ .run .arun .call .acall .invoke .ainvoke .tool")
"""Endings of spans that are named after a tool's method."""
_EVENTS = {"arguments": ("gen_ai.tool.message", "content"), "result": ("gen_ai.choice", "message")}
_CALL = {"name", "arguments"}
_UNWRAPPED = words("langfuse langwatch laminar mlflow braintrust genkit vercel_ai livekit voltagent")
"""Conventions that record results without an envelope."""

_PAUSES = words(
    """GraphInterrupt NodeInterrupt GraphBubbleUp
    CallDeferred ApprovalRequired
    ToolApprovalItem
    NodeInterruptedError
    InterruptException InterruptError
    UserInputRequiredException
    HumanInputNotProvidedError HumanInputTimeoutError
    HumanFeedbackPending
    ToolInterruptError toolInterruptError ToolInterruptException
    HITLBreakpointException BreakpointException
    WaitingForEvent"""
)
"""Exceptions that pause a run: LangGraph, pydantic-ai, OpenAI Agents, ADK, Strands, Microsoft's agents, AG2,
CrewAI, Genkit, Haystack, LlamaIndex; a line each."""
_HANDOVERS = ("ParentCommand", "Command")
"""LangGraph's exceptions that pass control to another node."""
_ENDINGS = {**dict.fromkeys(_PAUSES, "paused"), **dict.fromkeys(_HANDOVERS, "handed_over")}
# An exception's type, with or without its module, alone or before its message; OpenInference for
# JavaScript has it in a stack, after the message and an empty line.
_RAISED = re.compile(r"(?:^|\n\n)\*?(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:\b\s*[(:]|$)")
_WAITS_FOR_APPROVAL = re.compile(
    r"This tool call requires confirmation, please approve|FunctionToolResult\(.*ToolApprovalItem\("
)
"""Results of calls that wait: ADK's, and the wrapper that OpenAI Agents recorded."""
_FAILURES = words("error errored failure failed exception timeout denied rejected cancelled canceled")
_DEFERRALS = words("pending deferred paused interrupted suspended waiting approval_required")
_OUTCOMES = {**dict.fromkeys(_FAILURES, "failed"), **dict.fromkeys(_DEFERRALS, "paused")}


def read_tool(reader: SpanReader) -> None:
    """Read a tool's span: id, arguments, result and status; its name is known."""
    span, fields = reader.span, reader.fields
    arguments = _recorded(reader, "arguments", "tool_arguments", "input", "tool_call")
    result = _recorded(reader, "result", "tool_results", "output", "tool_result")
    if arguments is None:
        arguments = _parameters(reader)
    value, failed = (None, False) if result in (None, "None") else _result(reader, result)
    error = fields.get("error")
    if value is None and error is None and span.status != "OK":
        message, kind = exception_of(span)  # a few record it without a status
        reader.offer("error_type", kind)
        error = message or kind
    ended = how_it_ended(fields.get("error_type"), error)
    outcome = ended or tool_outcome(reader.attributes)
    if ended is not None:
        error = None
        fields.pop("error_type", None)
    if outcome == "paused" or fields.get("paused") or waits_for_approval(value):
        # A call that waits has no outcome yet: a framework's text in its place is no result.
        fields["paused"], outcome, value, error, failed = True, "paused", None, None, False
        fields.pop("error", None)
        fields.pop("error_type", None)
    failed = failed or error is not None or outcome == "failed"
    if failed and error in (None, fields.get("error_type")):
        message = value.get("error") if isinstance(value, dict) else value
        error = message if isinstance(message, str) else error
    fields["tool_call"] = ToolCall(
        name=fields["name"],
        id=reader.text("tool_id"),
        arguments=_arguments(reader, arguments),
        # What tools that raised gave in JavaScript and in Java.
        result=None if failed and value in ("null", {}) else value,
        error=error,
        error_type=fields.get("error_type"),
        status=_status(failed, outcome, done=span.status == "OK" or value is not None),
        span_id=span.span_id,
        duration=None if span.end_time is None else (span.end_time - span.start_time) / 1e9,
    )


def _status(failed: bool, outcome: str | None, *, done: bool) -> Literal["ok", "error", "pending", "unknown"]:
    if failed:
        return "error"
    if outcome == "paused":
        return "pending"
    return "ok" if done or outcome == "handed_over" else "unknown"


def _is_plain(reader: SpanReader, noted_as: str, key: str) -> bool:
    """Return True for a value under OpenTelemetry's own name, which has no envelope of the convention."""
    return reader.convention == "otel_genai" and reader.source_of(noted_as) == key


def _result(reader: SpanReader, result: Any) -> tuple[Any, bool]:
    plain = _is_plain(reader, "tool_results", "gen_ai.tool.call.result")
    return result_of(result, wrapped=not plain and reader.convention not in _UNWRAPPED)


def _arguments(reader: SpanReader, arguments: Any) -> Any:
    if (
        isinstance(arguments, dict)
        and arguments.keys() == _CALL
        and arguments["name"] == reader.fields["name"]
    ):
        return arguments_of(arguments["arguments"])  # the whole call, as a model asked for it
    plain = _is_plain(reader, "tool_arguments", "gen_ai.tool.call.arguments") and isinstance(arguments, dict)
    return arguments if plain and arguments.keys() != {"args", "kwargs"} else arguments_of(arguments)


def _parameters(reader: SpanReader) -> dict[str, Any] | None:
    """Return arguments in attributes of their own, as `code.function.parameters.<name>.value`."""
    start, end = "code.function.parameters.", ".value"
    found = {
        key[len(start) : -len(end)]: parse(value)
        for key, value in reader.attributes.items()
        if key.startswith(start) and key.endswith(end)
    }
    if not found:
        return None
    reader.note("tool_arguments", start + "*")
    return found


def tool_name_in(span_name: str) -> str:
    """Return the tool's name from `execute_tool lookup`, `tool_call [lookup]` or `lookup.run`."""
    name = span_name.rpartition(" ")[2].strip("[]")
    while name.endswith(_METHODS):
        name = name.rpartition(".")[0]
    return name or span_name or "tool"


def _recorded(reader: SpanReader, field: str, noted_as: str, side: str, kind: str) -> Any:
    """Return arguments or a result from an attribute, or else from an event, or else from messages."""
    value = _value(reader, field, noted_as)
    if value is None:
        value = _event(reader, noted_as, *_EVENTS[field])
    return _part(reader, noted_as, f"gen_ai.{side}.messages", kind) if value is None else value


def _value(reader: SpanReader, field: str, noted_as: str) -> Any:
    for key in reader.found_at.get(field, ()):
        value = reader.value(key)
        if value == "":
            continue
        if is_masked(value):
            reader.note(noted_as, key, Availability.CAPTURED_OFF)
            continue
        parsed, cut = parse_or_repair(without_envelope(value))
        reader.note(noted_as, key, Availability.TRUNCATED if cut else Availability.PRESENT)
        return parsed
    return None


def _event(reader: SpanReader, noted_as: str, event_name: str, key: str) -> Any:
    """Return arguments or a result from an event."""
    for name, body in reader.events:
        value = mapping(body).get(key)
        if name == event_name and value is not None:
            if is_masked(value):
                reader.note(noted_as, name, Availability.CAPTURED_OFF)
                continue
            reader.note(noted_as, name)
            return parse(value)
    return None


def _part(reader: SpanReader, noted_as: str, key: str, kind: str) -> Any:
    """Return arguments or a result from messages."""
    for message in read_messages(reader.attributes.get(key)):
        for part in message.parts:
            if part.kind == kind and part.data is not None:
                reader.note(noted_as, key)
                return part.data
    return None


# --- how an operation ended, in the words of frameworks ---


def how_it_ended(kind: str | None, message: str | None) -> str | None:
    """Return `paused` or `handed_over` for an exception that is no error, by its type or the text of it."""
    for text in filter(None, (kind, message)):
        for raised in _RAISED.findall(text):
            if raised in _ENDINGS:
                return _ENDINGS[raised]
    return None


def tool_outcome(attributes: Mapping[str, Any]) -> str | None:
    """Return `failed` or `paused` as a tool's span says in an attribute of its own; None if it does not."""
    if "pydantic_ai.tool.deferral.name" in attributes:
        return "paused"
    said = attributes.get("gen_ai.tool.call.outcome", attributes.get("gen_ai.tool.status"))
    by_flag = "failed" if str(attributes.get("gen_ai.tool.success")).lower() == "false" else None
    return _OUTCOMES.get(str(said).lower().replace("-", "_"), by_flag)


def waits_for_approval(result: Any) -> bool:
    """Return True for a result that a framework wrote because a person has to approve the call first."""
    text = result.get("error") if isinstance(result, dict) else result
    return isinstance(text, str) and _WAITS_FOR_APPROVAL.match(text) is not None


def error_of_adk(response: Any) -> str | None:
    """Return the error in a response that ADK writes for a failed tool."""
    if not isinstance(response, dict):
        return None
    if response.get("error"):
        return str(response["error"])
    if response.get("status") == "error":
        return first_text(response, ("error_message", "message", "report")) or "error"
    return None
