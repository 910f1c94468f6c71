"""Messages in the form of OpenTelemetry's conventions, decoded at once into types."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.messages import MAX_MESSAGES
from otel_evals_instrumentation._internal.readers.parts import LISTS, spread
from otel_evals_instrumentation._internal.readers.tool_values import tool_call, tool_result
from otel_evals_instrumentation._internal.readers.values import MASKS, MAX_TEXT, unmasked


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
        return Part(kind="text", text=unmasked(text) if text[:1] in MASKS else text)
    read = tool_call if type(part) is _Call else tool_result
    return read({"type": part.__struct_config__.tag, **msgspec.structs.asdict(part)})
