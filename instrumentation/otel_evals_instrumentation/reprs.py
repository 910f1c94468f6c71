"""Python objects that an instrumentation wrote down as their repr: read back as mappings, never run."""

from __future__ import annotations

import ast
import re
from typing import Any

__all__ = ["message_text", "read_repr"]

_LONGEST = 100_000
_STRING = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
_TOKENS = re.compile(_STRING + r"|<[\w.]+: ('[^'<>]*')>|<[^<>'\"]*>")
_MESSAGE = re.compile(f"content=({_STRING})(?: |$)")


def read_repr(text: str) -> Any:
    """The object behind a repr such as `ChatMessage(role=<Role.USER: 'user'>)`; None if it cannot be told.

    Objects become mappings of their fields, enum members their values, what has no readable repr None.
    """
    if len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(_TOKENS.sub(_plain, text), mode="eval")
        return _value(tree.body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def message_text(text: str) -> str | None:
    """The content of a LangChain message that was written down with `str()`; None if it is something else."""
    match = _MESSAGE.match(text)
    if match is None or "tool_call_id=" not in text:
        return None
    try:
        return str(ast.literal_eval(match[1]))
    except (SyntaxError, ValueError):
        return None


def _plain(token: re.Match[str]) -> str:
    """Texts stay; an enum member becomes its value; `<object at 0x...>` becomes None."""
    if token[0][0] in "'\"":
        return token[0]
    return token[1] or "None"


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Call(keywords=keywords, args=arguments):
            named = {k.arg: _value(k.value) for k in keywords if k.arg is not None}
            return named if named or not arguments else [_value(a) for a in arguments]
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            return [_value(element) for element in elements]
        case ast.Dict(keys, values):
            return {
                _value(k): _value(v) for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant)
            }
    return None
