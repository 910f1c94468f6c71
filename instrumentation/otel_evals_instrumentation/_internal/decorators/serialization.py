"""Converts Python values to GenAI attributes: JSON text, message lists, documents.

Nothing here raises, whatever an application's objects do, and texts are cut to `MAX_TEXT`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from otel_evals.conventions import plain_value
from otel_evals.model import Media, Message, Part
from otel_evals_instrumentation._internal.readers.messages import read_messages

MAX_TEXT = 1_000_000
"""Characters; longer texts are cut, as by OpenTelemetry's attribute length limit."""
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
    """Return a value as JSON text; objects without a JSON form become text."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
        text.encode()  # lone surrogates would make the exporter fail
    except Exception:
        # Slower than the encoder, which refuses cycles, NaN and unusual keys.
        text = json.dumps(_plain(value), ensure_ascii=False)
    return text[:MAX_TEXT]


def plain_text(value: Any) -> str:
    """Return a text unchanged, everything else as JSON."""
    if isinstance(value, str):
        # Lone surrogates have no UTF-8, and would fail the export.
        return value[:MAX_TEXT].encode("utf-8", "replace").decode()
    return json_text(value)


def attribute_value(value: Any) -> str | bool | int | float:
    """Return texts, numbers and booleans unchanged, the rest as JSON."""
    # Integers have 64 bits in OTLP.
    if isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    return value if isinstance(value, float) else plain_text(value)


def _plain(value: Any) -> Any:
    # Items take two characters each: a text that is not cut has all of them, so a cut one is no JSON.
    return plain_value(value, MAX_TEXT, MAX_TEXT // 2)


# --- messages ---


def messages(value: Any, role: str) -> list[Any]:
    """Build a GenAI message list from a text, messages in any provider's form, or a provider's reply.

    Other values become the text of a message with the given role.
    """
    if not isinstance(value, str):
        value = _items(value)
        items = value if isinstance(value, list) else []
        if items and all(isinstance(item, Mapping) and ("role" in item or is_reply(item)) for item in items):
            if all("parts" in item for item in value):
                return list(value)
            if read := read_messages(value, role):
                return [_message(message) for message in read]
    return [{"role": role, "parts": [{"type": "text", "content": plain_text(value)}]}]


def answers(value: Any, reason: Any = None) -> list[Any]:
    """Build a GenAI message list with finish reasons, which readers require.

    Without the provider's `reason`, it is `tool_call` for messages that call tools, and `stop` for others.
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
    """Build a list of parts from system instructions."""
    if isinstance(value, list):
        return value
    return [{"type": "text", "content": plain_text(value)}]


def definitions(tools: Iterable[Any]) -> list[Any]:
    """Convert tool definitions from OpenAI's or Anthropic's form to OpenTelemetry's."""
    return [_definition(tool) for tool in _items(tools)]


def is_reply(value: Any) -> bool:
    """Return True for a provider's reply or its chunk, False for a message or a text."""
    if isinstance(value, str):
        return False
    if get(value, "object") == "response" or (get(value, "role") and get(value, "stop_reason")):
        return True
    lists = (("choices", "message"), ("choices", "delta"), ("candidates", "content"))
    return any(get(first(value, items), key) is not None for items, key in lists)


def get(value: Any, *keys: str) -> Any:
    """Return the first of a mapping's items or an object's attributes that is there; None if none is."""
    for key in keys:
        found = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        if found is not None:
            return found
    return None


def first(value: Any, key: str) -> Any:
    """Return the first item of the list at this key; None if there is none."""
    items = get(value, key)
    return items[0] if isinstance(items, list | tuple) and items else None


def _items(value: Any) -> Any:
    """Convert items of a list, or a single message, to mappings; return other values unchanged."""
    if isinstance(value, list | tuple):
        return [_open(item) for item in value]
    value = _open(value)
    if isinstance(value, Mapping) and ("role" in value or is_reply(value)):
        return [value]
    return value


def _open(item: Any) -> Any:
    return item if isinstance(item, str | Mapping) or item is None else _plain(item)


def _message(message: Message) -> dict[str, Any]:
    name = {"name": message.name} if message.name else {}
    return {"role": message.role, "parts": [_part(part) for part in message.parts], **name}


def _part(part: Part) -> dict[str, Any]:
    if part.kind == "tool_call":
        return {"type": "tool_call", "id": part.tool_call_id, "name": part.name, "arguments": part.data}
    if part.kind == "tool_result":
        return {"type": "tool_call_response", "id": part.tool_call_id, "response": part.data}
    if part.kind in ("text", "reasoning"):
        return {"type": part.kind, "content": part.text or ""}
    if part.media is not None:
        return _media(part.media)
    return part.data if isinstance(part.data, dict) else {"type": "generic", "content": part.data}


def _media(media: Media) -> dict[str, Any]:
    """Return a part with an address, a file's id or bytes, in this order."""
    written = {"modality": media.kind, "mime_type": media.mime_type, "name": media.name}
    if media.uri is not None:
        written |= {"type": "uri", "uri": media.uri}
    elif media.file_id is not None:
        written |= {"type": "file", "file_id": media.file_id}
    else:
        written |= {"type": "blob", "content": media.base64}
    return {name: value for name, value in written.items() if value is not None}


def _definition(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    inner = tool.get("function")
    merged = {**tool, **inner} if isinstance(inner, Mapping) else dict(tool)
    merged.pop("function", None)
    if "input_schema" in merged:
        # Anthropic's name of the schema.
        merged["parameters"] = merged.pop("input_schema")
    return {"type": "function", **merged}


# --- documents ---


def documents(found: Any) -> list[dict[str, Any]]:
    """Convert texts, mappings, or objects such as a vector store's to OpenTelemetry's documents."""
    if isinstance(found, str | Mapping) or not isinstance(found, Iterable):
        found = [found]
    return [_document(item) for item in found]


def _document(item: Any) -> dict[str, Any]:
    score = None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], int | float):
        item, score = item  # the result of a search with scores
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
