"""The numbers of texts, indexed by the things they count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from itertools import combinations

from otel_evals._internal.scorers.bounds import pieces
from otel_evals._internal.scorers.text.claim import Claim
from otel_evals._internal.scorers.text.numbers import SECONDS, numbers_in, ordinals_in

_MAX_SAME = 100
_MAX_ADDENDS = 8
_PERIODS = frozenset(["month", "year", "decade"])


class StatedNumbers:
    """The numbers of a folded text, in order."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def all(self) -> tuple[Claim, ...]:
        found = ((offset, number) for offset, piece in pieces(self._text) for number in numbers_in(piece))
        return tuple(replace(number, start=number.start + offset) for offset, number in found)

    def readings(self) -> Iterator[Decimal]:
        return (reading for number in self.all for reading in number.readings)

    @cached_property
    def ranks(self) -> frozenset[Decimal]:
        """All ordinals, in digits or words: 3 for 3rd, third and Q3."""
        words = (Decimal(rank) for _, piece in pieces(self._text) for rank in ordinals_in(piece))
        digits = (reading for n in self.all if n.unit == "ordinal" for reading in n.readings)
        return frozenset((*words, *digits))

    @cached_property
    def durations(self) -> frozenset[Decimal]:
        """All durations, in seconds."""
        spans = (number for number in self.all if number.unit in SECONDS)
        return frozenset(reading * SECONDS[span.unit] for span in spans for reading in span.readings)

    @cached_property
    def sums(self) -> frozenset[Decimal]:
        """Sums and differences of two numbers, if there are few: many would support anything."""
        # Years are left out: the difference of two years is no amount.
        plain = {n.readings[0] for n in self.all if n.unit in ("", "money") and not n.is_year()}
        pairs = combinations(plain, 2) if len(plain) <= _MAX_ADDENDS else ()
        return frozenset(result for a, b in pairs for result in (a + b, abs(a - b)))

    @cached_property
    def tells_years(self) -> bool:
        """Whether a number of years is stated: aged 31, 3 years ago."""
        return any(_period(number) == "year" for number in self.all)

    def counts_otherwise(self, number: Claim) -> bool:
        """Return True if another count of the same things is stated: three men, for two armed men."""
        return not self._counted.isdisjoint(number.nouns())

    def refutes(self, number: Claim) -> bool:
        """Return True if this number is stated only of other things, and another number of the same things.

        `5 business days` refutes `10 business days`, though 10 appears elsewhere. Two words have to agree,
        because a single word (days) has many numbers. `3 years` alone refutes `3 months`.
        """
        same = [other for reading in number.readings for other in self._by_value.get(reading, ())]
        # A number that is stated of the same things, or everywhere, is supported.
        if not 0 < len(same) < _MAX_SAME or any(number.nouns() & other.nouns() for other in same):
            return False
        period = _period(number)
        if period:
            return all(_period(other) not in ("", period) for other in same)
        return (_phrase(number), number.unit) in self._phrases and bool(_phrase(number))

    @cached_property
    def _by_value(self) -> dict[Decimal, Sequence[Claim]]:
        found: defaultdict[Decimal, list[Claim]] = defaultdict(list)
        for number in self.all:
            for reading in number.readings:
                # Bounded: `refutes` reads all of them, and does nothing from this number on.
                if len(found[reading]) < _MAX_SAME:
                    found[reading].append(number)
        return dict(found)

    @cached_property
    def _phrases(self) -> frozenset[tuple[tuple[str, ...], str]]:
        return frozenset((_phrase(number), number.unit) for number in self.all)

    @cached_property
    def _counted(self) -> frozenset[str]:
        return frozenset(noun for number in self.all if number.is_count() for noun in number.nouns())


def _period(number: Claim) -> str:
    """Return the period that a number counts, such as day or month; empty for anything else."""
    if number.unit in SECONDS:
        return number.unit
    word = number.things[0].removesuffix("s") if number.things else ""
    return word if word in _PERIODS else ""


def _phrase(number: Claim) -> tuple[str, ...]:
    """Return the two words after a number, of which the first may be an adjective."""
    two = tuple(word.removesuffix("s") for word in number.things[:2])
    return two if len(two) == 2 and number.nouns() else ()
