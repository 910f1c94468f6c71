"""The parts of messages: texts, thoughts, tool calls and their results, media."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from otel_evals.model import Part
from otel_evals_instrumentation.values import literal, parse

__all__ = [
    "blocks_in",
    "is_definition",
    "is_part",
    "read_part",
    "read_parts",
    "result_value",
    "text_of",
    "tool_call",
]

_TEXTS = {"text", "input_text", "output_text", "text_delta", "refusal", "summary_text"}
_THOUGHTS = {"reasoning", "thinking", "redacted_thinking", "reasoning_content", "thought"}
_CALLS = {
    "tool_call",
    "tool_use",
    "tool-call",
    "function_call",
    "server_tool_call",
    "server_tool_use",
    "tooluse",
    "function",
}
_RESULTS = {
    "tool_call_response",
    "tool_result",
    "tool-result",
    "tool_response",
    "function_call_output",
    "function_result",
    "server_tool_call_response",
    "tool-error",
}
_MEDIA = {
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "file",
    "input_file",
    "blob",
    "uri",
    "media",
    "document",
    "binary",
}


_UNTYPED = frozenset(
    (
        "text",
        "toolUse",
        "toolResult",
        "function_call",
        "function_response",
        "functionCall",
        "functionResponse",
        "reasoningContent",
        "inline_data",
        "inlineData",
        "file_data",
        "tool_kwargs",
        "tool_call",
        "tool_call_result",
        "toolRequest",
        "toolResponse",
        "message_content",
    )
)


def is_part(item: dict[str, Any]) -> bool:
    """Whether a mapping is a part of a message, and not a message."""
    if "role" in item or "parts" in item or "message" in item:
        return False
    kind = item.get("type")
    if isinstance(kind, str):
        return kind in _BY_TYPE
    return len(item) <= 4 and not _UNTYPED.isdisjoint(item)


def is_definition(item: Any) -> bool:
    """Whether a value describes a tool on offer, in OpenAI's form, instead of a call of it."""
    if not isinstance(item, dict) or item.get("type") != "function":
        return False
    function = item.get("function")
    return isinstance(function, dict) and "parameters" in function and "arguments" not in function


def read_parts(content: Any) -> tuple[Part, ...]:
    """The parts of a message's content."""
    if content is None or content == "":
        return ()
    if isinstance(content, str):
        return (Part(kind="text", text=content),)
    if isinstance(content, dict):
        inner = content.get("parts")
        return read_parts(inner) if isinstance(inner, (list, tuple)) else (read_part(content),)
    if isinstance(content, (list, tuple)):
        return tuple(read_part(item) for item in content if item is not None)
    return (Part(kind="text", text=text_of(content)),)


def blocks_in(text: str) -> Any:
    """The parts that a text spells out as JSON, where all of it are parts with a type; else the text."""
    parsed = parse(text)
    if isinstance(parsed, list) and all(isinstance(p, dict) and p.get("type") in _KNOWN for p in parsed):
        return parsed
    return text


def read_part(item: Any) -> Part:
    """One part, whichever provider's form it has."""
    if isinstance(item, str):
        return Part(kind="text", text=item)
    if not isinstance(item, dict):
        return Part(kind="other", data=item)
    kind = item.get("type")
    if kind is None:
        return _text(item) if len(item) == 1 and "text" in item else _untyped(item)
    read = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if read is not None:
        return read(item)
    if isinstance(kind, str) and kind.startswith("image"):
        return Part(kind="media", data=item)
    return Part(kind="other", data=item)


def _text(item: dict[str, Any]) -> Part:
    for key in ("content", "text", "value", "refusal"):
        value = item.get(key)
        if isinstance(value, dict):
            value = value.get("value")
        if value is not None:
            return Part(kind="text", text=value if isinstance(value, str) else text_of(value))
    return Part(kind="text")


def _thought(item: dict[str, Any]) -> str | None:
    for key in ("content", "text", "thinking", "reasoning"):
        value = item.get(key)
        if isinstance(value, str):
            return value
    summary = item.get("summary")
    if isinstance(summary, (list, tuple)):
        return "\n\n".join(str(s.get("text", "")) for s in summary if isinstance(s, dict)) or None
    return summary if isinstance(summary, str) else None


