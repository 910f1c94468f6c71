"""Imports `python:package.module:name`, and reports objects that are not scorers or destinations."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from typing import Any, get_origin, get_type_hints

from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.util.calls import is_async
from otel_evals.errors import ConfigError

PREFIX = "python:"
"""Names without this prefix import nothing but registered entry points."""


def annotated_return(function: Any) -> Any:
    """Return the annotated type of a function's result; None if it cannot be evaluated."""
    try:
        kind = get_type_hints(function).get("return")
    except Exception:  # for example a name that only type checkers import
        return None
    return get_origin(kind) or kind


def scorer_mistake(value: Any) -> str | None:
    """Explain why an object is not a scorer; None for a scorer."""
    if isinstance(value, Scorer):
        return None
    name = getattr(value, "__name__", type(value).__name__)
    if isinstance(value, type):
        return f"{name} is a class, not a scorer: call it, as in {name}()"
    kind = annotated_return(value)
    if inspect.isroutine(value) and isinstance(kind, type) and issubclass(kind, Scorer):
        return f"{name} makes a scorer and was not called: write {name}()"
    if inspect.isroutine(value):
        return f"{name} is a plain function: write @scorer above it, or pass scorer({name})"
    return f"{value!r:.100} is not a scorer: pass one, or a function with @scorer above it"


def destination_mistake(value: Any) -> str | None:
    """Explain why an object is not a destination; None for a destination."""
    name = getattr(value, "__name__", type(value).__name__)
    if isinstance(value, type):
        return f"{name} is a class: call it, as in {name}()"
    missing = [each for each in ("name", "export", "shutdown") if not hasattr(value, each)]
    if missing:
        needs = " and ".join(f"`{each}`" for each in missing)
        return f"{value!r:.100} is not a destination: it has no {needs}"
    for each in ("export", "shutdown"):
        if not is_async(getattr(value, each)):
            return f"{name}.{each} is not async: write `async def {each}`, since it is awaited"
    return None


def imported(path: str, field: str, kind: type[Any] | None = None) -> Any:
    """Import `python:package.module:name`, and check that it is of a kind, or annotated to return it."""
    module, found, attribute = path.removeprefix(PREFIX).partition(":")
    if not (found and module and attribute):
        raise ConfigError(field, f"{path!r} must have the form python:package.module:name")
    try:
        value: Any = importlib.import_module(module)
        for name in attribute.split("."):
            value = getattr(value, name)
    except Exception as error:  # whatever the module does when it is imported
        absent = isinstance(error, ModuleNotFoundError) and module.startswith(f"{error.name}")
        fix = "; fix: add its folder to PYTHONPATH, or install it" if absent else ""
        problem = f"{path!r} cannot be imported: {type(error).__name__}: {error}{fix}"
        raise ConfigError(field, problem) from error
    if kind is not None and not _builds(value, kind):
        what = kind.__name__
        problem = f"{path!r} is no {what}, class of {what}s or function with the return type {what}"
        raise ConfigError(field, f"{problem}; it was not called")
    return value


def _builds(found: Any, kind: type[Any]) -> bool:
    """Return True for an object of this kind, its class, or a function annotated to return one.

    Nothing else is called: a call could have any effect.
    """
    if inspect.isroutine(found) or isinstance(found, partial):
        found = annotated_return(found.func if isinstance(found, partial) else found)
    if kind is Scorer:
        return isinstance(found, Scorer) or (isinstance(found, type) and issubclass(found, Scorer))
    return found is kind or all(hasattr(found, name) for name in ("export", "shutdown"))
