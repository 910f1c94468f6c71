"""Error messages, with the fix, for objects that are not scorers or destinations."""

from __future__ import annotations

import inspect
from typing import Any, get_origin, get_type_hints

from otel_evals._internal.scoring.scorer import Scorer


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
        what = "a scorer's class" if issubclass(value, Scorer) else "a class"
        return f"{name} is {what}, not a scorer: call it, as in {name}()"
    kind = annotated_return(value)
    if inspect.isroutine(value) and isinstance(kind, type) and issubclass(kind, Scorer):
        return f"{name} makes a scorer and was not called: write {name}()"
    if inspect.isroutine(value):
        return f"{name} is a plain function: write @scorer above it, or pass scorer({name})"
    if isinstance(value, str):
        return f"{value!r} is a name: pass the scorer itself, or a mapping {{'scorer': {value!r}}}"
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
        if not _is_async(getattr(value, each)):
            return f"{name}.{each} is not async: write `async def {each}`, since it is awaited"
    return None


def _is_async(method: Any) -> bool:
    """Return True if a method is a coroutine function or annotated to return an awaitable."""
    function = inspect.unwrap(getattr(method, "__func__", method))
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return True
    returns = str(function.__annotations__.get("return", ""))
    return "Awaitable" in returns or "Coroutine" in returns or "Future" in returns
