"""Data sets: inputs for a target, and expected answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_evals._internal.util.plain import read_json
from otel_evals.errors import ConfigError

_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question to a target."""

    input: Any
    """Argument of the target."""
    ground_truth: Any = None
    """The expected answer; scorers that compare read it as the run's `ground_truth`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other data about the item; kept with the result."""


def read_items(data: str | Path | Iterable[Any]) -> tuple[Item, ...]:
    """Read the items of a data set: `input`, and optionally `ground_truth` and `metadata`.

    Args:
        data: mappings, or objects with these attributes; or the path of a file with one JSON object per line.

    Raises:
        ConfigError: there are no items, or the named one has no `input`.
    """
    if isinstance(data, str | Path):
        try:
            lines = Path(data).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"data: {data}", f"cannot be read: {error}") from error
        items = tuple(_of_line(line, f"{data}:{n}") for n, line in enumerate(lines, 1) if line.strip())
    elif isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise ConfigError("data", f"must be a list of items or a path, not {type(data).__name__}")
    else:
        items = tuple(_item(each, f"data[{n}]") for n, each in enumerate(data))
    if not items:
        raise ConfigError("data", "contains no items")
    return items


def _of_line(line: str, place: str) -> Item:
    try:
        value = read_json(line)
    except ValueError as error:
        raise ConfigError(place, f"is not JSON: {error}") from None
    return _item(value, place)


def _item(value: Any, place: str) -> Item:
    if isinstance(value, Item):
        return value

    def get(name: str, default: Any = None) -> Any:
        return value.get(name, default) if isinstance(value, Mapping) else getattr(value, name, default)

    if get("input", _ABSENT) is _ABSENT:
        raise ConfigError(place, f"has no `input`: {value!r:.100}")
    metadata = get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigError(f"{place}.metadata", f"must be a mapping, not {type(metadata).__name__}")
    return Item(input=get("input"), ground_truth=get("ground_truth"), metadata=metadata or {})
