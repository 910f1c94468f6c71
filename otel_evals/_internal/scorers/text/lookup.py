"""Looks claims up in the evidence: directly, rounded, in another unit, by counting, by arithmetic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, combinations

from otel_evals._internal.scorers.bounds import in_order
from otel_evals._internal.scorers.text.claim import Claim
from otel_evals._internal.scorers.text.evidence import Evidence
from otel_evals._internal.scorers.text.numbers import SECONDS
from otel_evals._internal.scorers.text.vocabulary import words_near

_ADDED_UP = ("", "money")
"""Units of numbers that are added, subtracted and multiplied."""
_MAX_ROUNDS = 8
_MAX_POOL = 60
_MAX_FIGURES = 2000
_APPROXIMATE = Decimal("0.05")
_YEARS = Decimal(1000), Decimal(2100)
_MAX_COUNTED = 12
_MAX_COUNTS = 50
_MAX_YEARS = 12
_MAX_PERCENTAGES = 10
_SMALL = 20  # whole numbers up to here come out of any arithmetic: that they do says nothing


def check(
    claims: Sequence[Claim], answer: str, evidence: Evidence, counts: Collection[int]
) -> tuple[list[Claim], list[Claim]]:
    """Return the claims of an answer that can be checked, and those among them without support.

    Code cannot count what running text describes. A small count in words is left out if such text does not
    state it, and states no other count of the same things.
    """
    lookup = _Lookup(evidence, evidence.counts | frozenset(counts))
    missing = [claim for claim in claims if not lookup.found(claim)]
    # Left out of the score: neither for nor against the answer.
    uncounted = {claim for claim in missing if lookup.only_a_reader_can_count(claim)}
    checked = [claim for claim in claims if claim not in uncounted]
    # Bounded: each of these claims is compared with combinations of rows.
    counted = {claim for claim in missing[:_MAX_COUNTS] if lookup.counts_rows(claim, answer)}
    left = [claim for claim in missing if claim not in uncounted | counted]
    return checked, lookup.without_derived(checked, left)


@dataclass(frozen=True, slots=True)
class _Lookup:
    evidence: Evidence
    counts: frozenset[int]
    """Numbers of things that the evidence or the answer lists."""

    def found(self, claim: Claim) -> bool:
        evidence, words = self.evidence, self.evidence.vocabulary
        match claim.kind:
            case "number":
                return self._number_found(claim)
            case "date":
                return any(map(evidence.has_day, claim.days))
            case "time":
                return not evidence.times.isdisjoint(claim.times)
            case "identifier":
                return evidence.has_identifier(claim.text)
        known = claim.gloss is not None and words.has(claim.gloss)
        return known or words.has_name(claim.words) or words.has_abbreviation(claim.text)

    def only_a_reader_can_count(self, claim: Claim) -> bool:
        if not self.evidence.prose or not claim.in_words or claim.unit:
            return False
        return claim.readings[0] <= _MAX_COUNTED and not self.evidence.stated.counts_otherwise(claim)

    def counts_rows(self, claim: Claim, answer: str) -> bool:
        """Return True if a number counts the rows that the words around it describe."""
        if not claim.is_count():
            return False
        counts = self.evidence.rows.counts(words_near(answer, claim.start, claim.end))
        return not counts.isdisjoint(claim.readings)

    def without_derived(self, claims: Sequence[Claim], left: list[Claim]) -> list[Claim]:
        """Drop claims that follow from others; each round may add numbers that others follow from."""
        # Bounded: each round may support only one more claim, of up to a thousand.
        for _ in range(_MAX_ROUNDS):
            missing = set(left)
            stated = [claim for claim in claims if claim.kind == "number" and claim not in missing]
            derived = in_order(self._derived(stated)) if left else ()
            left = [claim for claim in left if not self._follows(claim, stated, derived)]
            if len(left) == len(missing):
                break
        return left

    def _number_found(self, number: Claim) -> bool:
        evidence, values, unit = self.evidence, set(number.readings), number.unit
        if number.parts and evidence.distinct.issuperset(number.parts):
            return True
        seconds = SECONDS.get(unit)
        # Compared in seconds, whatever unit the evidence uses.
        if seconds and not evidence.stated.durations.isdisjoint(value * seconds for value in values):
            return True
        # A field with this value supports it, whatever the texts count.
        if evidence.figures.isdisjoint(values) and evidence.stated.refutes(number):
            return False
        # As stated, or in another unit.
        if not evidence.distinct.isdisjoint((*values, *_converted(number))):
            return True
        if unit == "ordinal":
            return self._rank_found(number) or not self.counts.isdisjoint(values)
        if unit == "decade":
            return any(_between(evidence.numbers, value, value + 9) for value in values)
        if not unit and (not self.counts.isdisjoint(values) or self._is_span_of_years(number)):
            return True
        sources = [] if seconds else [evidence.numbers]
        if unit in _ADDED_UP:
            if any(value > _SMALL and value in evidence.stated.sums for value in values):
                return True
            sources.append(evidence.totals)
        return any(_near(number, source) for source in sources)

    def _rank_found(self, number: Claim) -> bool:
        """Look up an ordinal, as a rank, a day of the month, or the century of a year."""
        value, evidence = number.readings[0], self.evidence
        if value in evidence.stated.ranks or value in evidence.days_of_month:
            return True
        is_century = number.things[:1] == ("century",)
        return is_century and bool(_between(evidence.numbers, value * 100 - 100, value * 100 - 1))

    def _is_span_of_years(self, number: Claim) -> bool:
        """Return True if two known years differ by this number and no number of years is stated."""
        if number.things[:1] not in (("year",), ("years",)) or self.evidence.stated.tells_years:
            return False
        years = [n for n in _between(self.evidence.numbers, *_YEARS) if not n % 1][:_MAX_YEARS]
        return any(later - earlier in number.readings for earlier, later in combinations(years, 2))

    def _derived(self, stated: Sequence[Claim]) -> set[Decimal]:
        """Return sums, differences, products and percentages of found numbers that the answer states."""
        # Bounded: the number of pairs grows with the square of the pool.
        pool = _addable(stated)[:_MAX_POOL]
        results = {result for a, b in combinations(pool, 2) for result in (a + b, abs(a - b), a * b)}
        # Three bags at a fee of 50 each.
        results |= {a * b for a in pool for b in self.counts if 1 < b < _SMALL}
        # An answer lists its items, then their total.
        for first in range(len(pool)):
            results.update(accumulate(pool[first:]))
        percentages = [n.readings[0] for n in stated if n.unit == "%"][:_MAX_PERCENTAGES]
        shares = {share / 100 for p in percentages for share in (p, 100 - p, 100 + p)}
        return results | {n * share for n in self.evidence.numbers[:_MAX_FIGURES] for share in shares}

    def _follows(self, number: Claim, stated: Sequence[Claim], derived: Sequence[Decimal]) -> bool:
        """Return True if a number was derived, or is called a total or remainder of known ones."""
        if number.kind != "number" or number.unit not in _ADDED_UP:
            return False
        # Small whole numbers come out of any arithmetic.
        values = [v for v in number.readings if v > _SMALL or v % 1]
        if any(_within(derived, value, _last_place(value) / 2) for value in values):
            return True
        if not number.worked_out:
            return False
        evidence = self.evidence
        if not evidence.rows.sums.isdisjoint(values):
            return True
        pairs = ((_addable(stated), evidence.distinct), (evidence.amounts, evidence.amounts))
        return any(
            a + v in other or abs(a - v) in other for some, other in pairs for v in values for a in some
        )


def _addable(numbers: Sequence[Claim]) -> list[Decimal]:
    return [number.readings[0] for number in numbers if number.unit in _ADDED_UP]


def _near(number: Claim, source: Sequence[Decimal]) -> bool:
    """Return True if a number is a rounded form of one of these, or approximate and within 5%."""
    for value in number.readings:
        place = _last_place(value)
        if any(other == value or other % place for other in _within(source, value, place / 2)):
            return True
        if number.approximate and _within(source, value, value * _APPROXIMATE):
            return True
    return False


def _last_place(value: Decimal) -> Decimal:
    """Return the value of one in the last written place: 0.01 for 49.90, 100000 for 1.2 million."""
    return Decimal((0, (1,), int(value.as_tuple().exponent)))


def _within(source: Sequence[Decimal], value: Decimal, distance: Decimal) -> Sequence[Decimal]:
    return _between(source, value - distance, value + distance)


def _between(source: Sequence[Decimal], least: Decimal, most: Decimal) -> Sequence[Decimal]:
    return source[bisect_left(source, least) : bisect_right(source, most)]


def _converted(number: Claim) -> Iterator[Decimal]:
    """Yield the values of a number in the other units it may have been stated in."""
    for value in number.readings:
        match number.unit:
            case "%":
                yield value / 100
            case "money":
                yield value * 100
            case "c":
                yield from (round(value * 9 / 5 + 32, 0), value * 9 / 5 + 32)
            case "f":
                yield from (round((value - 32) * 5 / 9, places) for places in (0, 1))
            case unit if unit in SECONDS:
                others = (
                    value * SECONDS[unit] / other
                    for other in (*map(Decimal, SECONDS.values()), Decimal("0.001"))
                )
                # Small whole results match the evidence by chance.
                yield from (other for other in others if other > _SMALL or other % 1)
