"""Converts users' objects to text and JSON values of limited size, and reads JSON that others wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import BaseModel

from otel_evals.errors import ConfigError

MAX_JSON = 200_000
"""Limit of a value's JSON text, in characters."""
MAX_EVIDENCE = 1_000_000
"""Maximum characters of a prompt, and of a value's JSON text in it."""
_MAX_TEXT = 40_000
_MAX_ITEMS = 1_000
_MAX_NODES = 20_000
_MAX_DEPTH = 20
_MAX_INT = 2**63
_DEEPEST = 60
_MAX_KEPT = 100_000


def type_name(value: object) -> str:
    """Return the name of an object's type."""
    return type(value).__name__[:256]


def is_number(value: object) -> bool:
    """Return True for an int or a float, other than a bool, which is an int in Python."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def plain_text(value: object, limit: int = _MAX_TEXT) -> str:
    """Return `str(value)` with a UTF-8 form, of at most `limit` characters.

    An object whose `__str__` fails becomes its type's name.
    """
    try:
        text = value if isinstance(value, str) else str(value)
        text = text[:limit]
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    except BaseException:  # a user's __str__ may raise anything, even SystemExit
        return f"<{type_name(value)}>"[:limit]


def field_values(value: Any) -> dict[str, Any] | None:
    """Return the fields and values of a dataclass or struct instance; None for other objects."""
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return None


def plain_value(value: object, max_text: int = _MAX_TEXT, max_items: int = _MAX_ITEMS) -> Any:
    """Convert a value to JSON types: None, bool, int, finite float, str, list, and dict with text keys.

    Models, dataclasses, structs, enums, mappings and collections are converted; other objects, and deeply
    nested ones, become text. Texts longer than `max_text` and collections longer than `max_items` are cut.
    """
    return _Plain(max_text, max_items).value(value, _MAX_DEPTH)


class _Plain:
    """One conversion; `nodes` limits the number of values over all levels."""

    def __init__(self, max_text: int, max_items: int) -> None:
        self.nodes = max(_MAX_NODES, max_items)
        self.max_text, self.max_items = max_text, max_items

    def value(self, value: object, depth: int) -> Any:
        self.nodes -= 1
        # By exact type: a subclass may override any method.
        if value is None or type(value) is bool:
            return value
        if type(value) is str:
            return plain_text(value, self.max_text)
        if type(value) is int:
            return value if abs(value) < _MAX_INT else f"<int of {value.bit_length()} bits>"
        if type(value) is float:
            return value if math.isfinite(value) else plain_text(value)
        if depth == 0 or self.nodes <= 0:
            return f"<{type_name(value)}>"
        try:
            return self.contents(value, depth - 1)
        except BaseException:  # users' properties and iterators may raise anything
            return plain_text(value)

    def contents(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.value(value.value, depth)
        if isinstance(value, BaseModel):
            return self.value(value.model_dump(mode="json"), depth)
        mapping = value if isinstance(value, Mapping) else field_values(value)
        if mapping is not None:
            return self.mapping(mapping, depth)
        if isinstance(value, list | tuple | Set):
            return [self.value(item, depth) for item in islice(value, self.max_items)]
        if isinstance(value, date | time):
            return value.isoformat()
        # Numbers of other libraries, such as NumPy's; other objects become text.
        convert = getattr(value, "item", None) or getattr(value, "__float__", None)
        number = convert() if callable(convert) else None
        return self.value(number, 1) if type(number) in (int, float, bool) else plain_text(value)

    def mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        items = islice(value.items(), self.max_items)
        return {plain_text(key, 1_000): self.value(item, depth) for key, item in items}


def shallow(value: Any) -> Any:
    """Return a value without levels below 60, which few programs can read or write.

    Beyond 100,000 items, values are left out too.
    """
    return _shallow(value, _DEEPEST, [_MAX_KEPT])


def _shallow(value: Any, depth: int, capacity: list[int]) -> Any:
    if not isinstance(value, Mapping | list | tuple):
        return value
    # A list with one number, which all levels share.
    capacity[0] -= len(value)
    if depth == 0 or capacity[0] < 0:
        return None
    if isinstance(value, Mapping):
        return {key: _shallow(item, depth - 1, capacity) for key, item in value.items()}
    return tuple(_shallow(item, depth - 1, capacity) for item in value)


def as_text(value: Any, max_chars: int = MAX_EVIDENCE) -> str:
    """Return a recorded value as text for a judge: a text unchanged, anything else as JSON.

    JSON is cut, with a mark, after `max_chars`. It is encoded piece by piece: encoding a large value at once
    would block other threads.
    """
    if isinstance(value, str):
        return value
    try:
        return _json(value, max_chars)
    except (RecursionError, ValueError):  # nested too deeply, or cyclic
        return _json(plain_value(value), max_chars)


def _json(value: Any, max_chars: int) -> str:
    parts: list[str] = []
    capacity = max_chars
    for part in json.JSONEncoder(ensure_ascii=False, default=plain_text).iterencode(value):
        if len(part) > capacity:
            return "".join([*parts, part[:capacity], " [cut off]"])
        parts.append(part)
        capacity -= len(part)
    return "".join(parts)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


_DEEPEST_JSON = 500
"""Levels of nesting: code that descends into a value a thousand levels deep would raise RecursionError."""
_decode = json.JSONDecoder().raw_decode
_TOO_DEEP = f"it is nested in more than {_DEEPEST_JSON} levels"


def read_lines(path: str | Path, field: str) -> list[str]:
    """Return the lines of a file; JSON texts may contain other ends of lines than these.

    Raises:
        ConfigError: it cannot be read; `field` names it.
    """
    try:
        return Path(path).read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeError) as error:
        raise ConfigError(field, f"cannot be read: {error}") from error


def read_json(text: str | bytes, *, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """Decode JSON, with an optional function for NaN and the infinities.

    Raises:
        ValueError: it is not JSON, or nested in more than 500 levels.
    """
    with _no_recursion():
        value = json.loads(text, parse_constant=parse_constant)
    _refuse_deep(value, sum(map(text.count, ("[", "{") if isinstance(text, str) else (b"[", b"{"))))  # type: ignore[arg-type]
    return value


def read_json_at(text: str, start: int) -> tuple[Any, int]:
    """Decode the JSON that starts at an index of a text; also returns the index of its end.

    Raises:
        ValueError: there is no JSON, or it is nested in more than 500 levels.
    """
    with _no_recursion():
        value, end = _decode(text, start)
    _refuse_deep(value, text.count("[", start, end) + text.count("{", start, end))
    return value, end


def write_json(value: Any, **options: Any) -> str:
    """Return a value as JSON, with null for NaN and the infinities, which JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    except ValueError:
        # Only then, because few values have such numbers and this takes two more passes.
        finite = json.loads(json.dumps(value, **options), parse_constant=_nothing)
        return json.dumps(finite, ensure_ascii=False, **options)


def _nothing(constant: str) -> None:
    """Stand for NaN or an infinity."""


@contextmanager
def _no_recursion() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _refuse_deep(value: Any, brackets: int) -> None:
    """Refuse a value that is nested too deeply; with so few opening brackets in its text, it cannot be."""
    if brackets <= _DEEPEST_JSON:
        return
    level = [value]
    for _ in range(_DEEPEST_JSON):
        containers = [each for each in level if isinstance(each, dict | list)]
        level = [item for each in containers for item in (each.values() if isinstance(each, dict) else each)]
    if any(isinstance(each, dict | list) for each in level):
        raise ValueError(_TOO_DEEP)
