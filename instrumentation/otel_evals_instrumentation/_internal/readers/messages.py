"""Messages in any provider's or framework's form.

One reader for all forms, because instrumentations record the framework's own objects: OpenTelemetry parts,
OpenAI chat and Responses, Anthropic blocks, Bedrock, Gemini, LangChain dumps, Vercel, AG-UI and plain texts.
It recognises a form by its keys, never by the sender.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.envelopes import (
    possible_messages,
    read_message_str,
    read_repr,
    spoken,
)
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.parts import (
    blocks_in,
    is_definition,
    is_part,
    read_parts,
    spread,
    text_message,
)
from otel_evals_instrumentation._internal.readers.tool_values import result_value, tool_call
from otel_evals_instrumentation._internal.readers.values import (
    MAX_DEPTH,
    first_text,
    is_repr,
    is_true,
    listed,
    literal,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import LANGCHAIN, role_of, words

TOOL_KINDS = ("tool_result", "tool_call")
_CONTENT = ("parts", "content", "contents", "blocks", "text", "message")


_BESIDE = frozenset(
    words("audio images tool_calls toolCalls function_call function_call_name additional_kwargs")
)
"""Keys of media and calls next to a content."""


def read_message(item: dict[str, Any], default: str) -> Message:
    """Read a message; one without a role gets the default."""
    role = role_of(item.get("role"), LANGCHAIN.get(str(item.get("type")), default))
    content = next(filter(None, map(item.get, _CONTENT)), item.get("content"))
    # Some record the parts as a text of JSON or of Python.
    content = blocks_in(content) if isinstance(content, str) else content
    parts = spread(read_parts(content))
    if role == "user" and "tool_call_id" in item and item.get("contents") is None:
        role = "tool"  # Anthropic's results are the user's
    refusal = first_text(item, ("refusal",))
    if refusal:
        parts = (*parts, Part(kind="refusal", text=refusal))
    if not _BESIDE.isdisjoint(item):
        parts = _with_calls((*parts, *_media(item)), _tool_calls(item))
    name = first_text(item, ("name",))
    if role == "tool" and not any(part.kind in TOOL_KINDS for part in parts):
        call_id = first_text(item, ("tool_call_id", "toolCallId", "id"))
        if parts or content or call_id or name:
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
    failed = item.get("status") == "error" or is_true(item.get("is_error"))
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


# --- Values with messages in them ---


# Bounds the work for one attribute, whatever a sender nests in it.
MAX_MESSAGES = 5_000
_ALONE = words(
    """function_call custom_tool_call mcp_call local_shell_call computer_call function_call_output
    custom_tool_call_output local_shell_call_output computer_call_output"""
)
"""Types of calls and outputs that OpenAI's Responses have between messages."""
SYSTEM_KEYS = words("system system_instruction systemInstruction systemPrompt instructions")
"""Names of the system instructions next to the messages of a request."""
_OF_MESSAGES = frozenset(("role", "parts", "tool_calls"))
_OPENINFERENCE = frozenset(("message.role", "message.content"))
"""OpenInference's names inside a list."""
_ROUTES = frozenset(("__start__", "__end__"))
"""Nodes of LangGraph, which its routers return."""


def read_messages(value: Any, role: str = "user") -> tuple[Message, ...]:
    """Return all messages in a value, oldest first; texts without a role get the given one."""
    found: list[Message] = []
    _collect(parse(value), role, found, 0)
    return tuple(found)


def _collect(value: Any, role: str, found: list[Message], depth: int) -> None:
    if depth > MAX_DEPTH or len(found) >= MAX_MESSAGES:
        return
    if isinstance(value, str):
        # Decoding Python is slow: only a text that begins as a message is tried.
        message = literal(value) if value[:8] == "{'role':" else None
        if isinstance(message, dict):
            _collect_one(message, role, found, depth + 1)
        elif is_repr(value):
            _collect_repr(value, role, found, depth)
        elif value and value not in _ROUTES:
            found.append(text_message(role, unmasked(value)))
    elif isinstance(value, dict):
        _collect_one(value, role, found, depth)
    elif isinstance(value, (list, tuple)):
        _collect_list(value, role, found, depth)


