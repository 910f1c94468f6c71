"""The values of structured results, and the rows of their tables: counted by words, amounts added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import combinations
from typing import Any

from otel_evals._internal.scorers.text.vocabulary import content_of
from otel_evals._internal.util.plain import read_json

_MAX_JSON = 1_000_000
_MAX_DEPTH = 32
_MAX_ROWS = 2_000
_MAX_STRING = 60
_MAX_WORDS = 6
_TOGETHER = range(1, 4)
_MAX_ADDENDS = 8
_MAX_DIGITS = 40
_LARGEST = 10**18
AMOUNTS = frozenset(["amount", "balance", "charge", "cost", "fare", "fee", "price", "refund", "total"])
"""Words of fields with amounts of money."""


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, an object or an array of a structured result."""

    value: Any
    path: tuple[str, ...] = ()
    """Names of the fields that lead to it."""
    owner: Mapping[str, Any] | None = None
    """The object that has it as a field; None for items of arrays."""


def values_in(result: Any) -> Iterator[Value]:
    """Yield all values of a result, itself first; JSON inside strings is read as JSON."""
    return _inside(Value(decode(result)), _MAX_DEPTH)


def _inside(found: Value, depth: int) -> Iterator[Value]:
    yield found
    value = found.value
    if isinstance(value, Mapping) and depth:
        for name, item in value.items():
            yield from _inside(Value(decode(item), (*found.path, str(name)), value), depth - 1)
    elif is_array(value) and depth:
        for item in value:
            yield from _inside(Value(decode(item), found.path), depth - 1)


def is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def decode(value: Any) -> Any:
    """Parse a string with a JSON object or array of at most a million characters; return others unchanged."""
    if isinstance(value, str) and len(value) <= _MAX_JSON and value.lstrip()[:1] in ("{", "["):
        try:
            return read_json(value)
        except ValueError:
            return value
    return value


class Rows:
    """The rows of all tables: lists of objects, and objects whose values are all objects."""

    def __init__(self, values: Iterable[Value]) -> None:
        found: dict[str, list[Mapping[str, Any]]] = {}
        for each in values:
            is_object = isinstance(each.value, Mapping)
            items = list(each.value.values()) if is_object else each.value
            rows = [item for item in items if isinstance(item, Mapping)]
            if rows and (len(rows) == len(items) or not is_object):
                # A repeated call returns the same table again.
                found[repr(rows)] = rows
        self._tables = list(found.values())

    def counts(self, words: Iterable[str]) -> set[int]:
        """Return how many rows, of one table or of all, have up to three of these words, or lack one of them.

        A row's words come from its short strings and from the names of its true fields.
        """
        # Sorted before the cut: the order of a set differs between processes.
        described = [self._rows_of[word] for word in sorted(words) if word in self._rows_of][:_MAX_WORDS]
        found: set[int] = set()
        for rows in described:
            found.update(len(self._tables[table]) - n for table, n in _per_table(rows).items())
        for size in _TOGETHER:
            for some in combinations(described, size):
                counted = _per_table(frozenset.intersection(*some))
                found.update((*counted.values(), counted.total()))
        return found

    @cached_property
    def sums(self) -> frozenset[Decimal]:
        """Sums of an amount over some of the rows of a short table."""
        found: set[Decimal] = set()
        for table in self._tables:
            for name in {name for row in table[:_MAX_ADDENDS] for name in row if is_amount(name)}:
                figures = [decimal_of(row.get(name)) for row in table]
                column = [figure for figure in figures if figure is not None]
                # Short columns only: each further number doubles the sums.
                for size in range(2, len(column) + 1) if len(column) <= _MAX_ADDENDS else ():
                    found.update(sum(part, Decimal()) for part in combinations(column, size))
        return frozenset(found)

    @cached_property
    def _rows_of(self) -> dict[str, frozenset[tuple[int, int]]]:
        """The rows by word, each the number of its table and its own."""
        found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        places = [(n, i, row) for n, table in enumerate(self._tables) for i, row in enumerate(table)]
        for n, i, row in places[:_MAX_ROWS]:
            for word in content_of(" ".join(_strings(row))):
                found[word].add((n, i))
        return {word: frozenset(rows) for word, rows in found.items()}


def _per_table(rows: Iterable[tuple[int, int]]) -> Counter[int]:
    return Counter(table for table, _ in rows)


def is_amount(field: object) -> bool:
    """Return True if a field's name has a word for money."""
    return not AMOUNTS.isdisjoint(content_of(str(field).replace("_", " ")))


def decimal_of(value: Any) -> Decimal | None:
    """Return a number of sensible size, without its sign."""
    if type(value) not in (int, float, str):
        return None
    # The text of an endless integer takes time that grows with its square.
    if abs(value) >= _LARGEST if isinstance(value, int) else len(str(value)) > _MAX_DIGITS:
        return None
    try:
        number = Decimal(str(value)).copy_abs()
    except InvalidOperation:
        return None
    return number if number.is_finite() and number < _LARGEST else None


def _strings(row: Mapping[str, Any], nested: bool = True) -> Iterator[str]:
    for name, value in row.items():
        if value is True:
            yield str(name)
        elif isinstance(value, str) and len(value) <= _MAX_STRING:
            yield value
        elif isinstance(value, Mapping) and nested:
            yield from _strings(value, nested=False)
