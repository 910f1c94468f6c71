"""Inputs and outputs of operations: messages, system instructions, tool definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec

from otel_evals.model import Availability, Message, Part
from otel_evals_instrumentation._internal.readers.endings import (
    STREAMS,
    cut_off,
    lost_its_end,
    may_have_called,
    repeats_error,
    was_left,
)
from otel_evals_instrumentation._internal.readers.envelopes import are_numbers, first_choice, is_data
from otel_evals_instrumentation._internal.readers.events import event_messages, messages_of
from otel_evals_instrumentation._internal.readers.messages import MAX_MESSAGES, read_messages
from otel_evals_instrumentation._internal.readers.parts import LISTS, spread, text_message, text_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import tool_call, tool_result
from otel_evals_instrumentation._internal.readers.values import (
    MASKS,
    MAX_TEXT,
    is_masked,
    listed,
    mapping,
    mask_in,
    parse,
    parse_or_repair,
    without_envelope,
)
from otel_evals_instrumentation._internal.readers.vocabulary import ROLES, first_count

_ERROR_ENDING = re.compile(r'"finish_reason":\s*"error"[^{}]*\}\s*\]$')
_NO_MESSAGES: tuple[Any, ...] = ("", "null", "[]", "{}", [], ())
"""Values of an attribute for messages that were recorded, and were none."""
_NOWHERE = ("", None)
_LONGEST_CACHED = 50_000
"""Do not cache longer definitions."""


def read_inputs_outputs(reader: SpanReader) -> None:
    """Read input and output messages, system instructions and tool definitions."""
    inputs = _side(reader, "input", "user")
    outputs = _answer(reader) or _side(reader, "output", "assistant")
    if reader.events:
        asked, said = event_messages(reader.events)
        inputs = inputs or _from_events(reader, "input", asked)
        outputs = outputs or _from_events(reader, "output", said)
    failed = reader.span.status == "ERROR"
    if outputs and (_ended_in_error(reader) or (failed and repeats_error(reader.span, outputs[-1].text))):
        outputs = ()
        # With its note, the error would count as a recorded answer.
        reader.noted.pop("output", None)
    reader.fields["input_messages"] = inputs
    reader.fields["output_messages"] = outputs
    read_system(reader, inputs, outputs)
    if "new_messages_from" in reader.found_at:
        keys = reader.found_at["new_messages_from"]
        reader.fields["new_messages_from"] = first_count(reader.attributes, keys)
    for key in reader.found_at.get("definitions", ()):
        reader.fields["tool_definitions"] = _definitions(reader.attributes[key])
        if reader.fields["tool_definitions"]:
            return


def _ended_in_error(reader: SpanReader) -> bool:
    """Return True for an agent whose last message ends with an error instead of an answer."""
    key, _ = reader.noted.get("output", _NOWHERE)
    value = reader.attributes.get(key)
    if type(value) is not str or not _is_invocation(reader):
        return False
    # Only the end is searched: an output may have millions of characters.
    return _ERROR_ENDING.search(value, max(0, len(value) - 100)) is not None


def _side(reader: SpanReader, side: str, role: str) -> tuple[Message, ...]:
    """Return the messages of the first attribute with content, or else of the first attribute."""
    best: tuple[Message, ...] = ()
    for key in reader.found_at.get(side, ()):
        is_list = key.endswith(".*")
        value = reader.value(key) if is_list else reader.attributes[key]
        if type(value) is str and value[:2] != "[{":
            if is_masked(value):
                if not best:
                    reader.noted[side] = key, Availability.CAPTURED_OFF
                continue
            value = without_envelope(value)
        if value in _NO_MESSAGES:
            # A note of an earlier attribute stays, because it is trusted more.
            reader.noted.setdefault(side, (key, Availability.EMPTY))
            continue
        messages, cut, is_text = _said(reader, value, side, role)
        has_content, speaks = (False, True) if is_text else _content_in(messages)
        if not has_content:
            # A description of an agent has a role too, but is no message.
            messages = tuple(each for each in messages if each.parts or each.role in ROLES)
            if best or not messages:
                continue
            if may_have_called(reader.attributes):
                best = messages
                continue
        best = cut_off(messages, value) if cut else messages
        if is_list and side == "input" and reader.span.dropped_attributes > 0:
            cut = True
            best = lost_its_end(messages, reader.attributes, key[:-1])
        _note(reader, side, key, speaks, cut)
        if has_content:
            return best
    return best


def _note(reader: SpanReader, side: str, key: str, speaks: bool, cut: bool) -> None:
    if side == "output" and not STREAMS.isdisjoint(reader.attributes):
        cut = cut or was_left(reader.span, reader.attributes)
    whole = Availability.PRESENT if speaks else Availability.EMPTY
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
    messages = () if are_numbers(parsed) else messages_of(parsed, side, role)
    if not messages and not cut and is_data(parse(parsed)):
        return (text_message(role, text_of(parsed if type(parsed) is str else value)),), False, True
    return messages, cut, False


def _is_invocation(reader: SpanReader) -> bool:
    """Return True for an agent's or a workflow's span, whose consecutive messages are no choices."""
    return str(reader.attributes.get("gen_ai.operation.name")).startswith("invoke_")


def _answer(reader: SpanReader) -> tuple[Message, ...]:
    """Return a final answer that has a separate attribute."""
    for key in reader.found_at.get("answer", ()):
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


# --- messages in the form of OpenTelemetry's conventions, decoded at once into types ---


class _Text(msgspec.Struct, tag_field="type", tag="text", gc=False):
    content: str


class _Call(msgspec.Struct, tag_field="type", tag="tool_call", forbid_unknown_fields=True):
    name: str
    id: str | None = None
    arguments: Any = None


class _Result(msgspec.Struct, tag_field="type", tag="tool_call_response", forbid_unknown_fields=True):
    id: str | None = None
    response: Any = None
    result: Any = None


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system", "tool"]
    parts: list[_Text | _Call | _Result]
    name: str | None = None
    finish_reason: Any = None


# The usual form is decoded in C; an unknown field leaves the text to the general reader.
_decode = msgspec.json.Decoder(list[_Said]).decode


def typed_messages(value: Any) -> tuple[Message, ...] | None:
    """Decode the messages of a JSON text; None if any has another form."""
    if type(value) is not str or value[:2] != "[{" or len(value) > MAX_TEXT:
        return None
    try:
        # Given as a text, msgspec would cache its UTF-8 form on it.
        said = _decode(value if value.isascii() else value.encode())
    except (ValueError, RecursionError):
        return None
    messages = tuple(map(_message, said[:MAX_MESSAGES]))
    for message in messages:
        # A tool's message with text only, or with nothing, is the result.
        if message.role == "tool" and {part.kind for part in message.parts} <= {"text"}:
            return None
        if message.name and is_masked(message.name):
            return None
    return messages


def _message(said: _Said) -> Message:
    parts = tuple(map(_part, said.parts))
    for part in parts:
        if part.text and part.text[:2] in LISTS:
            parts = spread(parts)
            break
    return Message(role=said.role, parts=parts, name=said.name or None)


def _part(part: _Text | _Call | _Result) -> Part:
    if type(part) is _Text:
        text = part.content
        # Most texts begin like no mask.
        return Part(kind="text", text=None if text[:1] in MASKS and mask_in(text) else text)
    read = tool_call if type(part) is _Call else tool_result
    return read({"type": part.__struct_config__.tag, **msgspec.structs.asdict(part)})


# --- content beside the messages ---


def read_system(reader: SpanReader, inputs: tuple[Message, ...], outputs: tuple[Message, ...] = ()) -> None:
    """Read the system instructions from attributes of their own, or else from messages.

    Some agents have them only in their output, with the whole conversation.
    """
    own = reader.found_at.get("system", ())
    recorded = [((key, Availability.PRESENT), read_messages(reader.attributes[key], "system")) for key in own]
    noted = reader.noted.get
    for source, messages in (*recorded, (noted("input"), inputs), (noted("output"), outputs)):
        # A list is built without a call for each message.
        text = "\n\n".join([m.text for m in messages if m.role == "system" and m.text])
        if text and source is not None:
            reader.fields["system_instructions"] = text
            reader.noted["system"] = source
            return


def _definitions(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the definitions of the tools that a model may call."""
    is_short = type(value) is str and len(value) <= _LONGEST_CACHED
    return _cached_definitions(value) if is_short else _decoded_definitions(value)


