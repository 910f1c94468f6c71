"""How an operation ended, in the words of frameworks: failed, paused to wait for somebody, or left early."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from otel_evals.model import Availability, Message, Part, SpanRecord
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader, has_dropped
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import words

_PAUSES = words(
    """GraphInterrupt NodeInterrupt GraphBubbleUp
    CallDeferred ApprovalRequired
    ToolApprovalItem
    NodeInterruptedError
    InterruptException InterruptError
    UserInputRequiredException
    HumanInputNotProvidedError HumanInputTimeoutError
    HumanFeedbackPending
    ToolInterruptError ToolInterruptException
    HITLBreakpointException BreakpointException
    WaitingForEvent"""
)
"""Exceptions that pause a run: LangGraph, pydantic-ai, OpenAI Agents, ADK, Strands, Microsoft's agents, AG2,
CrewAI, Genkit, Haystack, LlamaIndex; a line each."""
_HANDOVERS = ("ParentCommand", "Command")
"""LangGraph's exceptions that pass control to another node."""
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:\b\s*[(:]|$)")
_WAITS_FOR_APPROVAL = re.compile(
    r"This tool call requires confirmation, please approve|FunctionToolResult\(.*ToolApprovalItem\("
)
"""Results of calls that wait: ADK's, and the wrapper that OpenAI Agents recorded."""
_FAILURES = frozenset(
    words("error errored failure failed exception timeout denied rejected cancelled canceled")
)
_DEFERRALS = frozenset(words("pending deferred paused interrupted suspended waiting approval_required"))
_STREAMING = words("gen_ai.is_streaming llm.is_streaming gen_ai.request.stream gen_ai.request.streaming")
_STREAMED = re.compile(r'"stream": ?true\b')
_FINISH = re.compile(r'finish_?reason\\*": ?\\*"\w|stop_?reason\\*": ?\\*"\w', re.IGNORECASE)


def how_it_ended(kind: str | None, message: str | None) -> str | None:
    """Return `paused` or `handed_over` for an exception that is no error, by its type or the text of it."""
    for text in (kind, message):
        raised = _RAISED.match(text) if text else None
        if raised is not None and raised[1] in _PAUSES:
            return "paused"
        if raised is not None and raised[1] in _HANDOVERS:
            return "handed_over"
    return None


def tool_outcome(attributes: Mapping[str, Any]) -> str | None:
    """Return `failed` or `paused` as a tool's span says in an attribute of its own; None if it does not."""
    if "pydantic_ai.tool.deferral.name" in attributes:
        return "paused"
    said = attributes.get("gen_ai.tool.call.outcome", attributes.get("gen_ai.tool.status"))
    word = said.lower().replace("-", "_") if isinstance(said, str) else ""
    if word in _DEFERRALS:
        return "paused"
    return "failed" if word in _FAILURES or attributes.get("gen_ai.tool.success") is False else None


def waits_for_approval(result: Any) -> bool:
    """Return True for a result that a framework wrote because a person has to approve the call first."""
    text = result.get("error") if isinstance(result, dict) else result
    return isinstance(text, str) and _WAITS_FOR_APPROVAL.match(text) is not None


def error_of_adk(response: Any) -> str | None:
    """Return the error in a response that ADK writes for a failed tool."""
    if not isinstance(response, dict):
        return None
    error = response.get("error")
    if error:
        return error if isinstance(error, str) else str(error)
    if response.get("status") == "error":
        known = (response.get(key) for key in ("error_message", "message", "report"))
        return next((text for text in known if isinstance(text, str)), "error")
    return None


def was_left(span: SpanRecord, attributes: Mapping[str, Any], key: str) -> bool:
    """Return True for a streamed response without an end: its reader went away before the finish reason.

    `key` is the attribute that has the response. OpenInference says OK for streams that were read to the end.
    """
    streamed = False
    for name in _STREAMING:
        streamed = streamed or attributes.get(name) in (True, "true", "True")
    given = attributes.get("llm.invocation_parameters")
    if not streamed and not (isinstance(given, str) and _STREAMED.search(given)):
        return False
    if span.status == "OK" and "openinference.span.kind" in attributes:
        return False
    return not any(_says_the_end(name, value) for name, value in attributes.items())


def may_have_called(attributes: Mapping[str, Any]) -> bool:
    """Return True if a response without content may be a call: it had tools, and has no finish reason."""
    had_tools = any(name.startswith("llm.request.functions.") for name in attributes)
    return had_tools and not any(_says_the_end(name, value) for name, value in attributes.items())


def _says_the_end(name: str, value: Any) -> bool:
    """Return True for an attribute with a finish reason, in its name or in its JSON."""
    if name.endswith(("finish_reason", "finish_reasons", "finishReason", "stop_reason")):
        value = parse(value)
        return bool(value[0] if isinstance(value, (list, tuple)) and value else value)
    return type(value) is str and value[:1] in ("{", "[") and _FINISH.search(value) is not None


_RECORDED = (Availability.PRESENT, Availability.TRUNCATED)


_CALLS = ("tool_call", "tool_result")


def note_side(reader: SpanReader, side: str, key: str, has_content: bool, cut: bool) -> None:
    whole = Availability.PRESENT if has_content else Availability.EMPTY
    cut = cut or (side == "output" and has_content and was_left(reader.span, reader.attributes, key))
    reader.noted[side] = key, Availability.TRUNCATED if cut else whole


def availability_of(reader: SpanReader, expected: Iterable[str]) -> dict[str, Availability]:
    """Return the availability of content: a message without content is empty if the other side has some.

    Without any on both sides, content capture is off. Content that may have been dropped with attributes
    counts as truncated.
    """
    found: dict[str, Availability] = {}
    for name, (_, availability) in reader.noted.items():
        found[name] = availability
    for side, other in (("input", "output"), ("output", "input")):
        if found.get(side) is Availability.EMPTY:
            calls = any(p.kind in _CALLS for m in reader.fields.get(f"{side}_messages", ()) for p in m.parts)
            is_on = found.get(other) in _RECORDED
            without = Availability.PRESENT if calls else Availability.EMPTY
            found[side] = without if is_on else Availability.CAPTURED_OFF
    dropped = None
    for name in expected:
        if found.get(name) not in _RECORDED:
            dropped = has_dropped(reader.span) if dropped is None else dropped
            if dropped:
                found[name] = Availability.TRUNCATED
    return found


def says_something(messages: Iterable[Message]) -> bool:
    """Return True for messages with content other than blanks and thoughts."""
    for message in messages:
        for part in message.parts:
            if part.kind != "reasoning" and _is_content(part) and not (part.text and part.text.isspace()):
                return True
    return False


def has_content_in(messages: Iterable[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if _is_content(part):
                return True
    return False


def _is_content(part: Part) -> bool:
    if part.text or part.data or (part.data is not None and part.kind != "tool_call"):
        return True
    media = part.media
    return media is not None and bool(media.size or media.uri or media.file_id)
