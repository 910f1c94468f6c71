"""The rows of tables in tool results: counted by the words that describe them, their amounts added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Any

from otel_evals._internal.scorers.text.vocabulary import content_of

_MAX_ROWS = 2_000
_MAX_STRING = 60
_MAX_WORDS = 6
_TOGETHER = range(1, 4)
_MAX_ADDENDS = 8
_MAX_DIGITS = 40
_LARGEST = 10**18
AMOUNTS = frozenset(["amount", "balance", "charge", "cost", "fare", "fee", "price", "refund", "total"])
"""Words of fields with amounts of money."""


class Rows:
    """The rows of all tables: lists of objects, and objects whose values are all objects."""

    def __init__(self, values: Iterable[Mapping[str, Any] | Sequence[Any]]) -> None:
        found = {}
        for value in values:
            items = list(value.values()) if isinstance(value, Mapping) else value
            rows = [item for item in items if isinstance(item, Mapping)]
            if rows and (items is value or len(rows) == len(items)):
                found[repr(rows)] = rows
        self._tables = list(found.values())

    def counts(self, words: Iterable[str]) -> set[int]:
        """Return how many rows, of one table or of all, have up to three of these words, or lack one of them.

        A row's words come from its short strings and from the names of its true fields.
        """
        told = [self._rows_of[word] for word in sorted(words) if word in self._rows_of][:_MAX_WORDS]
        subsets = chain.from_iterable(combinations(told, size) for size in _TOGETHER)
        shared = [Counter(table for table, _ in frozenset.intersection(*subset)) for subset in subsets]
        single = (pair for counted in shared[: len(told)] for pair in counted.items())
        others = {len(self._tables[table]) - n for table, n in single}
        return others.union(*((*counted.values(), counted.total()) for counted in shared))

    @cached_property
    def sums(self) -> frozenset[Decimal]:
        """Sums of an amount over some of the rows of a short table."""
        found: set[Decimal] = set()
        for table in self._tables:
            for name in {str(name) for row in table[:_MAX_ADDENDS] for name in row if is_amount(name)}:
                column = [figure for row in table if (figure := decimal_of(row.get(name))) is not None]
                sizes = range(2, len(column) + 1) if len(column) <= _MAX_ADDENDS else ()
                found.update(sum(part, Decimal()) for size in sizes for part in combinations(column, size))
        return frozenset(found)

    @cached_property
    def _rows_of(self) -> dict[str, frozenset[tuple[int, int]]]:
        found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
        places = ((n, i, row) for n, table in enumerate(self._tables) for i, row in enumerate(table))
        for n, i, row in islice(places, _MAX_ROWS):
            for word in content_of(" ".join(_strings(row))):
                found[word].add((n, i))
        return {word: frozenset(rows) for word, rows in found.items()}


def is_amount(field: object) -> bool:
    """Return True if a field's name has a word for money."""
    return not AMOUNTS.isdisjoint(content_of(str(field).replace("_", " ")))


def decimal_of(value: Any) -> Decimal | None:
    """Return a number of sensible size, without its sign."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
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
