"""Decodes messages of the current GenAI conventions from JSON text by their type.

Messages in another form are left to the reader of all forms, `messages`, which is slower.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.tool_parts import tool_call, tool_result
from otel_evals_instrumentation._internal.readers.values import MASKS, MAX_TEXT, json_bytes, unmasked

MAX_MESSAGES: Final = 5_000


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


_ROLE = attrgetter("role")  # without a Python call for each message
_decode = msgspec.json.Decoder(list[_Said]).decode


def typed_messages(value: Any) -> tuple[Message, ...] | None:
    """Decode the messages of a JSON text; None if any has another form."""
    if type(value) is not str or value[:2] != "[{" or len(value) > MAX_TEXT:
        return None
    try:
        said = _decode(json_bytes(value))
    except (ValueError, RecursionError):
        return None
    if len(said) > MAX_MESSAGES:
        return None
    messages = tuple(map(_message, said))
    return None if "tool" in map(_ROLE, said) and any(map(_is_textual_result, messages)) else messages


def _message(said: _Said) -> Message:
    return Message(role=said.role, parts=tuple(map(_part, said.parts)), name=said.name or None)


def _part(part: _Text | _Call | _Result) -> Part:
    if type(part) is _Text:
        text = part.content
        return Part(kind="text", text=unmasked(text) if text[:1] in MASKS else text)
    read = tool_call if type(part) is _Call else tool_result
    return read({"type": part.__struct_config__.tag, **msgspec.structs.asdict(part)})


def _is_textual_result(message: Message) -> bool:
    """Return True for a tool's message with text only: this text is the result."""
    return message.role == "tool" and {part.kind for part in message.parts} == {"text"}
