"""Inputs and outputs of operations: messages, system instructions, tool definitions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Availability, Message, Part, SpanRecord
from otel_evals_instrumentation._internal.readers.content import read_definitions, read_system
from otel_evals_instrumentation._internal.readers.envelopes import are_numbers, first_choice, is_data
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import (
    text_message,
    text_of,
)
from otel_evals_instrumentation._internal.readers.span_reader import (
    SpanReader,
    event_messages,
    event_name,
    exceptions_of,
)
from otel_evals_instrumentation._internal.readers.typed_messages import typed_messages
from otel_evals_instrumentation._internal.readers.values import (
    is_masked,
    parse,
    parse_or_repair,
    without_cut_mark,
)
from otel_evals_instrumentation._internal.readers.vocabulary import ROLES, words

_STREAMING = words("gen_ai.is_streaming llm.is_streaming gen_ai.request.stream gen_ai.request.streaming")
_STREAMED = re.compile(r'"stream": ?true\b')
_FINISH = re.compile(r'finish_?reason\\*": ?\\*"\w|stop_?reason\\*": ?\\*"\w', re.IGNORECASE)
_ERROR_ENDING = re.compile(r'"finish_reason":\s*"error"[^{}]*\}\s*\]$')
_NO_MESSAGES: tuple[Any, ...] = ("", "[]", [], ())
"""Values of an attribute for messages that were recorded, and were none."""


def read_inputs_outputs(reader: SpanReader) -> None:
    """Read input and output messages, system instructions and tool definitions."""
    inputs = _side(reader, "input", "user")
    outputs = _answer(reader) or _side(reader, "output", "assistant")
    if reader.events:
        asked, said = event_messages(reader.events)
        inputs = inputs or _from_events(reader, "input", asked)
        outputs = outputs or _from_events(reader, "output", said)
    failed = reader.span.status == "ERROR" and outputs and _repeats_error(reader, outputs[-1].text)
    if failed or (outputs and _ended_in_error(reader)):
        outputs = ()
        # With its note, the error would count as a recorded answer.
        reader.noted.pop("output", None)
    read_system(reader, inputs, outputs)
    reader.fields["input_messages"] = inputs
    reader.fields["output_messages"] = outputs
    if "new_messages_from" in reader.found_at:
        reader.fields["new_messages_from"] = reader.number("new_messages_from")
    read_definitions(reader)


def _repeats_error(reader: SpanReader, text: str) -> bool:
    """Return True if an output repeats the exception of a failed operation."""
    raised = [event.attributes for event in exceptions_of(reader.span)]
    words = [reader.span.status_message, *(event.get("exception.message") for event in raised)]
    if text and text.strip() in words:
        return True
    kinds = [str(event.get("exception.type") or "").rpartition(".")[2] for event in raised]
    return any(kind and re.match(re.escape(kind) + r"\b\s*[(:]", text) for kind in kinds)


def _ended_in_error(reader: SpanReader) -> bool:
    """Return True for an agent whose last message ends with an error instead of an answer."""
    if not _is_invocation(reader):
        return False
    value = reader.attributes.get(reader.source_of("output") or "")
    # Only the end is searched: an output may have millions of characters.
    return type(value) is str and _ERROR_ENDING.search(value, max(0, len(value) - 100)) is not None


def _side(reader: SpanReader, side: str, role: str) -> tuple[Message, ...]:
    """Return the messages of the first attribute with content, or else of the first attribute."""
    best: tuple[Message, ...] = ()
    for key, value in reader.with_lists(side):
        if type(value) is str and value[:2] != "[{" and is_masked(value):
            if not best:
                reader.note(side, key, Availability.CAPTURED_OFF)
            continue
        if value in _NO_MESSAGES:
            # A note of an earlier attribute stays, because it is trusted more.
            reader.noted.setdefault(side, (key, Availability.EMPTY))
            continue
        messages, cut, is_text = _said(reader, value, side, role)
        has_content, speaks = (False, True) if is_text else _content_in(messages)
        if not has_content:  # a description of an agent has a role too, but is no message
            messages = tuple(each for each in messages if each.parts or each.role in ROLES)
        if not has_content and _may_have_called(reader.attributes):
            best = best or messages
        elif has_content or (messages and not best):
            is_indexed = key.endswith(".*")
            cut = cut or (is_indexed and side == "input" and reader.span.dropped_attributes > 0)
            _note(reader, side, key, speaks, cut)
            best = _cut_off(messages, value) if cut and not is_indexed else messages
            if cut and is_indexed and _lost_its_end(reader.attributes, key[:-1]):
                best = (*messages, Message(role="unknown"))
            if has_content:
                return best
    return best


def _note(reader: SpanReader, side: str, key: str, speaks: bool, cut: bool) -> None:
    whole = Availability.PRESENT if speaks else Availability.EMPTY
    cut = cut or (side == "output" and _was_left(reader.span, reader.attributes))
    reader.noted[side] = key, Availability.TRUNCATED if cut else whole


def _content_in(messages: Iterable[Message]) -> tuple[bool, bool]:
    """Return if messages have content, and if any of it is more than thoughts and blanks."""
    has_content = False
    for message in messages:
        for part in message.parts:
            if _is_content(part):
                if part.kind != "reasoning" and not (part.text and part.text.isspace()):
                    return True, True
                has_content = True
    return has_content, False


def _is_content(part: Part) -> bool:
    if part.text or part.data or (part.data is not None and part.kind != "tool_call"):
        return True
    media = part.media
    return media is not None and bool(media.size or media.uri or media.file_id)


def _was_left(span: SpanRecord, attributes: Mapping[str, Any]) -> bool:
    """Return True for a streamed response without an end: its reader went away before the finish reason.

    OpenInference says OK for streams that were read to the end.
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


