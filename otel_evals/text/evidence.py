"""What an answer may rest on, indexed so that a claim can be looked up."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import combinations
from typing import Any

from otel_evals.text.claims import Claim, fold, identifier_pattern, mask
from otel_evals.text.dates import Day, Time
from otel_evals.text.numbers import SECONDS, Number, numbers_in

__all__ = ["Evidence"]

_MAX_DEPTH = 32
_MAX_COLUMNS = 12
_MAX_ROWS = 500
_MAX_DIGITS = 40
_LARGEST = Decimal(10) ** 18
_MAX_SECONDS = 4_102_444_800  # 2100-01-01


class Evidence:
    """Structured results and texts, read once.

    Numbers, dates and identifiers are found wherever they stand, inside longer strings too. JSON inside
    strings is read as JSON.
    """

    def __init__(
        self, *, results: Iterable[Any] = (), texts: Iterable[str] = (), now: int = 0, limit: int = 200_000
    ) -> None:
        self._results = tuple(decode(result) for result in results)
        leaves = [leaf for result in self._results for leaf in _leaves(result)]
        pieces = [*(leaf for leaf in leaves if isinstance(leaf, str)), *texts]
        self.text = fold("\n".join(pieces))[:limit]
        """All strings, folded; what exceeds `limit` characters is not looked at."""
        self._figures = [
            leaf for leaf in leaves if isinstance(leaf, int | float) and not isinstance(leaf, bool)
        ]
        self._now = now
        self.truncated = sum(map(len, pieces)) > limit

    @cached_property
    def numbers(self) -> tuple[Decimal, ...]:
        """All numbers, sorted, without signs: those of dates' years and of digits inside identifiers too."""
        return tuple(sorted(self.distinct))

    @cached_property
    def distinct(self) -> frozenset[Decimal]:
        """The same as a set. One is always there: it is said of anything."""
        figures = (_decimal(figure) for figure in self._figures)
        readings = (reading for number in self._stated for reading in number.readings)
        inside = (Decimal(digits) for claim in self._taken for digits in re.findall(r"\d{3,18}", claim.text))
        return frozenset(n for n in (*figures, *readings, *inside) if n is not None) | {Decimal(1)}

    @cached_property
    def durations(self) -> frozenset[Decimal]:
        """All stretches of time that texts state, in seconds."""
        spans = (number for number in self._stated if number.unit in SECONDS)
        return frozenset(reading * SECONDS[span.unit] for span in spans for reading in span.readings)

    @cached_property
    def _masked(self) -> tuple[str, list[Claim]]:
        return mask(self.text)

    @property
    def _taken(self) -> list[Claim]:
        return self._masked[1]

    @cached_property
    def _stated(self) -> list[Number]:
        return list(numbers_in(self._masked[0]))

    @cached_property
    def counts(self) -> frozenset[int]:
        """Lengths of lists and of objects of objects, and how many entries of a list share a value."""
        return frozenset(count for result in self._results for count in _counts(result))

    @cached_property
    def totals(self) -> tuple[Decimal, ...]:
        """Sums of a field over a list, products of two fields of an object, sums of such products; sorted."""
        return tuple(sorted({total for result in self._results for total in _totals(result)}))

    @cached_property
    def days(self) -> frozenset[Day]:
        """All dates; epoch seconds and milliseconds too, and the day of the run itself."""
        stated = (day for claim in self._taken if claim.when for day in claim.when.days)
        epochs = (day for figure in self._figures for day in _epoch_days(figure))
        return frozenset((*stated, *epochs, *_epoch_days(self._now / 1e9)))

    @cached_property
    def times(self) -> frozenset[Time]:
        """All times of day."""
        return frozenset(time for claim in self._taken if claim.when for time in claim.when.times)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words, case-folded."""
        return frozenset(re.findall(r"[^\W\d_]+", self._folded))

    def has_identifier(self, identifier: str) -> bool:
        """Whether an identifier stands in a text, however its parts are separated."""
        return bool(identifier_pattern(identifier).search(self._folded))

    @cached_property
    def _folded(self) -> str:
        return self.text.casefold()


def decode(value: Any) -> Any:
    """A string that holds a JSON object or array, as that; anything else unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _leaves(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Any]:
    """Keys and scalars of a JSON value, in order."""
    value = decode(value)
    if isinstance(value, Mapping) and depth:
        for key, item in value.items():
            yield str(key)
            yield from _leaves(item, depth - 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and depth:
        for item in value:
            yield from _leaves(item, depth - 1)
    elif value is not None:
        yield value if isinstance(value, str | int | float) else str(value)


def _inside(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Mapping[str, Any] | Sequence[Any]]:
    """A JSON value's objects and arrays, itself included."""
    value = decode(value)
    if not depth or not isinstance(value, Mapping | Sequence) or isinstance(value, str | bytes):
        return
    yield value
    for item in value.values() if isinstance(value, Mapping) else value:
        yield from _inside(item, depth - 1)


def _counts(result: Any) -> Iterator[int]:
    for value in _inside(result):
        if isinstance(value, Mapping):
            yield from [len(value)] if all(isinstance(item, Mapping) for item in value.values()) else []
        else:
            yield len(value)
            rows = [row for row in value if isinstance(row, Mapping)]
            shared = Counter((k, v) for row in rows for k, v in row.items() if isinstance(v, str | int))
            yield from shared.values()
            yield from (len(value) - n for n in shared.values() if n < len(value))


def _totals(result: Any) -> Iterator[Decimal]:
    for value in _inside(result):
        rows = [value] if isinstance(value, Mapping) else [row for row in value if isinstance(row, Mapping)]
        table = [row for row in map(_figures_of, rows[:_MAX_ROWS]) if row]
        names = list(dict.fromkeys(name for row in table for name in row))[:_MAX_COLUMNS]
        if len(table) > 1:
            yield from (sum((row.get(name, Decimal()) for row in table), Decimal()) for name in names)
        for a, b in combinations(names, 2):
            products = [row[a] * row[b] for row in table if a in row and b in row]
            yield from products
            yield sum(products, Decimal())


def _figures_of(row: Mapping[str, Any]) -> dict[str, Decimal]:
    """An object's numeric fields, of nested objects too; decimal numbers in strings count."""
    figures = {}
    for name, value in row.items():
        figure = _decimal(value)
        if figure is not None:
            figures[str(name)] = figure
        elif isinstance(value, Mapping):
            figures |= {f"{name}.{k}": f for k, v in value.items() if (f := _decimal(v)) is not None}
    return figures


def _decimal(value: Any) -> Decimal | None:
    """A number of sensible size, without its sign."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > _MAX_DIGITS:
        return None
    try:
        number = Decimal(str(value)).copy_abs()
    except InvalidOperation:
        return None
    return number if number.is_finite() and number < _LARGEST else None


def _epoch_days(figure: float) -> Iterator[Day]:
    for seconds in (figure, figure / 1000):
        if 1_000_000_000 <= seconds <= _MAX_SECONDS:
            yield _day(datetime.fromtimestamp(seconds, UTC))


def _day(moment: datetime) -> Day:
    return moment.year, moment.month, moment.day
