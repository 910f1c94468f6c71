"""Requests, responses and arguments that contain messages, recognised by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import words

_REPLIES = ("choices", "generations", "candidates", "replies")
_LISTS = ("messages", "contents", *_REPLIES, "new_messages", "chat_history")
_ANSWERS = words(
    """combined_chunk_content model_response output raw answer response result final_output finalOutput
    final_answer finalAnswer completion outputText output_text generated_text text reply content outputs"""
)
_QUESTIONS = words(
    """new_message input inputs prompt question query task user_prompt user_input user_msg user_message
    userMessage userInput user_query userQuery chat_input chatInput request instruction contents topic
    query_str query_bundle str_or_query_bundle sys.query embedding text content body"""
)
_KEYS = frozenset(
    (
        *_LISTS,
        *_ANSWERS,
        *_QUESTIONS,
        *words("message items update args kwargs user role parts system config object usage llm_output lc"),
        *words("type error error_code error_message"),
    )
)
"""Keys of messages, of requests and of responses."""


def is_data(value: Any) -> bool:
    """Return True for an object without messages, or a list of them, or of numbers: its JSON is the text."""
    items = value if isinstance(value, list) else [value]
    return are_numbers(value) or (bool(items) and all(map(_is_object, items)))


def spoken(value: Any) -> Any:
    """Decode a text that is JSON of messages; return other texts unchanged."""
    parsed = parse(value)
    return value if is_data(parsed) else parsed


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and _KEYS.isdisjoint(value)


def are_numbers(value: Any) -> bool:
    """Return True for a list of numbers and the like, which no convention writes for messages."""
    return isinstance(value, list) and bool(value) and {*map(type, value)} <= {int, float, bool}


def possible_messages(item: dict[str, Any], role: str) -> Iterator[tuple[Any, str]]:
    """Yield the values of a mapping that may be messages, each with its probable role."""
    message = item.get("message")
    if isinstance(message, (dict, str)):
        yield _or_results(message, item.get("function")), role
        return
    for key in _LISTS:
        if isinstance(item.get(key), (list, tuple)):
            yield first_choice(item[key]), "assistant" if key in _REPLIES else role
    if _are_messages(item.get("items")):  # LiveKit's chat context
        yield item["items"], role
    if isinstance(item.get("update"), dict):  # LangGraph's command
        yield item["update"], role
        return
    for key in _QUESTIONS if role == "user" else _ANSWERS:
        if isinstance(item.get(key), (str, list, tuple, dict)):
            yield item[key], role
    if role == "user":
        yield from ((given, role) for given in _passed(item))
    if item.keys() == {"user"} and isinstance(item["user"], (str, list, tuple)):
        # Of several texts, only the last is known to be the user's.
        yield item["user"] if isinstance(item["user"], str) else item["user"][-1:], "user"
    if len(item) == 1 or role == "user":  # a pipeline's components, a function's only argument
        yield from ((inner, role) for inner in item.values() if isinstance(inner, dict))


def first_choice(items: Any) -> Any:
    """Return the first of several choices of a model; return other lists unchanged.

    Each choice has a finish reason, and none requests a tool.
    """
    if not isinstance(items, (list, tuple)) or len(items) < 2:
        return items
    return items[:1] if all(map(_is_choice, items)) else items


def _is_choice(item: Any) -> bool:
    if not isinstance(item, dict) or not (item.get("finish_reason") or item.get("finishReason")):
        return False
    message = item.get("message", item)
    if not isinstance(message, dict) or message.get("tool_calls") or message.get("function_call"):
        return False
    parts = message.get("parts")
    texts = parts if isinstance(parts, (list, tuple)) else ()
    return all(isinstance(part, dict) and "tool" not in str(part.get("type")) for part in texts)


def _or_results(message: Any, functions: Any) -> Any:
    """Return a message, or the results of parallel calls that AutoGen records next to one."""
    if not isinstance(message, dict) or not isinstance(functions, (list, tuple)):
        return message
    results = [{**f, "type": "tool_result"} for f in map(parse, functions) if isinstance(f, dict)]
    return {"role": "tool", "content": results}


def _are_messages(items: Any) -> bool:
    """Return True if a list begins with a message."""
    first = items[0] if isinstance(items, (list, tuple)) and items else None
    return isinstance(first, dict) and "role" in first and "content" in first


def _passed(item: dict[str, Any]) -> Iterator[Any]:
    """Yield the arguments of a function: named ones, an only one, or a conversation without an answer."""
    if isinstance(item.get("kwargs"), dict):
        yield item["kwargs"]
    arguments = item.get("args")
    if isinstance(arguments, (list, tuple)):
        if len(arguments) == 1:
            yield arguments
        for given in arguments:
            if isinstance(given, list) and given and all(isinstance(m, dict) and "role" in m for m in given):
                yield from [given] if given[-1]["role"] == "user" else ()
