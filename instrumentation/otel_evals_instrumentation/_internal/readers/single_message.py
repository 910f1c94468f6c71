"""One message in any provider's or framework's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.parts import blocks_in, read_parts, spread
from otel_evals_instrumentation._internal.readers.tool_values import result_value, tool_call
from otel_evals_instrumentation._internal.readers.values import first_present, parse, unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import words

_OTHER_ROLES = {
    "human": "user",
    "developer": "system",
    **dict.fromkeys(words("ai model bot tool-call tool_call"), "assistant"),
    **dict.fromkeys(words("function tool_response tool-response toolresult"), "tool"),
}
ROLES = ("user", "assistant", "tool", "system")
LANGCHAIN = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
}
_TOOL_KINDS = ("tool_result", "tool_call")
_CONTENT = ("parts", "content", "contents", "blocks")
_MEDIA_KEYS = frozenset(("audio", "images"))
"""Media next to the content: OpenAI's spoken answers, images of Ollama and of generating models."""
_CALL_KEYS = frozenset(words("tool_calls toolCalls function_call function_call_name additional_kwargs"))


def role_of(name: Any, default: str = "user") -> str:
    """Return OpenTelemetry's name of a role."""
    if name in ROLES:
        return str(name)
    if not isinstance(name, str) or not name:
        return default
    role = name.lower().removeprefix("messagerole.").removeprefix("chatrole.")
    return _OTHER_ROLES.get(role, role)


def read_message(item: dict[str, Any], default: str) -> Message:
    """Read a message; one without a role gets the default."""
    kind = item.get("type")
    role = role_of(item.get("role"), LANGCHAIN.get(kind, default) if isinstance(kind, str) else default)
    content = first_present(item, _CONTENT)
    # Some record the parts as a text of JSON or of Python.
    if type(content) is str and content[:2] == "[{":
        content = blocks_in(content)
    parts = spread(read_parts(content)) if isinstance(content, list | tuple) else read_parts(content)
    has_parts = item.get("content") is None and isinstance(item.get("contents"), (list, tuple))
    if role == "user" and isinstance(item.get("tool_call_id"), str) and not has_parts:
        role = "tool"  # Anthropic's results are the user's
    if not content and isinstance(item.get("text"), str):  # a few have the text next to the content
        parts = read_parts(item["text"]) or parts
    if isinstance(item.get("refusal"), str) and item["refusal"]:
        parts = (*parts, Part(kind="refusal", text=unmasked(item["refusal"])))
    if not _MEDIA_KEYS.isdisjoint(item):
        parts = (*parts, *_media(item))
    if not _CALL_KEYS.isdisjoint(item):
        parts = _with_calls(parts, _tool_calls(item))
    if role == "tool" and not any(part.kind in _TOOL_KINDS for part in parts):
        call_id = item.get("tool_call_id") or item.get("toolCallId") or item.get("id")
        if not parts and content in (None, []) and call_id is None and not item.get("name"):
            return Message(role=role)
        parts = (_as_result(parts, content, call_id, item),)
    name = item.get("name")
    return Message(role=role, parts=parts, name=name if isinstance(name, str) and name else None)


def _media(item: dict[str, Any]) -> Iterator[Part]:
    if isinstance(item.get("audio"), dict):
        yield read_media({"type": "audio", **item["audio"]})
    images = item.get("images")
    for image in images if isinstance(images, (list, tuple)) else ():
        if isinstance(image, (dict, str)) and image:
            yield read_media({"type": "image", "image": image} if isinstance(image, str) else image)


def _with_calls(parts: tuple[Part, ...], calls: list[Part]) -> tuple[Part, ...]:
    """Add the calls next to a content; calls in both count once, with their ids."""
    waiting = list(calls)
    kept: list[Part] = []
    for part in parts:
        twin = next((c for c in waiting if part.kind == "tool_call" and _is_same_call(part, c)), None)
        if twin is None:
            kept.append(part)
        else:
            waiting.remove(twin)
    return (*kept, *calls)


def _is_same_call(one: Part, other: Part) -> bool:
    if one.tool_call_id is not None and other.tool_call_id is not None:
        return one.tool_call_id == other.tool_call_id
    return one.name == other.name and (None in (one.data, other.data) or one.data == other.data)


def _as_result(parts: tuple[Part, ...], content: Any, call_id: Any, item: dict[str, Any]) -> Part:
    """Return the result in a tool's message, whose content is plain text or parts."""
    texts = [part.text for part in parts if part.kind == "text" and part.text is not None]
    is_list = isinstance(content, (list, tuple)) and all(isinstance(item, str) for item in content)
    data: Any = "\n\n".join(texts) if texts and len(texts) == len(parts) and not is_list else content
    data = unmasked(data) if isinstance(data, str) else data
    name = item.get("name")
    return Part(
        kind="tool_result",
        data=result_value(data),
        tool_call_id=call_id if isinstance(call_id, str) else None,
        name=name if isinstance(name, str) else None,
        failed=item.get("status") == "error" or item.get("is_error") is True,
    )


def _tool_calls(item: dict[str, Any]) -> list[Part]:
    """Return the calls next to the content, as in OpenAI's chat and in Gemini's old form."""
    found = _listed(parse(item.get("tool_calls") or item.get("toolCalls")))
    if found:
        return found
    kwargs = item.get("additional_kwargs")
    if isinstance(kwargs, dict) and ("content" in item or "blocks" in item):
        found = _listed(kwargs.get("tool_calls"))
    single, named = item.get("function_call"), item.get("function_call_name")
    if not found and isinstance(single, dict) and single.get("name"):
        found = [tool_call(single)]
    if not found and isinstance(named, str) and named:  # OpenInference's only call
        found = [tool_call({"name": named, "arguments": item.get("function_call_arguments_json")})]
    return found


def _listed(calls: Any) -> list[Part]:
    items = map(parse, calls) if isinstance(calls, (list, tuple)) else ()
    return [tool_call(call) for call in items if isinstance(call, dict)]