def _decoded_definitions(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(filter(None, map(mapping, listed(value))))


_cached_definitions = lru_cache(maxsize=64)(_decoded_definitions)
"""Cached, because an application's model calls repeat the same tools."""


def take_answer(reader: SpanReader) -> None:
    """Move the assistant's messages at the end of an agent's input to its output."""
    given = reader.fields["input_messages"]
    end = len(given)
    while end and given[end - 1].role == "assistant":
        end -= 1
    if end < len(given) and not reader.fields["output_messages"]:
        reader.fields["input_messages"], reader.fields["output_messages"] = given[:end], given[end:]
        key, _ = reader.noted.get("input", ("events", None))
        reader.note("output", key)


def unwrap_state(reader: SpanReader) -> None:
    """Replace a workflow's state in a user's message by the messages in it."""
    messages = reader.fields["input_messages"]
    text = messages[0].text if len(messages) == 1 else ""
    # The text of a whole attribute is one that has no messages.
    if text[:1] == "{" and not any(value is text for value in reader.attributes.values()):
        reader.fields["input_messages"] = read_messages(text) or messages


def add_calls(reader: SpanReader, keys: Sequence[str]) -> None:
    """Add the calls of a response to its texts; the first of these attributes that is there has them."""
    key = next(filter(reader.attributes.__contains__, keys), keys[0])
    calls = [tool_call(mapping(item)) for item in listed(reader.attributes.get(key))]
    if calls:
        said = [part for message in reader.fields.get("output_messages", ()) for part in message.parts]
        texts = [part for part in said if part.kind != "tool_call"]
        reader.set_messages("output", (Message(role="assistant", parts=(*texts, *calls)),), key)
