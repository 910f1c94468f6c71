"""An index of the evidence, in which claims are looked up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from typing import Any

from otel_evals._internal.scorers.bounds import in_order
from otel_evals._internal.scorers.text.claims import Claim, fold, identifier_pattern, mask
from otel_evals._internal.scorers.text.dates import Day, Time
from otel_evals._internal.scorers.text.numbers import Number
from otel_evals._internal.scorers.text.rows import Rows, decimal_of, is_amount
from otel_evals._internal.scorers.text.stated import StatedNumbers
from otel_evals._internal.scorers.text.vocabulary import Vocabulary
from otel_evals._internal.util.plain import read_json

_MAX_DEPTH = 32
_MAX_COLUMNS = 12
_MAX_ROWS = 500
_MAX_AMOUNTS, _MAX_WHOLE_AMOUNTS = 60, 8
_MAX_IDENTIFIER = 100
_MAX_JSON = 1_000_000
_PROSE_WORDS = 20
_PROSE_LOOK = 2_000
_MAX_SECONDS = 4_102_444_800  # 2100-01-01
_PARTS = tuple(map(frozenset, ((), (0,), (2,), (0, 2))))
_AT = re.compile(r"(?:\b(?:about|after|around|at|before|by|from|make it|till|to|until)|@) ?\Z", re.IGNORECASE)


class Evidence:
    """Structured results and texts, read once.

    Numbers, dates and identifiers are found inside longer strings too. JSON inside strings is read as JSON.
    """

    def __init__(
        self, *, results: Iterable[Any] = (), texts: Iterable[str] = (), now: int = 0, limit: int = 200_000
    ) -> None:
        self.results = tuple(decode(result) for result in results)
        leaves = [leaf for result in self.results for leaf in _leaves(result)]
        told = [leaf for leaf in leaves if isinstance(leaf, str)]
        self.text, length = _joined([*told, *texts], limit)
        """All strings, folded, up to `limit` characters."""
        self.prose = any(len(leaf[:_PROSE_LOOK].split(None, _PROSE_WORDS)) > _PROSE_WORDS for leaf in told)
        """True if a result is running text, in which a reader can count things that no field states."""
        self._leaf_numbers = [
            leaf for leaf in leaves if isinstance(leaf, int | float) and not isinstance(leaf, bool)
        ]
        self._now = now
        self.truncated = length > limit

    @cached_property
    def numbers(self) -> tuple[Decimal, ...]:
        """All numbers, sorted, without signs; years of dates and digits inside identifiers too."""
        return in_order(self.distinct)

    @cached_property
    def distinct(self) -> frozenset[Decimal]:
        """The numbers as a set; it always contains one."""
        inside = (Decimal(digits) for claim in self.taken for digits in re.findall(r"\d{3,18}", claim.text))
        return frozenset((*self.figures, *self.stated.readings(), *inside, *self._implied()))

    @cached_property
    def figures(self) -> frozenset[Decimal]:
        """All numbers that are values of their own, not part of a string."""
        values = map(decimal_of, self._leaf_numbers)
        return frozenset(value for value in values if value is not None)

    def _implied(self) -> Iterator[Decimal]:
        yield Decimal(1)
        if "half" in self.vocabulary.words:
            yield Decimal("0.5")

    @cached_property
    def _masked(self) -> tuple[str, list[Claim]]:
        return mask(self.text)

    @property
    def taken(self) -> list[Claim]:
        return self._masked[1]

    @cached_property
    def stated(self) -> StatedNumbers:
        """The numbers of the texts, except in dates, times and identifiers."""
        return StatedNumbers(self._masked[0])

    @cached_property
    def counts(self) -> frozenset[int]:
        """Lengths of lists and of objects of objects, and numbers of list entries with an equal value."""
        return frozenset(count for value in self._inside for count in _counts(value))

    @cached_property
    def rows(self) -> Rows:
        return Rows(self._inside)

    @cached_property
    def amounts(self) -> frozenset[Decimal]:
        """Amounts of money, if there are few: sums and differences of many would support anything."""
        fields = (field for value in self._inside if isinstance(value, Mapping) for field in value.items())
        figures = (decimal_of(item) for name, item in fields if is_amount(name))
        found = {number.readings[0] for number in self.stated.all if number.unit == "money"}
        found.update(figure for figure in figures if figure is not None)
        few = _MAX_AMOUNTS if any(amount % 1 for amount in found) else _MAX_WHOLE_AMOUNTS
        return frozenset(found if len(found) <= few else ())

    @cached_property
    def totals(self) -> tuple[Decimal, ...]:
        """Sums of a field over a list, products of two fields of an object, sums of such products; sorted."""
        return in_order({total for value in self._inside for total in _totals(value)})

    @cached_property
    def _inside(self) -> tuple[Mapping[str, Any] | Sequence[Any], ...]:
        return tuple(value for result in self.results for value in _inside(result))

    def has_day(self, day: Day) -> bool:
        """Look up a date; a part that either side leaves out matches."""
        told = _told(day)
        shared = ((parts, told & parts) for parts in self._parts_told)
        return any((parts, _reduced(day, both)) in self._days for parts, both in shared)

    @cached_property
    def days_of_month(self) -> frozenset[int | None]:
        return frozenset(day[2] for day in self.days)

    @cached_property
    def _days(self) -> frozenset[tuple[frozenset[int], Day]]:
        """All dates, whole and without some of their parts, with the parts that each came with."""
        return frozenset(
            (_told(d), _reduced(d, some)) for d in self.days for some in _PARTS if some <= _told(d)
        )

    @cached_property
    def _parts_told(self) -> frozenset[frozenset[int]]:
        return frozenset(parts for parts, _ in self._days)

    @cached_property
    def days(self) -> frozenset[Day]:
        """All dates, including epoch seconds and milliseconds and the day of the run."""
        stated = (day for claim in self.taken if claim.when for day in claim.when.days)
        epochs = (day for figure in self._leaf_numbers for day in _epoch_days(figure))
        return frozenset((*stated, *epochs, *_epoch_days(self._now / 1e9)))

    @cached_property
    def times(self) -> frozenset[Time]:
        """All times of day; in running text also a bare hour: at 7."""
        written = (time for claim in self.taken if claim.when for time in claim.when.times)
        hours = (
            n for n in self.stated.all if self.prose and _AT.search(self.text, max(0, n.start - 8), n.start)
        )
        spoken = (time for number in hours for time in _hours(number))
        return frozenset((*written, *spoken))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.text)

    def has_identifier(self, identifier: str) -> bool:
        """Look up an identifier with any separators."""
        pattern = identifier_pattern(identifier[:_MAX_IDENTIFIER])
        size, overlap = 4_096, 3 * _MAX_IDENTIFIER
        starts = range(0, max(1, len(self._folded)), size)
        return any(pattern.search(self._folded, at, at + size + overlap) for at in starts)

    @cached_property
    def _folded(self) -> str:
        return self.text.casefold()


def _joined(texts: Sequence[str], limit: int) -> tuple[str, int]:
    """Return the beginning of all texts, folded, and their total length."""
    kept, length = [], 0
    for text in texts:
        if length < limit:
            kept.append(text[: limit - length])
        length += len(text)
    return fold("\n".join(kept), limit), length


def _told(day: Day) -> frozenset[int]:
    return frozenset(part for part in (0, 2) if day[part] is not None)


def _reduced(day: Day, parts: frozenset[int]) -> Day:
    """Return a date without its year or day, unless among the parts to keep."""
    return day[0] if 0 in parts else None, day[1], day[2] if 2 in parts else None


def _hours(number: Number) -> Iterator[Time]:
    value = number.readings[0]
    if not number.unit and 1 <= value <= 24 and value == value.to_integral_value():
        yield int(value) % 24, 0
        yield (int(value) + 12) % 24, 0


def decode(value: Any) -> Any:
    """Parse a string with a JSON object or array of at most a million characters; return others unchanged."""
    if isinstance(value, str) and len(value) <= _MAX_JSON and value.lstrip()[:1] in ("{", "["):
        try:
            return read_json(value)
        except ValueError:
            return value
    return value


def _leaves(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Any]:
    """Yield the keys and scalars of a JSON value, in order."""
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
    """Yield the objects and arrays of a JSON value, itself included."""
    value = decode(value)
    if not depth or not isinstance(value, Mapping | Sequence) or isinstance(value, str | bytes):
        return
    yield value
    for item in value.values() if isinstance(value, Mapping) else value:
        yield from _inside(item, depth - 1)


def _counts(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[int]:
    if isinstance(value, Mapping):
        yield from [len(value)] if all(isinstance(item, Mapping) for item in value.values()) else []
    else:
        yield len(value)
        rows = [row for row in value if isinstance(row, Mapping)]
        yield from Counter(
            (k, v) for row in rows for k, v in row.items() if isinstance(v, str | int)
        ).values()


def _totals(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[Decimal]:
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
    """Return the numeric fields of an object and its nested objects; decimal numbers in strings count."""
    figures = {}
    for name, value in row.items():
        figure = decimal_of(value)
        if figure is not None:
            figures[str(name)] = figure
        elif isinstance(value, Mapping):
            figures |= {f"{name}.{k}": f for k, v in value.items() if (f := decimal_of(v)) is not None}
    return figures


def _epoch_days(figure: float) -> Iterator[Day]:
    for unit in (1, 1000):
        if 1_000_000_000 * unit <= figure <= _MAX_SECONDS * unit:
            yield _day(datetime.fromtimestamp(figure / unit, UTC))


def _day(moment: datetime) -> Day:
    return moment.year, moment.month, moment.day
