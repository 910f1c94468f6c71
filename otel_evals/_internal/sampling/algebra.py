"""The interface of samplers, and their combination by `|` and `&`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from otel_evals._internal.model import Outcome, Run
from otel_evals._internal.model.records import Record
from otel_evals._internal.sampling.consistent import probability_of, threshold
from otel_evals._internal.util.plain import is_number, type_name
from otel_evals.errors import ConfigError


class Chance(Record, frozen=True):
    """A run's sampling probability."""

    probability: float
    known: bool = True
    """False if it depends on a user's predicate: it then decides, but is not an inclusion probability."""
    why: str = ""
    """The reason of a probability of zero, if other than `sampled_out`."""
    part: float | None = None
    """If not known: the sampler's probability without predicates, or None. The runs sampled at this lower
    probability too are a sample with known probabilities."""

    @property
    def estimable(self) -> float | None:
        """The probability that depends on no predicate; None if there is none."""
        return self.probability if self.known else self.part


@dataclass(frozen=True, slots=True)
class Earlier:
    """The result of another rule for the same run."""

    chance: Chance
    outcome: Outcome


ALONE: Mapping[str, Earlier] = MappingProxyType({})
"""No other rule has sampled the run."""


class Sampler(ABC):
    """Gives runs a sampling probability. Combine with `|` (either samples a run) and `&` (both sample it)."""

    ceiling: float = 1.0
    """The highest probability of any run, known in advance; 0 for a cascade, which adds nothing to the rule
    it follows."""
    floor: float = 0.0
    """The lowest recorded probability above zero, without head sampling; 0 without such a bound. The largest
    weight of a run is 1 / floor."""
    may_exclude: bool = True
    """True if it can give a run a probability of zero."""
    follows: frozenset[str] = frozenset()
    """Ids of the scorers whose outcomes it waits for."""
    counts: bool = False
    """True if it counts runs: it is then asked last, about runs that no other sampler rules out."""
    constant: Chance | None = None
    """The chance of every run, if it is the same for all."""

    @abstractmethod
    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        """Return the sampling probability of a finished run.

        Args:
            run: the run.
            earlier: results of the rules it depends on, by scorer id; absent for rules that did not sample.
        """

    @abstractmethod
    def __str__(self) -> str: ...

    def __or__(self, other: Sampler) -> Sampler:
        return _Either(self, other)

    def __and__(self, other: Sampler) -> Sampler:
        return _Both(self, other)

    def __bool__(self) -> bool:
        """Refused: `ratio(0.1) or errors()` would be `ratio(0.1)` alone.

        Raises:
            ConfigError: always.
        """
        fix = "samplers combine with | (either) and & (both)"
        problem = f"{self} is used with `or`, `and`, `not` or `if`: {fix}"
        raise ConfigError("sample", problem)


class SamplerFacts(NamedTuple):
    """A sampler's properties and text, read once: they may be users' code."""

    ceiling: float
    floor: float
    follows: frozenset[str]
    constant: Chance | None
    words: str
    """The sampler as text."""


def facts_of_sampler(sampler: Sampler) -> SamplerFacts:
    """Read a sampler's properties.

    Raises:
        ConfigError: one raises or has a wrong type.
    """
    try:
        facts = SamplerFacts(
            float(sampler.ceiling),
            float(sampler.floor),
            frozenset(map(str, sampler.follows)),
            sampler.constant,
            str(sampler),
        )
    except BaseException as error:
        problem = f"a {type_name(sampler)} cannot be read ({type_name(error)}): fix its properties"
        raise ConfigError("sample", problem) from None
    if not (0.0 <= facts.floor <= 1.0 and 0.0 <= facts.ceiling <= 1.0):
        raise ConfigError("sample", f"{facts.words}: floor and ceiling must be between 0 and 1")
    return facts


class NamedSampler(Sampler):
    """A sampler whose text is known when it is built."""

    _words: str

    def __str__(self) -> str:
        return self._words


