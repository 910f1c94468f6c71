"""What a sampler is, and how two of them combine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from otel_evals._internal.model import Outcome, Run
from otel_evals._internal.sampling.consistent import probability_of, threshold
from otel_evals.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Chance:
    """A run's sampling probability."""

    probability: float
    known: bool = True
    """False where it depends on a user's predicate: it then decides, but is not an inclusion probability."""
    why: str = ""
    """The reason of a probability of zero, where there is one besides `sampled_out`."""
    part: float | None = None
    """Where it is not known, the probability that the sampler has without the predicates; None if it has
    none. The runs that this lower probability samples too are a sample with known probabilities."""

    @property
    def estimable(self) -> float | None:
        """The probability that does not depend on a predicate; None if there is none."""
        return self.probability if self.known else self.part


@dataclass(frozen=True, slots=True)
class Earlier:
    """What another rule did with the same run."""

    chance: Chance
    """The probability with which it sampled the run."""
    outcome: Outcome


ALONE: Mapping[str, Earlier] = MappingProxyType({})
"""No other rule has sampled the run."""


class Sampler(ABC):
    """Gives runs a sampling probability. Combine with `|` (either samples a run) and `&` (both sample it)."""

    ceiling: float = 1.0
    """The highest probability it can give any run, known before the run is; a cascade's is that of the rule
    it follows, which counts by itself."""
    floor: float = 0.0
    """The lowest probability above zero that goes on record for a run, head sampling aside; 0 where there is
    no such bound. One over it is the largest weight that a run can have."""
    may_exclude: bool = True
    """Whether it can give a run a probability of zero."""
    follows: frozenset[str] = frozenset()
    """Ids of the scorers whose outcomes it waits for."""
    counts: bool = False
    """Whether it counts the runs it is asked about: asked last then, about what nothing else rules out."""
    repeatable: bool = True
    """Whether its chance can be worked out again from a record of the run, without its spans."""

    @abstractmethod
    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        """The sampling probability of a finished run.

        Args:
            run: the run.
            earlier: what the rules it depends on did, by scorer id; those that did not sample are missing.
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
        problem = f"{self} stands beside `or`, `and`, `not` or `if`: {fix}"
        raise ConfigError("sample", problem)


class _Ratio(Sampler):
    def __init__(self, probability: float, words: str) -> None:
        self.ceiling = probability
        self.floor = probability or 1.0
        self.may_exclude = not probability
        self._chance = Chance(probability)
        self._words = words

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        return self._chance

    def __str__(self) -> str:
        return self._words


class _Pair(Sampler):
    """Two samplers; one that counts runs is asked second."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        self._sides = left, right
        self._first, self._second = (right, left) if left.counts and not right.counts else (left, right)
        self.follows = left.follows | right.follows
        self.counts = left.counts or right.counts
        self.repeatable = left.repeatable and right.repeatable


class _Either(_Pair):
    """All samplers share one randomness, so the higher probability samples a superset of the lower one."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        super().__init__(left, right)
        self.ceiling = max(left.ceiling, right.ceiling)
        # The other side's probabilities count only where this one may give zero.
        floors = [a.floor for a, b in ((left, right), (right, left)) if b.may_exclude]
        self.floor = min(floors) if floors else max(left.floor, right.floor)
        self.may_exclude = left.may_exclude and right.may_exclude

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        first = self._first.chance(run, earlier)
        if first.probability >= 1.0 and first.known:
            return first
        second = self._second.chance(run, earlier)
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
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise ConfigError("sample", f"ratio({probability!r}): the rate must be a number between 0 and 1")
    return _Ratio(float(probability), f"ratio({probability:.10g})")


def always() -> Sampler:
    """Sample every run."""
    return _Ratio(1.0, "always()")


def never() -> Sampler:
    """Sample no run."""
    return _Ratio(0.0, "never()")


def recorded_probability(chance: Chance, trace_state: str = "") -> float | None:
    """The probability that is recorded, head sampling included; None where it cannot be known."""
    return probability_of(threshold(chance.probability, trace_state)) if chance.known else None


def positive(value: Any, words: str, what: str) -> float:
    """A finite number above zero.

    Raises:
        ConfigError: it is not; the message starts with `words` and names `what` should be positive.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError("sample", f"{words}: {what} must be a positive number, not {value!r}")
    return float(value)
