"""Whether evidence bears out a claim: directly, rounded, in another unit, by counting, by arithmetic."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, combinations

from otel_evals.text.claims import Claim
from otel_evals.text.dates import Day
from otel_evals.text.evidence import Evidence
from otel_evals.text.numbers import SECONDS, Number

__all__ = ["ungrounded"]

_MAX_POOL = 60
_MAX_FIGURES = 2000
_APPROXIMATE = Decimal("0.05")
_SMALL = 20  # whole numbers up to here come out of any arithmetic: that they do says nothing


def ungrounded(claims: Sequence[Claim], evidence: Evidence, counts: Collection[int]) -> list[Claim]:
    """The claims that evidence does not bear out. `counts` are further numbers of things that are known."""
    known = evidence.counts | frozenset(counts)
    left = [claim for claim in claims if not _found(claim, evidence, known)]
    before = len(left) + 1
    while left and len(left) < before:
        # Each round may add numbers that others follow from.
        before = len(left)
        stated = [claim.number for claim in claims if claim.number and claim not in left]
        derived = sorted(_derived(stated, evidence, known))
        left = [c for c in left if not (c.number and _follows(c.number, stated, evidence, derived))]
    return left


def _found(claim: Claim, evidence: Evidence, counts: Collection[int]) -> bool:
    if claim.number is not None:
        return _number_found(claim.number, evidence, counts)
    if claim.when is not None and claim.kind == "date":
        return any(_same_day(day, other) for day in claim.when.days for other in evidence.days)
    if claim.when is not None:
        return not evidence.times.isdisjoint(claim.when.times)
    if claim.kind == "name":
        if claim.gloss is not None and claim.gloss.casefold() in evidence.words:
            return True
        parts = (part for word in claim.words for part in re.split("['-]", word))
        return all(part in evidence.words or part.removesuffix("s") in evidence.words for part in parts)
    return evidence.has_identifier(claim.text)


def _number_found(number: Number, evidence: Evidence, counts: Collection[int]) -> bool:
    values = set(number.readings)
    if not evidence.distinct.isdisjoint(values) or not evidence.distinct.isdisjoint(_converted(number)):
        return True
    if number.unit in SECONDS:
        return not evidence.durations.isdisjoint(v * SECONDS[number.unit] for v in values)
    if number.unit == "ordinal":
        return any(day[2] in values for day in evidence.days) or _is_count(values, counts)
    if number.unit == "" and _is_count(values, counts):
        return True
    sources = (evidence.numbers, evidence.totals) if number.unit in ("", "money") else (evidence.numbers,)
    return any(_near(number, source) for source in sources)


def _is_count(values: Iterable[Decimal], counts: Collection[int]) -> bool:
    return any(value == value.to_integral_value() and int(value) in counts for value in values)


def _near(number: Number, source: Sequence[Decimal]) -> bool:
    """Whether a number is a rounded form of one of these, or says about and is 5% off at most."""
    for value in number.readings:
        place = number.last_place(value)
        if any(other == value or other % place for other in _within(source, value, place / 2)):
            return True
        if number.approximate and any(_within(source, value, value * _APPROXIMATE)):
            return True
    return False


def _within(source: Sequence[Decimal], value: Decimal, distance: Decimal) -> Sequence[Decimal]:
    """The numbers of a sorted sequence that are near another."""
    return source[bisect_left(source, value - distance) : bisect_right(source, value + distance)]


def _converted(number: Number) -> Iterator[Decimal]:
    """What a number would be in the other units it may have been told in."""
    for value in number.readings:
        match number.unit:
            case "%":
                yield value / 100
            case "money":
                yield value * 100
            case "c":
                yield round(value * 9 / 5 + 32, 0)
                yield value * 9 / 5 + 32
            case "f":
                yield round((value - 32) * 5 / 9, 0)
                yield round((value - 32) * 5 / 9, 1)
            case unit if unit in SECONDS:
                others = (value * SECONDS[unit] / other for other in (*SECONDS.values(), Decimal("0.001")))
                yield from (other for other in others if other > _SMALL)


def _derived(stated: Sequence[Number], evidence: Evidence, counts: Collection[int]) -> set[Decimal]:
    """Sums, differences, products and percentages of numbers that the answer states and that are found."""
    pool = [n.readings[0] for n in stated if n.unit in ("", "money")][:_MAX_POOL]
    results = {result for a, b in combinations(pool, 2) for result in (a + b, abs(a - b), a * b)}
    results |= {a * b for a in pool for b in counts if 1 < b < _SMALL}
    for first in range(len(pool)):
        results.update(accumulate(pool[first:]))
    percentages = {n.readings[0] for n in stated if n.unit == "%"}
    shares = {share / 100 for p in percentages for share in (p, 100 - p, 100 + p)}
    return results | {figure * share for figure in evidence.numbers[:_MAX_FIGURES] for share in shares}


def _follows(
    number: Number, stated: Sequence[Number], evidence: Evidence, derived: Sequence[Decimal]
) -> bool:
    """Whether a number is among what is derived, or is what remains of a known one."""
    if number.unit not in ("", "money"):
        return False
    values = [v for v in number.readings if v > _SMALL or v != v.to_integral_value()]
    if any(_within(derived, value, number.last_place(value) / 2) for value in values):
        return True
    pool = [n.readings[0] for n in stated if n.unit in ("", "money")] if number.remainder else []
    known = evidence.distinct
    return any(a + v in known or abs(a - v) in known for v in values for a in pool)


def _same_day(stated: Day, known: Day) -> bool:
    """Parts that either side leaves out match."""
    return all(a is None or b is None or a == b for a, b in zip(stated, known, strict=True))
