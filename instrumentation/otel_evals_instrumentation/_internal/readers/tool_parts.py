"""Tool calls and results as parts of messages, in any provider's form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Part
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.values import is_masked, literal, parse, unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import words

_IDS = words("call_id tool_call_id tool_use_id toolCallId toolUseId id ref tool_id")


def tool_call(item: dict[str, Any]) -> Part:
    """Read a tool call, whose name and arguments may be in a `function` inside."""
    inner = item.get("tool_call")
    if isinstance(inner, dict):
        item = inner
    function = item.get("function")
    source = {**item, **function} if isinstance(function, dict) else item
    arguments = None
    for key in ("arguments", "args", "input", "parameters", "tool_kwargs", "tool_arguments"):
        if source.get(key) is not None:
            arguments = source[key] if source[key] != "" else None
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
        tool_call_id=_string(source, _IDS),
        name=_string(source, ("name", "toolName", "tool_name", "function_name", "tool_function")),
    )


def tool_result(item: dict[str, Any]) -> Part:
    """Read a tool's result: its value, the call's id, and whether the tool failed."""
    value: Any = None
    origin = item.get("origin")
    item = {**origin, **item} if isinstance(origin, dict) else item
    for key in ("response", "result", "output", "content", "server_tool_call_response", "error"):
        if item.get(key) is not None:
            value = unmasked(item[key]) if isinstance(item[key], str) else item[key]
            break
    failed = any(item.get(key) is True for key in ("is_error", "isError", "error"))
    failed = failed or item.get("status") == "error" or item.get("type") == "tool-error"
    if isinstance(value, dict) and str(value.get("type", "")).startswith("error-"):
        failed = True
    return Part(
        kind="tool_result",
        data=result_value(value),
        tool_call_id=_string(item, _IDS),
        name=_string(item, ("name", "toolName", "tool_name")),
        failed=failed,
    )


def unwrapped_value(value: Any) -> Any:
    """Return a result out of `{"result": ...}`, in which Gemini's SDKs wrap texts and lists."""
    return value["result"] if isinstance(value, dict) and value.keys() == {"result"} else value


def unwrapped_result(part: Part) -> Part:
    """Return a tool result with its value unwrapped."""
    value = unwrapped_value(part.data)
    return part if value is part.data else replace(part, data=value)


_BRACKETS = frozenset((("{", "}"), ("[", "]")))
_TYPES = frozenset(("text", "json", "error-text", "error-json", "content"))
"""Types of results in Vercel's AI SDK."""
_MEDIA = frozenset(words("image image_url input_image audio input_audio computer_screenshot"))
_OF_BEDROCK = {"content", "status", "toolUseId"}
_OF_MCP = {"content", "isError", "structuredContent", "_meta"}


def result_value(value: Any) -> Any:
    """Return a tool's result without the wrappers of texts and typed outputs."""
    value = parse(value)
    if type(value) is str and (value[:1], value[-1:]) in _BRACKETS:  # perhaps the repr of an object
        decoded = literal(value)
        value = decoded if isinstance(decoded, (dict, list)) else value
    if isinstance(value, dict):
        if set(value) == {"type", "value"} and value["type"] in _TYPES:
            return value["value"]
        if value.get("type") == "function_result" and "result" in value:  # Microsoft's agents
            return parse(value["result"])
        if value.get("type") == "text" and _is_text(value):  # MCP's only content
            text = unmasked(str(value.get("text", value.get("content"))))
            return None if text is None else parse(text)
        if "raw_output" in value and "tool_name" in value:  # LlamaIndex
            return value["raw_output"]
        if isinstance(value.get("content"), (list, tuple)) and (value.keys() <= _OF_MCP or is_bedrock(value)):
            return result_value(value["content"])
        return _reference(value) if _is_media(value) else value
    if isinstance(value, (list, tuple)) and value and all(_is_text(item) for item in value):
        text = unmasked("\n\n".join(str(item.get("text", item.get("content", ""))) for item in value))
        return None if text is None else parse(text)
    if isinstance(value, (list, tuple)) and len(value) == 1 and _is_json(value[0]):
        return value[0]["json"]
    if isinstance(value, (list, tuple)) and any(map(_is_media, value)):
        return [_reference(item) if _is_media(item) else item for item in value]
    return value


def _is_media(item: Any) -> bool:
    """Return True for an image or a sound in a result, such as a screenshot."""
    return isinstance(item, dict) and item.get("type") in _MEDIA


def _reference(item: dict[str, Any]) -> dict[str, Any]:
    """Replace recorded bytes by their size and digest; results are read by judges and kept in records."""
    media = read_media(item).media
    return item if media is None or media.size is None else media.in_result(item["type"])


def is_bedrock(value: dict[str, Any]) -> bool:
    """Return True for the form of results of Bedrock's and of Strands' tools: a status and typed contents."""
    if value.get("status") not in ("success", "error") or not value.keys() <= _OF_BEDROCK:
        return False
    content = value.get("content")
    typed = content if isinstance(content, (list, tuple)) else ()
    return bool(typed) and all(
        isinstance(item, dict) and item.keys() in ({"text"}, {"json"}) for item in typed
    )


def _is_json(item: Any) -> bool:
    """Return True for a value in a result of Bedrock's."""
    return isinstance(item, dict) and "json" in item and item.keys() <= {"json", "type"}


def _is_text(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("text", item.get("content")), str)
        and set(item) <= {"type", "text", "content", "annotations", "meta", "_meta"}
        and item.get("type", "text") == "text"
    )


def _string(item: dict[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        value = item.get(key)
        if isinstance(value, str) and value and not is_masked(value):
            return value
    return None
