"""Parts of messages: texts, thoughts, tool calls and their results, media."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Message, Part
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.tool_values import tool_call, tool_result, unwrapped_result
from otel_evals_instrumentation._internal.readers.values import (
    first_text,
    listed,
    literal,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

_TEXTS = words("text input_text output_text text_delta summary_text")
_THOUGHTS = words("reasoning thinking redacted_thinking reasoning_content thought")
_CALLS = words(
    """tool_call tool_use tool-call function_call server_tool_call server_tool_use mcp_tool_use tooluse
    function custom_tool_call mcp_call local_shell_call computer_call"""
)
_RESULTS = words(
    """tool_call_response tool_result tool-result tool_response function_call_output function_result
    server_tool_call_response server_tool_result mcp_tool_result web_search_tool_result
    web_fetch_tool_result code_execution_tool_result bash_code_execution_tool_result
    text_editor_code_execution_tool_result tool-error custom_tool_call_output local_shell_call_output
    computer_call_output"""
)
_MEDIA = words(
    """image image_file image_url image-url input_image audio audio-url input_audio output_audio video
    video_url video-url file input_file blob uri media document document-url binary image_generation_call"""
)
# Python's `str()` of parts has single quotes, which JSON does not allow.
_REPRS = ("[{'type': '", "{'type': 'input_")
LISTS = frozenset(("[{", "{'"))
"""Beginnings of texts that may be lists of typed parts."""
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_OF_MESSAGES = frozenset(("role", "parts", "message"))
_UNTYPED = frozenset(
    words(
        """text toolUse toolResult function_call function_response functionCall functionResponse
        reasoningContent inline_data inlineData file_data tool_kwargs tool_call tool_call_result
        toolRequest toolResponse message_content"""
    )
)


def text_message(role: str, text: str | None) -> Message:
    """Return a message with one text."""
    return Message(role=role, parts=(Part(kind="text", text=text),))


def join_chunks(chunks: Sequence[Message]) -> Message:
    """Join the chunks of a streamed response to one message, and adjacent texts in them to one text."""
    parts: list[Part] = []
    for part in (part for message in chunks for part in message.parts):
        if parts and part.kind == parts[-1].kind and part.text and parts[-1].text:
            parts[-1] = replace(parts[-1], text=parts[-1].text + part.text)
        else:
            parts.append(part)
    return replace(chunks[0], parts=tuple(parts))


def is_part(item: dict[str, Any]) -> bool:
    """Return True if a mapping is a part of a message, and not a message."""
    if not _OF_MESSAGES.isdisjoint(item):
        return False
    kind = _type_of(item)
    if kind is not None:
        return kind in _BY_TYPE
    # A larger object with such a key is more likely an application's data.
    return len(item) <= 4 and not _UNTYPED.isdisjoint(item)


def is_definition(item: Any) -> bool:
    """Return True for the definition of a tool in OpenAI's form, which is no call."""
    is_function = isinstance(item, dict) and item.get("type") == "function"
    return is_function and "parameters" in mapping(item.get("function"))


def read_parts(content: Any) -> tuple[Part, ...]:
    """Return the parts of a message's content."""
    if content is None or content == "":
        return ()
    if isinstance(content, dict):
        is_list = all(key.isdigit() for key in content)  # with indexed keys
        inner = list(content.values()) if is_list else content.get("parts")
        return read_parts(inner) if isinstance(inner, (list, tuple)) else (read_part(content),)
    if isinstance(content, (list, tuple)):
        return tuple(read_part(item) for item in content if item is not None)
    return (Part(kind="text", text=unmasked(text_of(content))),)


