"""The rows of tables in tool results: counted by the words that describe them, their amounts added up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import chain, combinations
from typing import Any

from otel_evals._internal.scorers.text.vocabulary import content_of

_MAX_ROWS = 2_000
_MAX_STRING = 60
_MAX_WORDS = 6
_TOGETHER = range(1, 4)
_MAX_ADDENDS = 8
_MAX_DIGITS = 40
_LARGEST = 10**18
_MONEY = "amount balance charge cost fare fee payment price refund total"
AMOUNTS = frozenset(_MONEY.split())
"""Words of fields with amounts of money."""

Row = Mapping[str, Any]


def tables_in(values: Iterable[Any]) -> Iterator[list[Row]]:
    """Yield the lists of objects, and the objects whose values are all objects, as lists of these."""
    for value in values:
        items = list(value.values() if isinstance(value, Mapping) else value)
        rows = [item for item in items if isinstance(item, Mapping)]
        if rows and (isinstance(value, Sequence) or len(rows) == len(items)):
            yield rows


class Rows:
    """The rows of all tables."""

    def __init__(self, tables: Iterable[Sequence[Row]]) -> None:
        self._tables = list({repr(table): table for table in tables}.values())

    def counts(self, words: Iterable[str]) -> set[int]:
        """Return how many rows, of one table or of all, have up to three of these words, or lack one of them.

        The words of a row are those of its short strings and of the names of its fields that are true.
        """
        told = [self._rows_of[word] for word in sorted(words) if word in self._rows_of][:_MAX_WORDS]
        subsets = chain.from_iterable(combinations(told, size) for size in _TOGETHER)
        shared = [Counter(table for table, _ in frozenset.intersection(*subset)) for subset in subsets]
        others = {
            len(self._tables[table]) - n for counted in shared[: len(told)] for table, n in counted.items()
        }
        return {n for counted in shared for n in (*counted.values(), counted.total())} | others

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
        for (n, i, row), _ in zip(places, range(_MAX_ROWS), strict=False):
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


def _strings(row: Row, nested: bool = True) -> Iterator[str]:
    for name, value in row.items():
        if value is True:
            yield str(name)
        elif isinstance(value, str) and len(value) <= _MAX_STRING:
            yield value
        elif isinstance(value, Mapping) and nested:
            yield from _strings(value, nested=False)
