"""Python values as GenAI attributes hold them: JSON text, message lists, documents.

Nothing here raises, whatever an application's objects do, and no text gets longer than `MAX_TEXT`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from otel_evals.dialects import field_values
from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.messages import read_messages

MAX_TEXT = 1_000_000
"""Longer texts are cut off, as OpenTelemetry's own attribute length limit would do."""

_MAX_REPR = 1_000
_MAX_DEPTH = 30
_REASONS = {
    "end_turn": "stop",
    "function_call": "tool_call",
    "max_tokens": "length",
    "stop_sequence": "stop",
    "tool_calls": "tool_call",
    "tool_use": "tool_call",
}


# --- any value ---


def json_text(value: Any) -> str:
    """A value as JSON text. What JSON has no form for is written as its repr, bounded."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain_object)
        text.encode()  # lone surrogates would make the exporter fail
    except Exception:
        text = _mended(value)
    return text[:MAX_TEXT]


def plain_text(value: Any) -> str:
    """Texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return value[:MAX_TEXT].encode("utf-8", "replace").decode()
    return json_text(value)


def attribute_value(value: Any) -> str | bool | int | float:
    """A value that may be anything: texts, numbers and truth values as they are, the rest as JSON."""
    if isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return value if isinstance(value, float) else plain_text(value)


def _mended(value: Any) -> str:
    try:
        return json.dumps(_plain(value, ()), ensure_ascii=False)
    except Exception:
        return json.dumps(_described(value))


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    """A value that JSON surely has a form for: cycles, depth, odd keys and odd numbers described."""
    if isinstance(value, str):
        return plain_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if id(value) in above or len(above) > _MAX_DEPTH:
        return "..."
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return {str(_plain(key, inside)): _plain(item, inside) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, inside) for item in value]
    return _plain(_plain_object(value), inside)


def _plain_object(value: Any) -> Any:
    """One level of an object in terms that JSON has."""
    try:
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        if (held := field_values(value)) is not None:
            return held
        if isinstance(value, Enum):
            return value.value
        if isinstance(value, date | datetime | time):
            return value.isoformat()
        if isinstance(value, UUID | Decimal | PurePath):
            return str(value)
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, Set | Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return list(value)
    except Exception:
        return _described(value)
    return _described(value)


def _described(value: Any) -> str:
    try:
        return repr(value)[:_MAX_REPR].encode("utf-8", "replace").decode()
    except Exception:
        return f"<{type(value).__name__}>"


# --- messages ---


def messages(value: Any, role: str) -> list[Any]:
    """A GenAI message list: of a text, of messages in any provider's form, of a provider's reply.

    Whatever is no message becomes the text of one, with the role given.
    """
    if not isinstance(value, str):
        value = _items(value)
        if _are_messages(value):
            if all("parts" in item for item in value):
                return list(value)
            read = read_messages(value, role)
            if read:
                return [_message(message) for message in read]
    return [{"role": role, "parts": [{"type": "text", "content": plain_text(value)}]}]


def answers(value: Any, reason: Any = None) -> list[Any]:
    """What came out as a GenAI message list; each message says why it ended, as readers require it.

    `reason` is what the provider said; without it, a message that calls tools ended for that, others stopped.
    """
    return [_ended(message, reason) for message in messages(value, "assistant")]


def _ended(message: Any, reason: Any) -> Any:
    if "finish_reason" in message:
        return message
    parts = [part for part in message["parts"] if isinstance(part, Mapping)]
    calls = any(part.get("type") == "tool_call" for part in parts)
    said = _REASONS.get(reason, reason) if isinstance(reason, str) else None
    return {**message, "finish_reason": said or ("tool_call" if calls else "stop")}


def instructions(value: Any) -> list[Any]:
    """System instructions as a list of parts: of a text, or of parts."""
    if isinstance(value, list):
        return value
    return [{"type": "text", "content": plain_text(value)}]


def definitions(tools: Iterable[Any]) -> list[Any]:
    """Tool definitions in OpenTelemetry's form, of those in OpenAI's or Anthropic's."""
    return [_definition(tool) for tool in _items(tools)]


def is_reply(value: Any) -> bool:
    """Whether a value is a provider's whole reply, or a chunk of one, not merely a message or a text."""
    if isinstance(value, str):
        return False
    if get(value, "object") == "response" or (get(value, "role") and get(value, "stop_reason")):
        return True
    lists = (("choices", "message"), ("choices", "delta"), ("candidates", "content"))
    return any(get(first(value, items), key) is not None for items, key in lists)


def get(value: Any, key: str) -> Any:
    """A mapping's item or an object's attribute of that name, else None."""
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def first(value: Any, key: str) -> Any:
    """The first of the list that `get` finds, else None."""
    items = get(value, key)
    return items[0] if isinstance(items, list | tuple) and items else None


def _items(value: Any) -> Any:
    """A value's messages or items without their classes; other values come back as they are."""
    if isinstance(value, list | tuple):
        return [_open(item) for item in value]
    value = _open(value)
    if isinstance(value, Mapping) and ("role" in value or is_reply(value)):
        return [value]
    return value


def _open(item: Any) -> Any:
    return item if isinstance(item, str | Mapping) or item is None else _plain_object(item)


def _are_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, Mapping) and ("role" in item or is_reply(item)) for item in value)
    )


def _message(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "parts": [_part(part) for part in message.parts]}
    if message.name:
        written["name"] = message.name
    return written


def _part(part: Part) -> dict[str, Any]:
    if part.kind == "tool_call":
        return {"type": "tool_call", "id": part.tool_call_id, "name": part.name, "arguments": part.data}
    if part.kind == "tool_result":
        return {"type": "tool_call_response", "id": part.tool_call_id, "response": part.data}
    if part.kind in ("text", "reasoning"):
        return {"type": part.kind, "content": part.text or ""}
    return part.data if isinstance(part.data, dict) else {"type": "generic", "content": part.data}


def _definition(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    inner = tool.get("function")
    merged = {**tool, **inner} if isinstance(inner, Mapping) else dict(tool)
    merged.pop("function", None)
    if "input_schema" in merged:
        merged["parameters"] = merged.pop("input_schema")
    return {"type": "function", **merged}


# --- documents ---


def documents(found: Any) -> list[dict[str, Any]]:
    """Documents in OpenTelemetry's form: of texts, mappings, or objects such as a vector store's."""
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        found = [found]
    return [_document(item) for item in found]


def _document(item: Any) -> dict[str, Any]:
    score = None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], int | float):
        item, score = item  # what searches with scores return
    opened = _open(item)
    if not isinstance(opened, Mapping):
        written: dict[str, Any] = {"content": plain_text(getattr(item, "page_content", opened))}
    else:
        written = dict(opened)
        for name in ("page_content", "text"):
            if name in written and "content" not in written:
                written["content"] = written.pop(name)
    if score is not None:
        written["score"] = score
    if written.get("id") is not None:
        written["id"] = str(written["id"])
    return written