def _collect_list(items: Iterable[Any], role: str, found: list[Message], depth: int) -> None:
    # Parts without a message around them are one message, up to the next whole message.
    loose: list[Any] = []
    for item in items:
        item = spoken(item) if isinstance(item, str) and item[:1] == "{" else item
        if _is_part(item):
            loose.append(item)
            continue
        _flush(loose, role, found)
        if _is_role_pair(item):
            found.append(Message(role=role_of(item[0]), parts=read_parts(item[1])))
        else:
            _collect(item, role, found, depth + 1)
    _flush(loose, role, found)


def _is_part(item: Any) -> bool:
    """Return True for a text or a part, False for a message, a list or the definition of a tool."""
    if isinstance(item, dict):
        return is_part(item) and item.get("type") not in _ALONE and not is_definition(item)
    return not isinstance(item, (list, tuple)) and not (isinstance(item, str) and is_repr(item))


def _collect_repr(text: str, role: str, found: list[Message], depth: int) -> None:
    """Collect the messages in an object's repr; the repr itself is no message."""
    value = read_message_str(text) or read_repr(text)
    if isinstance(value, (dict, list)):
        _collect(value, role, found, depth + 1)
    elif text.startswith("content="):
        found.append(text_message(role, text))


def _flush(loose: list[Any], role: str, found: list[Message]) -> None:
    """Join parts in a list without a message around them to one message."""
    parts = read_parts(loose)
    if parts:
        kinds = {part.kind for part in parts}
        speaker = "tool" if kinds == {"tool_result"} else "assistant" if "tool_call" in kinds else role
        found.append(Message(role=speaker, parts=parts))
    loose.clear()


def _is_role_pair(item: Any) -> bool:
    """Return True for LangChain's `("user", "text")`."""
    return (
        isinstance(item, (list, tuple))
        and len(item) == 2
        and str(item[0]).lower() in {"user", "human", "system", "ai", "assistant"}
    )


def _collect_one(item: dict[str, Any], role: str, found: list[Message], depth: int) -> None:
    kind = str(item.get("type"))
    if is_definition(item) or is_definition(item.get("content")):
        return  # a tool's definition
    if kind == "constructor" and isinstance(item.get("kwargs"), dict):
        _collect(_unwrap_constructor(item), role, found, depth + 1)
        return
    # The form of LangChain's `message_to_dict`.
    if kind in LANGCHAIN and isinstance(item.get("data"), dict):
        _collect({"type": kind, **item["data"]}, role, found, depth + 1)
        return
    if not _OPENINFERENCE.isdisjoint(item):
        item = {key.removeprefix("message."): value for key, value in item.items()}
    if "_role" in item or item.keys() >= {"Role", "Content"}:  # Haystack's old form; Go's and .NET's fields
        item = {key.lstrip("_").lower(): value for key, value in item.items()}
    if is_part(item):
        _flush([item], role, found)
        return
    if kind in LANGCHAIN or not _OF_MESSAGES.isdisjoint(item):
        found.append(read_message(item, role))
        return
    _open(item, role, found, depth)


def _unwrap_constructor(item: dict[str, Any]) -> dict[str, Any]:
    """Unwrap a serialised object of LangChain's; its class name has the role."""
    name = "".join(map(str, listed(item.get("id"))[-1:]))
    kind = name.removesuffix("Chunk").removesuffix("Message").lower()
    return {"type": kind, **item["kwargs"]} if kind in LANGCHAIN else item["kwargs"]


def _open(item: dict[str, Any], role: str, found: list[Message], depth: int) -> None:
    """Collect the messages in a request, a response or arguments."""
    before = len(found)
    for inner, speaker in possible_messages(item, role):  # most probable first, until there are messages
        _collect(inner, speaker, found, depth + 1)
        if len(found) > before:
            break
    places = (item, mapping(item.get("config")))
    system = next((place[key] for place in places for key in SYSTEM_KEYS if place.get(key)), None)
    parts = read_parts(system)
    if parts and len(found) > before and found[before].role != "system":
        found.insert(before, Message(role="system", parts=parts))
