"""One message in any provider's or framework's form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.parts import blocks_in, read_parts, spread
from otel_evals_instrumentation._internal.readers.tool_values import result_value, tool_call
from otel_evals_instrumentation._internal.readers.values import first_text, listed, mapping
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
_CONTENT = ("parts", "content", "contents", "blocks", "text")


def role_of(name: Any, default: str = "user") -> str:
    """Return OpenTelemetry's name of a role."""
    if not isinstance(name, str) or not name:
        return default
    role = name.lower().removeprefix("messagerole.").removeprefix("chatrole.")
    return _OTHER_ROLES.get(role, role)


def read_message(item: dict[str, Any], default: str) -> Message:
    """Read a message; one without a role gets the default."""
    role = role_of(item.get("role"), LANGCHAIN.get(str(item.get("type")), default))
    content = next(filter(None, map(item.get, _CONTENT)), item.get("content"))
    # Some record the parts as a text of JSON or of Python.
    content = blocks_in(content) if isinstance(content, str) else content
    parts = spread(read_parts(content))
    call_id = first_text(item, ("tool_call_id", "toolCallId", "id"))
    if role == "user" and "tool_call_id" in item and item.get("contents") is None:
        role = "tool"  # Anthropic's results are the user's
    refusal = first_text(item, ("refusal",))
    if refusal:
        parts = (*parts, Part(kind="refusal", text=refusal))
    parts = _with_calls((*parts, *_media(item)), _tool_calls(item))
    name = first_text(item, ("name",))
    is_read = any(part.kind in _TOOL_KINDS for part in parts)
    if role == "tool" and not is_read and (parts or content or call_id or name):
        parts = (_as_result(parts, content, call_id, name, item),)
    return Message(role=role, parts=parts, name=name)


def _media(item: dict[str, Any]) -> Iterator[Part]:
    """Yield media next to the content: OpenAI's spoken answers, images of Ollama and of generating models."""
    audio = mapping(item.get("audio"))
    if audio:
        yield read_media({"type": "audio", **audio})
    for image in listed(item.get("images")):
        yield read_media(mapping(image) or {"type": "image", "image": image})


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


def _as_result(
    parts: tuple[Part, ...], content: Any, call_id: str | None, name: str | None, item: dict[str, Any]
) -> Part:
    """Return the result in a tool's message, whose content is plain text or parts."""
    texts = [part.text for part in parts if part.kind == "text" and part.text is not None]
    is_list = isinstance(content, (list, tuple)) and all(isinstance(item, str) for item in content)
    data: Any = "\n\n".join(texts) if texts and len(texts) == len(parts) and not is_list else content
    failed = item.get("status") == "error" or item.get("is_error") is True
    return Part(kind="tool_result", data=result_value(data), tool_call_id=call_id, name=name, failed=failed)


def _tool_calls(item: dict[str, Any]) -> list[Part]:
    """Return the calls next to the content, as in OpenAI's chat and in Gemini's old form."""
    found = _calls(item.get("tool_calls") or item.get("toolCalls"))
    if not found and ("content" in item or "blocks" in item):
        found = _calls(mapping(item.get("additional_kwargs")).get("tool_calls"))
    single, named = mapping(item.get("function_call")), item.get("function_call_name")
    if not found and named:  # OpenInference's only call
        single = {"name": named, "arguments": item.get("function_call_arguments_json")}
    return found or _calls([single] if single.get("name") else ())


def _calls(calls: Any) -> list[Part]:
    return [tool_call(call) for call in map(mapping, listed(calls)) if call]
