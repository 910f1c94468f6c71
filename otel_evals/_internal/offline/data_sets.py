"""Data sets: inputs for a target, and expected answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_evals.errors import ConfigError

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question to a target."""

    input: Any
    """What the target is called with."""
    ground_truth: Any = None
    """The expected answer; scorers that compare read it as the run's `ground_truth`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Anything else about the item; kept with the result."""


def read_items(data: str | Path | Iterable[Any]) -> tuple[Item, ...]:
    """The items of a data set: `input`, and if you like `ground_truth` and `metadata`.

    Args:
        data: mappings, or objects with these attributes; or the path of a file with one JSON object per line.

    Raises:
        ConfigError: there are no items, or one has no `input`; names it.
    """
    if isinstance(data, str | Path):
        items = tuple(_of_line(line, f"{data}:{n}") for n, line in enumerate(_lines(data), 1) if line.strip())
    elif isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise ConfigError("data", f"must be a list of items or a path, not {type(data).__name__}")
    else:
        items = tuple(_item(each, f"data[{n}]") for n, each in enumerate(data))
    if not items:
        raise ConfigError("data", "holds no items")
    return items


def _lines(path: str | Path) -> list[str]:
    try:
        return Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"data: {path}", f"cannot be read: {error}") from error


def _of_line(line: str, place: str) -> Item:
    try:
        return _item(json.loads(line), place)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(place, f"is not JSON: {error}") from None


def _item(value: Any, place: str) -> Item:
    if isinstance(value, Item):
        return value

    def get(name: str) -> Any:
        return value.get(name, _ABSENT) if isinstance(value, Mapping) else getattr(value, name, _ABSENT)

    given = {name: get(name) for name in ("input", "ground_truth", "metadata")}
    if given["input"] is _ABSENT:
        raise ConfigError(place, f"has no `input`: {value!r:.100}")
    metadata = {} if given["metadata"] in (_ABSENT, None) else given["metadata"]
    if not isinstance(metadata, Mapping):
        raise ConfigError(f"{place}.metadata", f"must be a mapping, not {type(metadata).__name__}")
    truth = None if given["ground_truth"] is _ABSENT else given["ground_truth"]
    return Item(input=given["input"], ground_truth=truth, metadata=metadata)
