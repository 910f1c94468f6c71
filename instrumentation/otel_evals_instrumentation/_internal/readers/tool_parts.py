"""Tool calls and tool results as parts of messages, in any provider's form."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from otel_evals.model import Part
from otel_evals_instrumentation._internal.readers.values import literal, parse, unmasked


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
            arguments = source[key] if source[key] != "" else None  # how some say that there are none
            break
    if isinstance(arguments, str):
        arguments = unmasked(arguments)
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


def tool_result(item: dict[str, Any]) -> Part:
    """What a tool gave back: its value, the call's id, and whether the tool failed."""
    value: Any = None
    origin = item.get("origin")
    item = {**origin, **item} if isinstance(origin, dict) else item
    for key in ("response", "result", "output", "content", "server_tool_call_response", "error"):
        if item.get(key) is not None:
            value = unmasked(item[key]) if isinstance(item[key], str) else item[key]
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


def unwrapped_value(value: Any) -> Any:
    """A result as the tool gave it: Gemini's SDKs put what is no object into `{"result": ...}`."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def unwrapped_result(part: Part) -> Part:
    """A tool result with its value as the tool gave it."""
    value = unwrapped_value(part.data)
    return part if value is part.data else replace(part, data=value)


_BRACKETS = frozenset((("{", "}"), ("[", "]")))
_TYPES = frozenset(("text", "json", "error-text", "error-json", "content"))
"""How Vercel's AI SDK types a result."""


def result_value(value: Any) -> Any:
    """A tool's result as the value it was, out of the wrappings of texts and typed outputs."""
    value = parse(value)
    if type(value) is str and (value[:1], value[-1:]) in _BRACKETS:  # maybe the repr of an object
        value = _returned(value)
    if isinstance(value, dict):
        if set(value) == {"type", "value"} and value["type"] in _TYPES:
            return value["value"]
        if value.get("type") == "function_result" and "result" in value:  # Microsoft's agents
            return parse(value["result"])
        if value.get("type") == "text" and _is_text(value):  # the only content of MCP's result
            text = unmasked(str(value.get("text", value.get("content"))))
            return None if text is None else parse(text)
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
        text = unmasked("\n\n".join(str(item.get("text", item.get("content", ""))) for item in value))
        return None if text is None else parse(text)
    if isinstance(value, (list, tuple)) and len(value) == 1 and _is_json(value[0]):
        return value[0]["json"]
    return value


def _returned(text: str) -> Any:
    """The object or list behind its repr; other texts come back unchanged."""
    value = literal(text)
    return value if isinstance(value, (dict, list)) else text


def _is_json(item: Any) -> bool:
    """Whether an item is a value as Bedrock's results hold it."""
    return isinstance(item, dict) and "json" in item and item.keys() <= {"json", "type"}


def _is_text(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("text", item.get("content")), str)
        and set(item) <= {"type", "text", "content", "annotations", "meta", "_meta"}
        and item.get("type", "text") == "text"
    )


def _string(item: dict[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = item.get(key)
        if isinstance(value, str) and value and value != "<not specified>":
            return value
    return None
