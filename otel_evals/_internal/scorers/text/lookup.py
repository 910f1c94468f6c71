"""Looks claims up in the evidence: directly, rounded, in another unit, by counting, by arithmetic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import accumulate, combinations

from otel_evals._internal.scorers.bounds import in_order
from otel_evals._internal.scorers.text.claims import Claim
from otel_evals._internal.scorers.text.evidence import Evidence
from otel_evals._internal.scorers.text.numbers import SECONDS, Number
from otel_evals._internal.scorers.text.vocabulary import words_near

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
    known = evidence.counts | frozenset(counts)
    missing = [claim for claim in claims if not _found(claim, evidence, known)]
    uncounted = {id(claim) for claim in missing if _only_a_reader_can_count(claim, evidence)}
    checked = [claim for claim in claims if id(claim) not in uncounted]
    counted = {id(claim) for claim in missing[:_MAX_COUNTS] if _counts_rows(claim, answer, evidence)}
    left = [claim for claim in missing if id(claim) not in uncounted | counted]
    return checked, _without_derived(checked, left, evidence, known)


def _without_derived(
    claims: Sequence[Claim], left: list[Claim], evidence: Evidence, counts: Collection[int]
) -> list[Claim]:
    """Drop claims that follow from others; each round may add numbers that others follow from."""
    for _ in range(_MAX_ROUNDS):
        missing = {id(claim) for claim in left}
        stated = [claim.number for claim in claims if claim.number and id(claim) not in missing]
        derived = in_order(_derived(stated, evidence, counts)) if left else ()
        left = [c for c in left if not (c.number and _follows(c.number, stated, evidence, derived))]
        if len(left) == len(missing):
            break
    return left


def _only_a_reader_can_count(claim: Claim, evidence: Evidence) -> bool:
    number = claim.number
    if number is None or not evidence.prose or not number.in_words or number.unit:
        return False
    return number.readings[0] <= _MAX_COUNTED and not evidence.stated.counts_otherwise(number)


def _counts_rows(claim: Claim, answer: str, evidence: Evidence) -> bool:
    """Return True if a number counts the rows that the words around it describe."""
    if claim.number is None or not claim.number.is_count():
        return False
    near = words_near(answer, claim.start, claim.start + len(claim.text))
    return _is_count(claim.number.readings, evidence.rows.counts(near))


def _found(claim: Claim, evidence: Evidence, counts: Collection[int]) -> bool:
    if claim.number is not None:
        return _number_found(claim.number, evidence, counts)
    if claim.when is not None and claim.kind == "date":
        return any(map(evidence.has_day, claim.when.days))
    if claim.when is not None:
        return not evidence.times.isdisjoint(claim.when.times)
    return _name_found(claim, evidence) if claim.kind == "name" else evidence.has_identifier(claim.text)


def _name_found(claim: Claim, evidence: Evidence) -> bool:
    words = evidence.vocabulary
    if claim.gloss is not None and words.has(claim.gloss):
        return True
    return words.has_name(claim.words) or words.has_abbreviation(claim.text)


def _number_found(number: Number, evidence: Evidence, counts: Collection[int]) -> bool:
    values = set(number.readings)
    if number.unit in SECONDS and _duration_found(number, evidence):
        return True
    if evidence.figures.isdisjoint(values) and evidence.stated.refutes(number):
        return False
    if not evidence.distinct.isdisjoint(values) or not evidence.distinct.isdisjoint(_converted(number)):
        return True
    if number.unit in SECONDS:
        return False
    if number.unit == "ordinal":
        return _rank_found(number, evidence) or _is_count(values, counts)
    if number.unit == "decade":
        return any(_between(evidence.numbers, value, value + 9) for value in values)
    if number.unit == "" and (_is_count(values, counts) or _is_span_of_years(number, evidence)):
        return True
    if number.unit in ("", "money") and not evidence.stated.sums.isdisjoint(v for v in values if v > _SMALL):
        return True
    sources = (evidence.numbers, evidence.totals) if number.unit in ("", "money") else (evidence.numbers,)
    return any(_near(number, source) for source in sources)


def _duration_found(number: Number, evidence: Evidence) -> bool:
    return not evidence.stated.durations.isdisjoint(v * SECONDS[number.unit] for v in number.readings)


def _rank_found(number: Number, evidence: Evidence) -> bool:
    """Look up an ordinal, as a rank, a day of the month, or the century of a year."""
    value = number.readings[0]
    if value in evidence.stated.ranks or value in evidence.days_of_month:
        return True
    if number.things[:1] != ("century",):
        return False
    return bool(_between(evidence.numbers, value * 100 - 100, value * 100 - 1))


def _is_span_of_years(number: Number, evidence: Evidence) -> bool:
    """Return True if two known years differ by this number and no number of years is stated."""
    if number.things[:1] not in (("year",), ("years",)) or evidence.stated.tells_years:
        return False
    years = [n for n in _between(evidence.numbers, *_YEARS) if not n % 1][:_MAX_YEARS]
    return any(later - earlier in number.readings for earlier, later in combinations(years, 2))


def _is_count(values: Iterable[Decimal], counts: Collection[int]) -> bool:
    return any(value == value.to_integral_value() and int(value) in counts for value in values)


def _near(number: Number, source: Sequence[Decimal]) -> bool:
    """Return True if a number is a rounded form of one of these, or approximate and within 5%."""
    for value in number.readings:
        place = number.last_place(value)
        if any(other == value or other % place for other in _within(source, value, place / 2)):
            return True
        if number.approximate and any(_within(source, value, value * _APPROXIMATE)):
            return True
    return False


def _within(source: Sequence[Decimal], value: Decimal, distance: Decimal) -> Sequence[Decimal]:
    return _between(source, value - distance, value + distance)


def _between(source: Sequence[Decimal], least: Decimal, most: Decimal) -> Sequence[Decimal]:
    return source[bisect_left(source, least) : bisect_right(source, most)]


def _converted(number: Number) -> Iterator[Decimal]:
    """Yield the values of a number in the other units it may have been stated in."""
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
    """Return sums, differences, products and percentages of found numbers that the answer states."""
    pool = [n.readings[0] for n in stated if n.unit in ("", "money")][:_MAX_POOL]
    results = {result for a, b in combinations(pool, 2) for result in (a + b, abs(a - b), a * b)}
    results |= {a * b for a in pool for b in counts if 1 < b < _SMALL}
    for first in range(len(pool)):
        results.update(accumulate(pool[first:]))
    percentages = [n.readings[0] for n in stated if n.unit == "%"][:_MAX_PERCENTAGES]
    shares = {share / 100 for p in percentages for share in (p, 100 - p, 100 + p)}
    return results | {figure * share for figure in evidence.numbers[:_MAX_FIGURES] for share in shares}


def _follows(
    number: Number, stated: Sequence[Number], evidence: Evidence, derived: Sequence[Decimal]
) -> bool:
    """Return True if a number was derived, or is called a total or remainder of known ones."""
    if number.unit not in ("", "money"):
        return False
    values = [v for v in number.readings if v > _SMALL or v != v.to_integral_value()]
    if any(_within(derived, value, number.last_place(value) / 2) for value in values):
        return True
    if not number.worked_out:
        return False
    if not evidence.rows.sums.isdisjoint(values):
        return True
    pool, known = [n.readings[0] for n in stated if n.unit in ("", "money")], evidence.distinct
    pairs = ((pool, known), (evidence.amounts, evidence.amounts))
    return any(a + v in other or abs(a - v) in other for some, other in pairs for v in values for a in some)
