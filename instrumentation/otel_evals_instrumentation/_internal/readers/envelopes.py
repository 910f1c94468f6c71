"""What is around messages: requests, responses and arguments, and the reprs of Python's objects.

Messages are recognised by their keys; reprs are decoded without running any code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from otel_evals_instrumentation._internal.readers.values import (
    STRING,
    is_quickly_parsed,
    listed,
    mapping,
    parse,
)
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
    """Return True for an object without messages, a list of them, or numbers: its JSON is the text."""
    items = value if isinstance(value, list) else [value]
    are_objects = (isinstance(item, dict) and item and _KEYS.isdisjoint(item) for item in items)
    return are_numbers(value) or (bool(items) and all(are_objects))


def spoken(value: Any) -> Any:
    """Decode a text that is JSON of messages; return other texts unchanged."""
    parsed = parse(value)
    return value if is_data(parsed) else parsed


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
    message = mapping(item.get("message", item))
    if message.get("tool_calls") or message.get("function_call"):
        return False
    return all("tool" not in str(mapping(part).get("type")) for part in listed(message.get("parts")))


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


# --- Reprs of Python objects, decoded to mappings ---


# Python's parser keeps the interpreter's lock while it reads.
_LONGEST = 100_000
# Strings are matched first: brackets inside of them are text.
_TOKENS = re.compile(STRING + r"|<[\w.]+: ('[^'<>]*')>|<[^<>'\"]*(?:<[^<>'\"]*>[^<>'\"]*)*>")
_PIECES = re.compile(STRING + r"|[\[\](){}]| (?=[A-Za-z_]+=)")
_SOURCE = re.compile(r"(?:id='[^']*' )?source=['\"]")
_OF_MESSAGES = frozenset(
    words(
        """content id name additional_kwargs response_metadata usage_metadata example artifact tool_calls
        invalid_tool_calls tool_call_chunks chunk_position tool_call_id status"""
    )
)
"""All fields of LangChain's messages; `str()` omits empty ones."""
_OF_RESULTS = ("status='", "meta=None content=[", "content=[")
"""Beginnings of tool results."""
_SPEAKERS = {"HumanMessage": "human", "AIMessage": "ai", "SystemMessage": "system", "ToolMessage": "tool"}
"""Roles by message class of LangChain's; the fields have none."""


def read_repr(text: str) -> Any:
    """Decode a repr such as `ChatMessage(role=<Role.USER: 'user'>)`; None if it is unreadable.

    Objects become mappings of their fields, and enum members their values. An unreadable field is None.
    """
    if len(text) > _LONGEST or not is_quickly_parsed(text):
        return None
    try:
        tree = ast.parse(_TOKENS.sub(_plain, text), mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def read_message_str(text: str) -> dict[str, Any] | None:
    """Decode the `str()` of a message of LangChain's or AutoGen's; None for other texts.

    LangChain's have no role. Results have the id of their call; answers have token counts or calls, or an
    id that begins with `run-`. Other messages are the user's.
    """
    if _SOURCE.match(text):  # AutoGen's: the source is the user or the name of an agent
        fields = _fields(text)
        role = "user" if fields.get("source") == "user" else "assistant"
        return {"role": role, "content": fields["content"]} if "content" in fields else None
    if not text.startswith("content="):
        return None
    fields = _fields(text)
    if "content" not in fields or not fields.keys() <= _OF_MESSAGES:
        return None
    if "tool_call_id" in fields:
        speaker = "tool"
    else:
        of_ai = any(map(fields.get, ("response_metadata", "tool_calls", "usage_metadata")))
        speaker = "ai" if of_ai or str(fields.get("id")).startswith(("run-", "lc_run-")) else "human"
    return {"type": speaker, **fields}


def read_result_str(text: str) -> dict[str, Any] | None:
    """Decode the `str()` of a tool's execution; None for other texts.

    Agno writes `status='success' result=... error=None`, MCP `content=[...] isError=False`.
    """
    if not text.startswith(_OF_RESULTS):
        return None
    fields = _fields(text)
    is_result = fields.keys() >= {"status", "result"} or fields.keys() >= {"content", "isError"}
    return fields if is_result else None


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a text such as `a=1 b='two' c=[]`; empty if it is unreadable."""
    depth = 0

    def piece(token: re.Match[str]) -> str:
        nonlocal depth
        depth += (token[0] in "([{") - (token[0] in ")]}")
        # Only blanks outside of brackets are between fields.
        return ", " if token[0] == " " and depth == 0 else token[0]

    fields = read_repr(f"message({_PIECES.sub(piece, text)})") if len(text) <= _LONGEST else None
    return fields if isinstance(fields, dict) else {}


def _plain(token: re.Match[str]) -> str:
    """Keep texts; replace an enum member by its value, and `<object at 0x...>` by None."""
    if token[0][0] in "'\"":
        return token[0]
    return token[1] or "None"


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Call(func=function, keywords=keywords, args=arguments):
            named = {str(k.arg): _value(k.value) for k in keywords}
            speaker = _SPEAKERS.get(getattr(function, "id", "").removesuffix("Chunk"))
            named = {"type": speaker, **named} if speaker else named
            return named if named or not arguments else [_value(a) for a in arguments]
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys, values):
            return {
                _value(k): _value(v) for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant)
            }
    return None
