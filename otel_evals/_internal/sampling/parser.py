"""Parses samplers from the text in configuration files."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from otel_evals._internal.sampling.algebra import Sampler, always, never, ratio
from otel_evals._internal.sampling.conditions import above, attribute, below, errors, slower_than, used_tool
from otel_evals._internal.sampling.rate_limits import per_minute, stratified
from otel_evals.errors import ConfigError

_NAMED = above, always, attribute, below, errors, never, per_minute, ratio, slower_than, stratified, used_tool
_SAMPLERS: dict[str, Callable[..., Sampler]] = {sampler.__name__: sampler for sampler in _NAMED}


def parse(text: str) -> Sampler:
    """Parse a sampler; `str()` of a sampler can be parsed again.

    >>> str(parse("ratio(0.1) & (errors() | slower_than(5))"))
    'ratio(0.1) & (errors() | slower_than(5))'

    Raises:
        ConfigError: the text is not a sampler, or names one that does not exist.
    """
    try:
        return _build(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            "sample", f"{text!r:.200} is not a sampler; write for example 'ratio(0.05) | errors()'"
        ) from None


def _build(node: ast.expr) -> Sampler:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _build(left) | _build(right)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _build(left) & _build(right)
        case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            fix = "samplers combine with | (either) and & (both), not with `or`, `and` and `not`"
            raise ConfigError("sample", f"{ast.unparse(node)!r}: {fix}")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _SAMPLERS:
            # `clock` is for tests, and `None` stands for `**options`: neither can be written in a file.
            named = {str(k.arg): _value(k.value, node) for k in keywords if k.arg not in ("clock", None)}
            if len(named) == len(keywords):
                return _call(node, name, [_value(a, node) for a in args], named)
    known = ", ".join(f"{name}()" for name in _SAMPLERS)
    raise ConfigError(
        "sample", f"{ast.unparse(node)!r} is not a sampler; known are {known}, combined by | and &"
    )


def _call(node: ast.expr, name: str, values: list[Any], named: dict[str, Any]) -> Sampler:
    try:
        return _SAMPLERS[name](*values, **named)
    except TypeError:
        raise ConfigError("sample", f"{ast.unparse(node)}: wrong number of arguments or names") from None


def _value(node: ast.expr, call: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        problem = f"{ast.unparse(node)!r} is neither a number nor a quoted text"
        raise ConfigError("sample", f"{ast.unparse(call)}: {problem}") from None
