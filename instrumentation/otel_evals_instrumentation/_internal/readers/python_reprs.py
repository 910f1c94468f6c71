"""Decodes reprs of Python objects to mappings, without running any code."""

from __future__ import annotations

import ast
import re
from typing import Any

from otel_evals_instrumentation._internal.readers.values import STRING, is_quickly_parsed
from otel_evals_instrumentation._internal.readers.vocabulary import words

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