def _untyped(item: dict[str, Any]) -> Part:
    """Bedrock's and Gemini's parts say what they are by their only key."""
    for key in ("toolUse", "function_call", "functionCall", "tool_call", "tool_use", "toolRequest"):
        if isinstance(item.get(key), dict):
            return tool_call(item[key])
    for key in (
        "toolResult",
        "function_response",
        "functionResponse",
        "tool_result",
        "tool_call_result",
        "toolResponse",
    ):
        if isinstance(item.get(key), dict):
            return _result(item[key])
    if "tool_kwargs" in item or ("tool_name" in item and "arguments" in item):
        return tool_call(item)
    if "result" in item and isinstance(item.get("origin"), dict):
        return _result(item)
    if isinstance(item.get("message_content"), dict):
        return read_part(item["message_content"])
    if isinstance(item.get("text"), str):
        return Part(kind="reasoning" if item.get("thought") is True else "text", text=item["text"])
    if isinstance(item.get("content"), str):
        return Part(kind="text", text=item["content"])
    thought = item.get("reasoningContent")
    if isinstance(thought, dict):
        inner = thought.get("reasoningText")
        return Part(kind="reasoning", text=inner.get("text") if isinstance(inner, dict) else None)
    if any(
        key in item
        for key in ("inline_data", "inlineData", "file_data", "image", "document", "video", "image_url")
    ):
        return Part(kind="media", data=item)
    return Part(kind="other", data=item)


def tool_call(item: dict[str, Any]) -> Part:
    """A tool call: the name and arguments may stand in it or in a `function` below."""
    inner = item.get("tool_call")
    if isinstance(inner, dict):
        item = inner
    function = item.get("function")
    source = {**item, **function} if isinstance(function, dict) else item
    arguments = None
    for key in ("arguments", "args", "input", "parameters", "tool_kwargs"):
        if source.get(key) is not None:
            arguments = source[key]
            break
    if isinstance(arguments, str):
        parsed = parse(arguments)
        arguments = literal(arguments) if parsed is arguments else parse(parsed)
    elif arguments is None:
        server = item.get("server_tool_call")
        arguments = {k: v for k, v in server.items() if k != "type"} if isinstance(server, dict) else None
    return Part(
        kind="tool_call",
        data=arguments,
        tool_call_id=_string(source, "call_id", "tool_call_id", "toolCallId", "toolUseId", "id", "ref"),
        name=_string(source, "name", "toolName", "tool_name", "function_name"),
    )


def _result(item: dict[str, Any]) -> Part:
    value: Any = None
    origin = item.get("origin")
    item = {**origin, **item} if isinstance(origin, dict) else item
    for key in ("response", "result", "output", "content", "server_tool_call_response", "error"):
        if item.get(key) is not None:
            value = item[key]
            break
    failed = (
        item.get("status") == "error"
        or item.get("is_error") is True
        or item.get("isError") is True
        or item.get("type") == "tool-error"
        or item.get("error") is True
    )
    if isinstance(value, dict) and str(value.get("type", "")).startswith("error-"):
        failed = True
    return Part(
        kind="tool_result",
        data=result_value(value),
        tool_call_id=_string(
            item, "call_id", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "id", "ref"
        ),
        name=_string(item, "name", "toolName", "tool_name"),
        failed=failed,
    )


def result_value(value: Any) -> Any:
    """A tool's result as the value it was, out of the wrappings of texts and typed outputs."""
    value = parse(value)
    if isinstance(value, dict):
        if set(value) == {"type", "value"}:  # Vercel: {"type": "text" | "json" | "error-text", "value": ...}
            return value["value"]
        if set(value) == {"result"}:  # Gemini wraps what is not an object
            return value["result"]
        if "raw_output" in value and "tool_name" in value:  # LlamaIndex
            return value["raw_output"]
        if isinstance(value.get("content"), (list, tuple)) and set(value) <= {
            "content",
            "isError",
            "structuredContent",
            "_meta",
        }:
            return result_value(value["content"])
        return value
    if isinstance(value, (list, tuple)) and value and all(_is_text(item) for item in value):
        return parse("\n\n".join(str(item.get("text", item.get("content", ""))) for item in value))
    if (
        isinstance(value, (list, tuple))
        and len(value) == 1
        and isinstance(value[0], dict)
        and set(value[0]) == {"json"}
    ):
        return value[0]["json"]
    return value


def _is_text(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("text", item.get("content")), str)
        and set(item) <= {"type", "text", "content", "annotations"}
        and item.get("type", "text") == "text"
    )


def text_of(value: Any) -> str:
    """A value as text: texts as they are, everything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _string(item: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = item.get(key)
        if isinstance(value, str) and value and value != "<not specified>":
            return value
    return None


def _reasoning(item: dict[str, Any]) -> Part:
    return Part(kind="reasoning", text=_thought(item))


def _media(item: dict[str, Any]) -> Part:
    return Part(kind="media", data=item)


_BY_TYPE: dict[str, Callable[[dict[str, Any]], Part]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_THOUGHTS, _reasoning),
    **dict.fromkeys(_CALLS, tool_call),
    **dict.fromkeys(_RESULTS, _result),
    **dict.fromkeys(_MEDIA, _media),
}
_KNOWN = tuple(_BY_TYPE)
