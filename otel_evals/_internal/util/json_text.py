"""Decodes JSON that others wrote (files, answers of servers and models, texts in spans), and writes JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any

_DEEPEST = 500
"""Levels of nesting: code that descends into a value a thousand levels deep would raise RecursionError."""
_decode = json.JSONDecoder().raw_decode
_TOO_DEEP = f"it is nested in more than {_DEEPEST} levels"


def read_json(text: str | bytes, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Decode JSON, with an optional function for NaN and the infinities.

    Raises:
        ValueError: it is not JSON, or nested in more than 500 levels.
    """
    with _shallow():
        value = json.loads(text, parse_constant=parse_constant)
    _check(value, sum(map(text.count, ("[", "{") if isinstance(text, str) else (b"[", b"{"))))  # type: ignore[arg-type]
    return value


def read_json_at(text: str, start: int) -> tuple[Any, int]:
    """Decode the JSON that starts at an index of a text; also returns the index of its end.

    Raises:
        ValueError: there is no JSON, or it is nested in more than 500 levels.
    """
    with _shallow():
        value, end = _decode(text, start)
    _check(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


def write_json(value: Any, **options: Any) -> str:
    """Return a value as JSON, with null for NaN and the infinities, which JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, **options)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return list(map(_finite, value)) if isinstance(value, list | tuple) else value


@contextmanager
def _shallow() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _check(value: Any, brackets: int) -> None:
    """Refuse a value that is nested too deeply; with so few opening brackets in its text, it cannot be."""
    if brackets <= _DEEPEST:
        return
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for c in level if isinstance(c, dict | list) for inner in _inside(c)]
    if any(isinstance(each, dict | list) for each in level):
        raise ValueError(_TOO_DEEP)


def _inside(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container
