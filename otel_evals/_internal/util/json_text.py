"""Decodes JSON that others wrote: files, answers of servers and models, texts in spans."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

_DEEPEST = 500
"""Levels of nesting: code that descends into a value a thousand levels deep would raise RecursionError."""
_TOO_DEEP = f"it is nested in more than {_DEEPEST} levels"


def read_json(text: str | bytes, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Decode JSON, with an optional function for NaN and the infinities.

    Raises:
        ValueError: it is not JSON, or nested in more than 500 levels.
    """
    try:
        value = json.loads(text, parse_constant=parse_constant)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    brackets = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    check_nesting(value, sum(map(text.count, brackets)))  # type: ignore[arg-type]
    return value


def check_nesting(value: Any, brackets: int) -> None:
    """Raise ValueError if a JSON value is nested in more than 500 levels, given the brackets in its text."""
    if brackets <= _DEEPEST:
        return
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for c in level if isinstance(c, dict | list) for inner in _inside(c)]
    if any(isinstance(each, dict | list) for each in level):
        raise ValueError(_TOO_DEEP)


def _inside(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container