def spread(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Replace each text that is a list of typed parts by these parts."""
    found: list[Part] = []
    for part in parts:
        blocks = blocks_in(part.text) if part.kind == "text" and part.text else part.text
        found += (part,) if blocks is part.text else read_parts(blocks)
    return tuple(found)


def blocks_in(text: str) -> Any:
    """Decode a text that is JSON or Python's repr of typed parts; return other texts unchanged."""
    # Two characters tell most texts from lists without decoding.
    if text[:2] not in LISTS:
        return text
    parsed = parse(text)
    if parsed is text and text.startswith(_REPRS):
        parsed = literal(text)
        parsed = [parsed] if isinstance(parsed, dict) else parsed
    if not isinstance(parsed, list) or not all(isinstance(part, dict) for part in parsed):
        return text
    # In a list with a text, any other type is a part too.
    has_text = any(part.get("type") in _TEXTS and isinstance(part.get("text"), str) for part in parsed)
    are_parts = all(map(_is_block, parsed)) or (has_text and all("type" in part for part in parsed))
    return parsed if are_parts else text


def _is_block(item: dict[str, Any]) -> bool:
    """Return True for a typed part, a part of Bedrock's, or a call in AutoGen's form."""
    kind = _type_of(item)
    if kind is not None:
        return kind in _BY_TYPE or kind == "generic"
    return item.keys() == _BARE_CALL or (len(item) == 1 and not _BY_KEY.isdisjoint(item))


def _type_of(item: dict[str, Any]) -> str | None:
    """Return a part's type as most write it: `tool_call` for .NET's `toolCall` and Java's `TOOL_CALL`."""
    kind = item.get("type", item.get("$type"))
    word = _HUMP.sub("_", str(kind)).lower()
    # `Document` is LangChain's class, whose objects are no parts.
    return kind if kind is None or word in _MEDIA else word


def read_part(item: Any) -> Part:
    """Read a part in any provider's form."""
    if isinstance(item, str):
        return Part(kind="text", text=unmasked(item))
    if not isinstance(item, dict):
        return Part(kind="other", data=item)
    kind = _type_of(item)
    if kind is None:
        return _untyped(item)
    read = _BY_TYPE.get(kind)
    if read is not None:
        return read(item)
    # `generic_type` is removed: a part that names itself would be read for ever.
    if kind == "generic" and isinstance(item.get("generic_type"), str):
        return read_part({**item, "type": item["generic_type"], "generic_type": None})
    return Part(kind="other", data=item)


def _text(item: dict[str, Any]) -> Part:
    for key in ("content", "text", "value", "refusal"):
        value = item.get(key)
        if isinstance(value, dict):
            text = value.get("value", value.get("text"))
            value = value if text is None else text  # Genkit's structured output
        if value is not None:
            return Part(kind="text", text=unmasked(text_of(value)))
    return Part(kind="text")


def _reasoning(item: dict[str, Any]) -> Part:
    summary = "\n\n".join(str(mapping(each).get("text", "")) for each in listed(item.get("summary")))
    thought = first_text(item, ("content", "text", "thinking", "reasoning")) or summary
    return Part(kind="reasoning", text=thought or None)


_CALL_KEYS = ("toolUse", "function_call", "functionCall", "tool_call", "tool_use", "toolRequest")
_BEDROCK = frozenset(("text", "toolUse", "toolResult"))
_MEDIA_KEYS = frozenset(
    words("inline_data inlineData file_data fileData image document video audio image_url media")
)
_BLOCKS = ('{"image": {"format"', '{"document": {"format"', '{"video": {"format"')
_BY_KEY = _BEDROCK | _MEDIA_KEYS
_BARE_CALL = {"id", "name", "arguments"}
_RESULT_KEYS = ("toolResult", "tool_result", "tool_call_result", "toolResponse")
_GEMINI_RESULT_KEYS = ("function_response", "functionResponse")


def _untyped(item: dict[str, Any]) -> Part:
    """Read a part of Bedrock's or Gemini's, whose only key is its type."""
    for key, read in _READERS.items():
        if isinstance(item.get(key), dict):
            return read(item[key])
    if "tool_kwargs" in item or ("tool_name" in item and "arguments" in item) or item.keys() == _BARE_CALL:
        return tool_call(item)
    if "result" in item and isinstance(item.get("origin"), dict):
        return tool_result(item)
    if mapping(item.get("metadata")).get("purpose") == "output":
        return Part(kind="other", data=item)  # Genkit's instruction to answer in a form
    if isinstance(item.get("text", item.get("content")), (str, dict)):
        return replace(_text(item), kind="reasoning" if item.get("thought") is True else "text")
    return Part(kind="other", data=item) if _MEDIA_KEYS.isdisjoint(item) else read_media(item)


def _content(item: dict[str, Any]) -> Part:
    """Read a content, which is the JSON of an image or a file in Strands' blocks for OpenInference."""
    part = read_part(item)
    block = mapping(part.text) if str(part.text).startswith(_BLOCKS) else {}
    return read_media(block) if len(block) == 1 else part


_READERS: dict[str, Callable[[dict[str, Any]], Part]] = {
    **dict.fromkeys(_CALL_KEYS, tool_call),
    **dict.fromkeys(_GEMINI_RESULT_KEYS, lambda item: unwrapped_result(tool_result(item))),
    **dict.fromkeys(_RESULT_KEYS, tool_result),
    "message_content": _content,
    "reasoningContent": lambda item: _reasoning(mapping(item.get("reasoningText"))),
}
"""By the key of an object that is the part."""


def text_of(value: Any) -> str:
    """Return texts unchanged, and other values as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


_BY_TYPE: dict[str, Callable[[dict[str, Any]], Part]] = {
    **dict.fromkeys(_TEXTS, _text),
    "refusal": lambda item: replace(_text(item), kind="refusal"),
    **dict.fromkeys(_THOUGHTS, _reasoning),
    **dict.fromkeys(_CALLS, tool_call),
    **dict.fromkeys(_RESULTS, tool_result),
    **dict.fromkeys(_MEDIA, read_media),
}