def _may_have_called(attributes: Mapping[str, Any]) -> bool:
    """Return True if a response without content may be a call: it had tools, and has no finish reason."""
    had_tools = any(name.startswith("llm.request.functions.") for name in attributes)
    return had_tools and not any(_says_the_end(name, value) for name, value in attributes.items())


def _says_the_end(name: str, value: Any) -> bool:
    """Return True for an attribute with a finish reason, in its name or in its JSON."""
    if name.endswith(("finish_reason", "finish_reasons", "finishReason", "stop_reason")):
        return bool(parse(value))
    return type(value) is str and value[:1] in ("{", "[") and _FINISH.search(value) is not None


def _lost_its_end(attributes: Mapping[str, Any], prefix: str) -> bool:
    """Return True for a list that begins at its beginning, with no attribute after it.

    Some SDKs drop the attributes above a limit, the others the oldest ones.
    """
    # SDKs keep attributes in the order in which they were set.
    last = next(reversed(tuple(attributes)), "")
    return last.startswith(prefix) and any(name.startswith(prefix + "0.") for name in attributes)


def _said(reader: SpanReader, value: Any, side: str, role: str) -> tuple[tuple[Message, ...], bool, bool]:
    """Return the messages of an attribute, if it is truncated, and if they are only its JSON as text.

    JSON without messages is the text of a message, unless another attribute contains messages.
    """
    messages = typed_messages(value)
    if messages is not None and (side == "input" or len(messages) == 1 or _is_invocation(reader)):
        return messages, False, False
    parsed, cut = parse_or_repair(value)
    if not _is_invocation(reader):
        parsed = first_choice(parsed)
    messages = () if are_numbers(parsed) else _messages(parsed, side, role)
    if not messages and not cut and is_data(parse(parsed)):
        return (text_message(role, text_of(parsed if type(parsed) is str else value)),), False, True
    return messages, cut, False


def _is_invocation(reader: SpanReader) -> bool:
    """Return True for an agent's or a workflow's span, whose consecutive messages are no choices."""
    return str(reader.attributes.get("gen_ai.operation.name")).startswith("invoke_")


def _cut_off(messages: tuple[Message, ...], value: Any) -> tuple[Message, ...]:
    """Mark the last part as truncated, or add an empty message if whole messages are missing."""
    *whole, last = messages
    for part in last.parts[-1:]:
        if part.media is not None or _ends_in(value, part.text):
            media = part.media and replace(part.media, base64=None, size=None, digest=None)
            cut = replace(part, truncated=True, media=media)
            return (*whole, replace(last, parts=(*last.parts[:-1], cut)))
    return (*messages, Message(role="unknown"))


def _ends_in(value: str, text: str | None) -> bool:
    """Return True if JSON was truncated inside this text."""
    if not text:
        return False
    # Writers differ in whether they escape letters outside of ASCII.
    tails = tuple(json.dumps(text, ensure_ascii=escaped)[1:-1][-20:] for escaped in (True, False))
    return without_cut_mark(value).rstrip("\\").endswith(tails)


def _messages(value: Any, side: str, role: str) -> tuple[Message, ...]:
    """Return the messages of a value, which may be a list of events."""
    if not _are_events(value):
        return read_messages(value, role)
    asked, said = event_messages((event_name(v), v) for v in value)
    end = len(asked)
    while end and not said and asked[end - 1].role == "assistant":
        end -= 1
    return tuple(asked[:end]) if side == "input" else tuple(said or asked[end:])


def _are_events(value: Any) -> bool:
    """Return True for a list of events, which have names or end with a choice."""
    if not isinstance(value, (list, tuple)):
        return False
    ends = [v for v in (*value[:1], *value[-1:]) if isinstance(v, dict)]
    return any("event.name" in v or v.keys() >= {"index", "message"} for v in ends)


def _answer(reader: SpanReader) -> tuple[Message, ...]:
    """Return a final answer that has a separate attribute."""
    for _, key in reader.found_at.get("answer", ()):
        value = reader.attributes[key]
        if value != "" and not is_masked(value):
            reader.note("output", key)
            return (text_message("assistant", text_of(value)),)
    return ()


def _from_events(reader: SpanReader, side: str, messages: list[Message]) -> tuple[Message, ...]:
    if messages:
        key = "gen_ai.choice" if side == "output" else "gen_ai.user.message"
        _note(reader, side, key, _content_in(messages)[1], cut=False)
    return tuple(messages)