class _Ratio(NamedSampler):
    def __init__(self, probability: float, words: str) -> None:
        self.ceiling = probability
        self.floor = probability or 1.0
        self.may_exclude = not probability
        self.constant = self._chance = Chance(probability)
        self._words = words

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        return self._chance


class _Pair(Sampler):
    """Two samplers; the one that counts runs is asked second."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        self._sides = left, right
        # A limit only counts the runs that the other side leaves to it.
        self._first, self._second = (right, left) if left.counts and not right.counts else (left, right)
        self.follows = left.follows | right.follows
        self.counts = left.counts or right.counts


class _Either(_Pair):
    """All samplers share one randomness, so the higher probability samples a superset of the lower one."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        super().__init__(left, right)
        self.ceiling = max(left.ceiling, right.ceiling)
        # The other side's probabilities count only if this side may give zero.
        floors = [a.floor for a, b in ((left, right), (right, left)) if b.may_exclude]
        self.floor = min(floors) if floors else max(left.floor, right.floor)
        self.may_exclude = left.may_exclude and right.may_exclude

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        first = self._first.chance(run, earlier)
        # Nothing can be added, and a limit behind it is spared.
        if first.probability >= 1.0 and first.known:
            return first
        second = self._second.chance(run, earlier)
        # Of equal probabilities, one that is known can be used in estimates.
        higher = max(first, second, key=lambda c: (c.probability, c.known, c.why))
        if higher.known:
            return higher
        parts = [c.estimable for c in (first, second) if c.estimable is not None]
        return Chance(higher.probability, False, higher.why, max(parts, default=None))

    def __str__(self) -> str:
        return " | ".join(map(str, self._sides))


class _Both(_Pair):
    def __init__(self, left: Sampler, right: Sampler) -> None:
        super().__init__(left, right)
        self.ceiling = min(left.ceiling, right.ceiling)
        self.floor = min(left.floor, right.floor)
        self.may_exclude = left.may_exclude or right.may_exclude

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        first = self._first.chance(run, earlier)
        if first.probability <= 0.0:
            return first
        second = self._second.chance(run, earlier)
        least = min(first.probability, second.probability)
        if first.known and second.known:
            return Chance(least, True, second.why)
        one, other = first.estimable, second.estimable
        part = None if one is None or other is None else min(one, other)
        return Chance(least, part == least, second.why, part)

    def __str__(self) -> str:
        return " & ".join(f"({s})" if isinstance(s, _Either) else str(s) for s in self._sides)


def ratio(probability: float) -> Sampler:
    """Sample runs with this probability.

    Args:
        probability: between 0 and 1.

    Raises:
        ConfigError: the probability is not a number between 0 and 1.
    """
    if not (is_number(probability) and 0 <= probability <= 1):
        raise ConfigError("sample", f"ratio({probability!r}): the rate must be a number between 0 and 1")
    return _Ratio(float(probability), f"ratio({probability:.10g})")


def always() -> Sampler:
    """Sample every run."""
    return _Ratio(1.0, "always()")


def never() -> Sampler:
    """Sample no run."""
    return _Ratio(0.0, "never()")


def recorded_probability(chance: Chance, trace_state: str = "") -> float | None:
    """Return the recorded probability, including head sampling; None if it is unknown."""
    return probability_of(threshold(chance.probability, trace_state)) if chance.known else None


def inclusion_probability(chance: Chance, run: Run) -> float | None:
    """Return the inclusion probability to record.

    It is unknown for a conversation with traces from a head sampler, which may have rejected others.
    """
    if not run.turns:
        return recorded_probability(chance, run.trace_state)
    # A head sampler chose among the turns by their traces, not by the conversation.
    if any(threshold(1.0, turn.trace_state) for turn in run.turns):
        return None
    return recorded_probability(chance)


def positive(value: Any, words: str, what: str) -> float:
    """Return a finite number above zero."""
    if not (is_number(value) and 0 < value < float("inf")):
        raise ConfigError("sample", f"{words}: {what} must be a positive number, not {value!r}")
    return float(value)
