"""Builds resolvers from names and text in configuration files.

Text: `tool_results`, `documents(top=5)`, `combine(tool_results(tools=['search']), static('All in euros.'))`.
Values: `{documents: {top: 5}}`, `[tool_results, {static: [All in euros.]}]`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_evals._internal import context
from otel_evals._internal.config.imports import PREFIX, imported
from otel_evals._internal.util.options import call_with, suggestion
from otel_evals.errors import ConfigError

RESOLVERS: Mapping[str, Callable[..., Any]] = {
    name: getattr(context, name)
    for name in ("attribute", "combine", "conversation", "documents", "evidence", "static", "tool_results")
}


def build_context(value: Any, field: str) -> Any:
    """Build a resolver from its name, a call as text, `{name: options}`, or a list of these."""
    if isinstance(value, str):
        if value.strip().startswith(PREFIX):
            return imported(value.strip(), field)
        try:
            return _of_node(ast.parse(value.strip(), mode="eval").body, field)
        except (SyntaxError, RecursionError, MemoryError):
            problem = f"{value!r:.200} is not a resolver; write for example 'documents(top=5)'"
            raise ConfigError(field, problem) from None
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ConfigError(field, "must name one resolver, as in `documents: {top: 5}`, or be a list")
        name, options = next(iter(value.items()))
        return _of_options(str(name), options, f"{field}.{name}")
    if isinstance(value, Sequence):
        return context.combine(*(build_context(each, f"{field}[{i}]") for i, each in enumerate(value)))
    return value


def _of_node(node: ast.expr, field: str) -> Any:
    match node:
        case ast.Name(id=name):
            return _called(name, [], {}, field)
        case ast.Call(func=ast.Name(id=name), args=given, keywords=named):
            nested = name == "combine"
            values = [_of_node(each, field) if nested else _literal(each, field) for each in given]
            return _called(name, values, {str(k.arg): _literal(k.value, field) for k in named}, field)
    raise ConfigError(field, f"{ast.unparse(node)!r} is not a resolver; write for example 'documents(top=5)'")


def _literal(node: ast.expr, field: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        problem = f"{ast.unparse(node)!r} is neither a number, a quoted text nor a list of these"
        raise ConfigError(field, problem) from None


def _of_options(name: str, options: Any, field: str) -> Any:
    if name == "combine":
        return build_context(options, field)
    if isinstance(options, Mapping):
        return _called(name, [], {str(key): each for key, each in options.items()}, field)
    several = options if isinstance(options, list) and name == "static" else [options]
    return _called(name, [] if options is None else several, {}, field)


def _called(name: str, values: list[Any], options: dict[str, Any], field: str) -> Any:
    if name not in RESOLVERS:
        raise ConfigError(field, f"there is no resolver {name!r}{suggestion(name, RESOLVERS)}")
    return call_with(RESOLVERS[name], options, field, *values)
