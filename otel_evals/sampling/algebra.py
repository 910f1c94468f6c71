"""What a sampler is, and how two of them combine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from otel_evals.errors import ConfigError
from otel_evals.model import Outcome, Run
from otel_evals.sampling.consistent import probability_of, threshold

__all__ = [
    "ALONE",
    "Chance",
    "Earlier",
    "Sampler",
    "always",
    "never",
    "positive",
    "ratio",
    "recorded_probability",
]


@dataclass(frozen=True, slots=True)
class Chance:
    """How likely a run is to be picked."""

    probability: float
    known: bool = True
    """False where a hand-written predicate had its say: the number then decides, but is no estimate."""
    why: str = ""
    """Reason of a probability of zero, where it is more than plain bad luck."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """How another scorer fared with the same run."""

    chance: Chance
    """With which it was picked."""
    outcome: Outcome


ALONE: Mapping[str, Earlier] = MappingProxyType({})
"""No other scorer has seen the run."""


class Sampler(ABC):
    """Says how likely a run is to be picked. Combine with `|` (either picks it) and `&` (both pick it)."""

    ceiling: float = 1.0
    """The highest probability it can give any run, known before the run is; a cascade's is that of the rule
    it follows, which counts by itself."""
    follows: frozenset[str] = frozenset()
    """Ids of the scorers whose outcomes it waits for."""
    counts: bool = False
    """Whether it counts the runs it is asked about: asked last then, about what nothing else rules out."""
    repeatable: bool = True
    """Whether its chance can be worked out again from a record of the run, without its spans."""

    @abstractmethod
    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        """The chance of a finished run.

        Args:
            run: the run.
            earlier: how the scorers it follows fared, by id; those that did not sample the run are missing.
        """

    @abstractmethod
    def __str__(self) -> str: ...

    def __or__(self, other: Sampler) -> Sampler:
        return _Either(self, other)

    def __and__(self, other: Sampler) -> Sampler:
        return _Both(self, other)


class _Ratio(Sampler):
    def __init__(self, probability: float, words: str) -> None:
        self.ceiling = probability
        self._chance = Chance(probability)
        self._words = words

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        return self._chance

    def __str__(self) -> str:
        return self._words


class _Pair(Sampler):
    """Two samplers; one that counts is asked second."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        self._sides = left, right
        self._first, self._second = (right, left) if left.counts and not right.counts else (left, right)
        self.follows = left.follows | right.follows
        self.counts = left.counts or right.counts
        self.repeatable = left.repeatable and right.repeatable


class _Either(_Pair):
    """All samplers share one randomness, so the likelier of two contains the other."""

    def __init__(self, left: Sampler, right: Sampler) -> None:
        super().__init__(left, right)
        self.ceiling = max(left.ceiling, right.ceiling)

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        first = self._first.chance(run, earlier)
        if first.probability >= 1.0 and first.known:
            return first
        second = self._second.chance(run, earlier)
        return max(first, second, key=lambda c: (c.probability, c.known, c.why))

    def __str__(self) -> str:
        return " | ".join(map(str, self._sides))


class _Both(_Pair):
    def __init__(self, left: Sampler, right: Sampler) -> None:
        super().__init__(left, right)
        self.ceiling = min(left.ceiling, right.ceiling)

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        first = self._first.chance(run, earlier)
        if first.probability <= 0.0:
            return first
        second = self._second.chance(run, earlier)
        least = min(first.probability, second.probability)
        return Chance(least, first.known and second.known, second.why)

    def __str__(self) -> str:
        return " & ".join(f"({s})" if isinstance(s, _Either) else str(s) for s in self._sides)


def ratio(probability: float) -> Sampler:
    """Pick this share of all runs.

    Args:
        probability: between 0 and 1.

    Raises:
        ConfigError: the probability is not a number between 0 and 1.
    """
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise ConfigError("sample", f"ratio({probability!r}): the rate must be a number between 0 and 1")
    return _Ratio(float(probability), f"ratio({probability:.10g})")


def always() -> Sampler:
    """Pick every run."""
    return _Ratio(1.0, "always()")


def never() -> Sampler:
    """Pick no run."""
    return _Ratio(0.0, "never()")


def recorded_probability(chance: Chance, trace_state: str = "") -> float | None:
    """The probability that goes on record: head sampling included; None where it cannot be known."""
    return probability_of(threshold(chance.probability, trace_state)) if chance.known else None


def positive(value: Any, words: str, what: str) -> float:
    """A finite number above zero.

    Raises:
        ConfigError: it is none; `words` and `what` say where and what was wanted.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError("sample", f"{words}: {what} must be a positive number, not {value!r}")
    return float(value)
