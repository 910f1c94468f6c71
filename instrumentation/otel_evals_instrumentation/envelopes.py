"""Requests, responses and arguments that hold messages: told by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["inside"]

_REPLIES = ("choices", "generations", "candidates", "replies")
_LISTS = ("messages", "contents", *_REPLIES, "new_messages", "chat_history")
_ANSWERS = (
    "combined_chunk_content",
    "model_response",
    "output",
    "raw",
    "answer",
    "response",
    "result",
    "final_output",
    "output_text",
    "text",
    "reply",
    "content",
)
_QUESTIONS = (
    "new_message",
    "input",
    "inputs",
    "prompt",
    "question",
    "query",
    "task",
    "user_prompt",
    "user_input",
    "user_msg",
    "user_message",
    "query_str",
    "query_bundle",
    "str_or_query_bundle",
    "embedding",
    "text",
    "content",
    "body",
)


def inside(item: dict[str, Any], role: str) -> Iterator[tuple[Any, str]]:
    """What a mapping holds that may be messages, with who is likely to have said it."""
    message = item.get("message")
    if isinstance(message, (dict, str)):
        yield message, role
        return
    for key in _LISTS:
        if isinstance(item.get(key), (list, tuple)):
            yield item[key], "assistant" if key in _REPLIES else role
    if isinstance(item.get("update"), dict):  # LangGraph's command
        yield item["update"], role
        return
    for key in _QUESTIONS if role == "user" else _ANSWERS:
        if isinstance(item.get(key), (str, list, tuple, dict)):
            yield item[key], role
    if role == "user" and isinstance(item.get("kwargs"), dict):
        yield item["kwargs"], role
    if role == "user" and isinstance(item.get("args"), (list, tuple)):
        arguments = item["args"]
        if len(arguments) == 1:
            yield arguments, role
        yield from ((given, role) for given in arguments if _asks(given))
    if len(item) == 1 or role == "user":  # a pipeline's components, a function's only argument
        yield from ((inner, role) for inner in item.values() if isinstance(inner, dict))


def _asks(given: Any) -> bool:
    """Whether one of a function's arguments is a conversation that waits for an answer, and not a history."""
    conversation = isinstance(given, list) and all(isinstance(m, dict) and "role" in m for m in given)
    return conversation and bool(given) and given[-1]["role"] == "user"
