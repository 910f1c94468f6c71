"""Values in the evidence that contradict a claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any

from otel_evals._internal.scorers.bounds import pieces
from otel_evals._internal.scorers.text.claim import Claim
from otel_evals._internal.scorers.text.dates import dates_in, times_in
from otel_evals._internal.scorers.text.evidence import Evidence
from otel_evals._internal.scorers.text.names import names_in
from otel_evals._internal.scorers.text.numbers import SECONDS
from otel_evals._internal.scorers.text.rows import AMOUNTS, Value, decimal_of
from otel_evals._internal.scorers.text.vocabulary import content_of, words_near

_SPLIT_KEY = re.compile(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z]+")
_MAX_VALUES = 5_000
_MAX_STRING = 60
_MAX_SIBLINGS = 8
_ENOUGH_IN_FIELDS, _ENOUGH_OF_UNIT, _ENOUGH_IN_TEXT = 2, 2, 3
_SAME_THINGS = 3
_MAX_RATIO = 5
# Fields that a value is likely to come from, though the answer does not say their names.
_FIELDS_OF: dict[str, Iterable[str]] = {
    "money": AMOUNTS,
    "%": ["discount", "percent", "percentage", "rate", "share"],
    "c": ["temperature", "celsius"],
    "f": ["temperature", "fahrenheit"],
    "date": ["date", "day"],
    "time": ["time"],
}


@dataclass(frozen=True, slots=True)
class _Fact:
    """A value of the evidence, and the words that describe it."""

    text: str
    beside: frozenset[str]
    """Words near it, or in the strings of the same object."""
    claim: Claim | None = None
    """What running text states; None for a field, whose kind is unknown."""
    names: frozenset[str] = frozenset()
    """Words of the names of a field's path."""


class Alternatives:
    """Contradicting values, read from the evidence on first use."""

    def __init__(self, answer: str, evidence: Evidence) -> None:
        self._answer, self._evidence = answer, evidence

    def to(self, claim: Claim) -> str | None:
        """Return the only value of the evidence that contradicts a claim; None if there is none or several.

        It is of the claim's kind, and shares nearby words or field names with it. Identifiers need the same
        pattern of letters and digits, names of two words one common word.
        """
        if claim.kind == "identifier":
            return _only(self._patterns.get(_pattern(claim.text), ()))
        if claim.kind == "name":
            return _only(name.text for name in self._names if _differ_in_one(name.words, claim.words))
        words = words_near(self._answer, claim.start, claim.end)
        alike: dict[int, set[str]] = {}
        for value in self._values:
            shared = _shared(claim, words, value)
            if shared and _may_be(claim, value):
                alike.setdefault(shared, set()).add(value.text)
        # The value with the most words in common is meant, if it is the only one.
        return _only(alike[max(alike)]) if alike else None

    @cached_property
    def _patterns(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for claim in islice((c for c in self._evidence.taken if c.kind == "identifier"), _MAX_VALUES):
            found.setdefault(_pattern(claim.text), set()).add(claim.text)
        return found

    @cached_property
    def _names(self) -> tuple[Claim, ...]:
        names = (name for _, piece in pieces(self._evidence.text) for name in names_in(piece))
        return tuple(islice((name for name in names if len(name.words) == 2), _MAX_VALUES))

    @cached_property
    def _values(self) -> tuple[_Fact, ...]:
        fields = _fields(self._evidence.values)
        return (*islice(fields, _MAX_VALUES), *islice(self._in_texts(), _MAX_VALUES))

    def _in_texts(self) -> Iterator[_Fact]:
        for claim in (*self._evidence.stated.all, *self._evidence.taken):
            yield _Fact(claim.text, words_near(self._evidence.text, claim.start, claim.end), claim)


def _only(texts: Iterable[str]) -> str | None:
    """Return the only distinct text, otherwise None."""
    found = set(texts)
    return found.pop() if len(found) == 1 else None


def _shared(claim: Claim, words: frozenset[str], fact: _Fact) -> int:
    """Count the words that a value shares with a claim's surroundings; 0 if they are too few."""
    # Words such as `delivery` connect a value of the evidence with the answer's sentence.
    shared = len(words & fact.beside)
    if fact.claim is not None:
        shared += _SAME_THINGS if claim.nouns() & fact.claim.nouns() else 0
        return shared if shared >= (_ENOUGH_OF_UNIT if claim.unit else _ENOUGH_IN_TEXT) else 0
    named = len(fact.names & words.union(_FIELDS_OF.get(claim.unit or claim.kind, ())))
    return named + shared if named and named + shared >= _ENOUGH_IN_FIELDS else 0


def _may_be(claim: Claim, fact: _Fact) -> bool:
    """Return True if a value is of a claim's kind and differs from it, as numbers do if of the same size."""
    other = fact.claim
    if other is not None:
        return other.kind == claim.kind and (claim.kind != "number" or _may_be_number(claim, other))
    if claim.kind == "number":
        figure = decimal_of(fact.text.strip("$€£ %"))
        # Numbers in fields have no unit: a field of minutes cannot contradict hours.
        return figure is not None and claim.unit not in SECONDS and _is_near(claim.readings[0], figure)
    return any(True for _ in (dates_in if claim.kind == "date" else times_in)(fact.text))


def _may_be_number(number: Claim, other: Claim) -> bool:
    """Compare numbers of texts: of the same things, or of about the same size."""
    if number.unit in SECONDS:
        return other.unit in SECONDS
    if number.unit != other.unit or number.is_year() is not other.is_year():
        return False
    same_things = not number.nouns().isdisjoint(other.nouns())
    return same_things or _is_near(number.readings[0], other.readings[0])


def _is_near(one: Decimal, other: Decimal) -> bool:
    return one != other and min(one, other) * _MAX_RATIO >= max(one, other)


def _fields(values: Iterable[Value]) -> Iterator[_Fact]:
    """Yield the short scalars among the fields, with the words of their path and of sibling strings."""
    for each in values:
        if each.owner is None or not _is_short(each.value):
            continue
        # Names and strings are bounded: each of thousands of values is split into words.
        words = [word for name in each.path[-_MAX_SIBLINGS:] for word in _SPLIT_KEY.split(name[:_MAX_STRING])]
        beside = [item for item in each.owner.values() if isinstance(item, str) and _is_short(item)]
        names = content_of(" ".join(words))
        yield _Fact(str(each.value), content_of(" ".join(beside[:_MAX_SIBLINGS])), names=names)


def _is_short(value: Any) -> bool:
    return len(value) <= _MAX_STRING if isinstance(value, str) else decimal_of(value) is not None


def _pattern(identifier: str) -> str:
    """Replace digits of an identifier by 9 and each run of letters by a."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d", "9", identifier[:100].lstrip("#")))


def _differ_in_one(name: Sequence[str], other: Sequence[str]) -> bool:
    """Return True if two names of two words share exactly one: Omar Davis, Omar Smith."""
    return len(name) == len(other) == 2 and (name[0] == other[0]) is not (name[1] == other[1])
