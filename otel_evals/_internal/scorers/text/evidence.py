"""An index of the evidence, in which claims are looked up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from itertools import combinations, product
from typing import Any

from otel_evals._internal.scorers.bounds import in_order
from otel_evals._internal.scorers.text.claim import Claim, Day, Time
from otel_evals._internal.scorers.text.claims import fold, identifier_pattern, mask
from otel_evals._internal.scorers.text.rows import Rows, Value, decimal_of, is_amount, is_array, values_in
from otel_evals._internal.scorers.text.stated import StatedNumbers
from otel_evals._internal.scorers.text.vocabulary import Vocabulary

_MAX_COLUMNS = 12
_MAX_ROWS = 500
_MAX_AMOUNTS, _MAX_WHOLE_AMOUNTS = 60, 8
_MAX_IDENTIFIER = 100
_SEARCHED_AT_ONCE = 4_096
_INSIDE = re.compile(r"(?<![\d.])\d+\.\d+(?=\.\d)|\d{3,18}")
_PROSE_WORDS = 20
_PROSE_LOOK = 2_000
_MAX_SECONDS = 4_102_444_800  # 2100-01-01
# Not None, which stands for a part that the looked-up date lacks.
_ANY = -1
"""Stands for the year or the day that a date of the evidence lacks: every one matches."""
_AT = re.compile(r"(?:\b(?:about|after|around|at|before|by|from|make it|till|to|until)|@) ?\Z", re.IGNORECASE)


class Evidence:
    """Structured results and texts, read once.

    Numbers, dates and identifiers are found inside longer strings too.
    """

    def __init__(
        self, *, results: Iterable[Any] = (), texts: Iterable[str] = (), now: int = 0, limit: int = 200_000
    ) -> None:
        self.values = tuple(value for result in results for value in values_in(result))
        strings = list(_strings(self.values))
        whole = "\n".join((*strings, *texts))
        # Cut before and after folding, which may lengthen the text.
        self.text = fold(whole[:limit], limit)
        """All strings, folded, up to `limit` characters."""
        self.truncated = len(whole) > limit
        self.prose = any(len(each[:_PROSE_LOOK].split(None, _PROSE_WORDS)) > _PROSE_WORDS for each in strings)
        """True if a result is running text, in which a reader can count things that no field states."""
        self._leaf_numbers = [each.value for each in self.values if isinstance(each.value, int | float)]
        self._now = now

    @cached_property
    def numbers(self) -> tuple[Decimal, ...]:
        """All numbers, sorted, without signs; years of dates and digits inside identifiers too."""
        return in_order(self.distinct)

    @cached_property
    def distinct(self) -> frozenset[Decimal]:
        """The numbers as a set; it always contains one."""
        # An answer may state the digits of an identifier: order 1001 for A-1001, Python 3.11 for 3.11.7.
        inside = (Decimal(digits) for claim in self.taken for digits in _INSIDE.findall(claim.text))
        half = [Decimal("0.5")] if "half" in self.vocabulary.words else []
        return frozenset((Decimal(1), *half, *self.figures, *self.stated.readings(), *inside))

    @cached_property
    def figures(self) -> frozenset[Decimal]:
        """All numbers that are values of their own, not part of a string."""
        return frozenset(value for value in map(decimal_of, self._leaf_numbers) if value is not None)

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
    def _containers(self) -> tuple[Value, ...]:
        return tuple(each for each in self.values if isinstance(each.value, Mapping) or is_array(each.value))

    @cached_property
    def counts(self) -> frozenset[int]:
        """Lengths of lists and of objects of objects, and numbers of list entries with an equal value."""
        return frozenset(count for each in self._containers for count in _counts(each.value))

    @cached_property
    def rows(self) -> Rows:
        return Rows(self._containers)

    @cached_property
    def amounts(self) -> frozenset[Decimal]:
        """Amounts of money, if there are few: sums and differences of many would support anything."""
        found = {number.readings[0] for number in self.stated.all if number.unit == "money"}
        for each in self.values:
            figure = decimal_of(each.value)
            if each.owner is not None and figure is not None and is_amount(each.path[-1]):
                found.add(figure)
        # Round amounts add up to other round amounts by chance.
        few = _MAX_AMOUNTS if any(amount % 1 for amount in found) else _MAX_WHOLE_AMOUNTS
        return frozenset(found if len(found) <= few else ())

    @cached_property
    def totals(self) -> tuple[Decimal, ...]:
        """Sums of a field over a list, products of two fields of an object, sums of such products; sorted."""
        return in_order({total for each in self._containers for total in _totals(each.value)})

    def has_day(self, day: Day) -> bool:
        """Look up a date; a part that either side leaves out matches."""
        year, month, of_month = day
        years, days = ((None,) if part is None else (part, _ANY) for part in (year, of_month))
        return any((y, month, d) in self._days for y, d in product(years, days))

    @cached_property
    def _days(self) -> frozenset[Day]:
        """All dates, whole and without each part that a claim may leave out."""
        forms = ((day[1], (day[0] or _ANY, None), (day[2] or _ANY, None)) for day in self.days)
        return frozenset((y, month, d) for month, years, days in forms for y, d in product(years, days))

    @cached_property
    def days_of_month(self) -> frozenset[int | None]:
        return frozenset(day[2] for day in self.days)

    @cached_property
    def days(self) -> frozenset[Day]:
        """All dates, including epoch seconds and milliseconds and the day of the run."""
        stated = (day for claim in self.taken for day in claim.days)
        epochs = (day for figure in (*self._leaf_numbers, self._now / 1e9) for day in _epoch_days(figure))
        return frozenset((*stated, *epochs))

    @cached_property
    def times(self) -> frozenset[Time]:
        """All times of day, also a bare hour: at 7."""
        written = (time for claim in self.taken for time in claim.times)
        hours = (n for n in self.stated.all if _AT.search(self.text, max(0, n.start - 8), n.start))
        return frozenset((*written, *(time for number in hours for time in _hours(number))))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.text)

    def has_identifier(self, identifier: str) -> bool:
        """Look up an identifier with any separators."""
        # The pattern of a long text takes long to compile.
        if len(identifier) > _MAX_IDENTIFIER:
            return identifier.casefold() in self._folded
        pattern = identifier_pattern(identifier)
        # A separator may take three characters.
        size = _SEARCHED_AT_ONCE + 4 * _MAX_IDENTIFIER
        starts = range(0, max(1, len(self._folded)), _SEARCHED_AT_ONCE)
        return any(pattern.search(self._folded, at, at + size) for at in starts)

    @cached_property
    def _folded(self) -> str:
        return self.text.casefold()


def _strings(values: Iterable[Value]) -> Iterator[str]:
    """Yield the names of fields and the scalars that are no numbers, in order."""
    for each in values:
        if each.owner is not None:
            yield each.path[-1]
        value = each.value
        if not (isinstance(value, int | float | Mapping | None) or is_array(value)):
            yield str(value)


def _hours(number: Claim) -> Iterator[Time]:
    hour = int(number.readings[0])
    if number.is_count() and 1 <= hour <= 24:
        yield hour % 24, 0
        yield (hour + 12) % 24, 0


def _counts(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        yield from [len(value)] if all(isinstance(item, Mapping) for item in value.values()) else []
    else:
        yield len(value)
        rows = [row for row in value if isinstance(row, Mapping)]
        yield from Counter(
            (k, v) for row in rows for k, v in row.items() if isinstance(v, str | int)
        ).values()


def _totals(value: Any) -> Iterator[Decimal]:
    rows = [value] if isinstance(value, Mapping) else [row for row in value if isinstance(row, Mapping)]
    # Rows and columns are bounded: every two columns are multiplied.
    table = [row for row in map(_figures_of, rows[:_MAX_ROWS]) if row]
    names = list(dict.fromkeys(name for row in table for name in row))[:_MAX_COLUMNS]
    yield from (sum((row.get(name, Decimal()) for row in table), Decimal()) for name in names)
    # Any two fields may be a price and a quantity.
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
    # Seconds or milliseconds since 1970.
    for unit in (1, 1000):
        if 1_000_000_000 * unit <= figure <= _MAX_SECONDS * unit:
            moment = datetime.fromtimestamp(figure / unit, UTC)
            yield moment.year, moment.month, moment.day
