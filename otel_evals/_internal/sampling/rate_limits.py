"""Samplers with a rate limit, per minute or hour, whose estimates stay unbiased.

Each run's probability is chosen from the runs in the last minute alone, before the run itself is read, and is
recorded. An estimate that weights each score by 1 / probability is therefore unbiased for any traffic (the
Horvitz-Thompson estimator, with predictable probabilities).

The probability is the limit divided by the number of runs in the last minute. Once the limit is reached, the
probability halves with every further sampled run instead of dropping to zero, since a run that cannot be
sampled at all would be missing from every estimate. A burst of m runs therefore exceeds the limit by about
log2(m) runs; after 57 halvings the probability is smaller than 56 random bits can express, so by at most 57.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from otel_evals._internal.model import Run
from otel_evals._internal.sampling.algebra import ALONE, Chance, Earlier, NamedSampler, Sampler, positive
from otel_evals._internal.sampling.conditions import find_attribute
from otel_evals._internal.sampling.consistent import is_sampled, randomness_source
from otel_evals.errors import ConfigError

_SECONDS = {"minute": 60.0, "hour": 3600.0}
_SLICES = 12
_STEEP = 10.0  # 37 runs beyond the limit the probability has halved 57 times, below 1 in 2**56
_MAX_STRATA = 4096


class _RateControl:
    """Chooses each run's probability from the runs of the window before it.

    The window has twelve slices, so it is between 1 and 1 + 1/12 windows long. The probability is the limit
    over the runs in the window, or over the number that the last two slices predict, if surely larger.
    Runs sampled beyond the limit halve it, gently at first: uneven weights make estimates inaccurate, and
    counts vary by chance.
    """

    __slots__ = ("_arrived", "_gentle", "_limit", "_sampled", "_seconds", "_slices")

    def __init__(self, limit: float, window: float) -> None:
        self._limit = limit
        # Counts vary by the root of the limit: excess within that is chance, not traffic.
        self._gentle = min(4.0, math.sqrt(limit))
        self._seconds = window / _SLICES
        self._slices: deque[list[float]] = deque()  # [slice number, arrived, sampled]
        self._arrived = self._sampled = 0.0

    def probability(self, now: float) -> float:
        number = int(now / self._seconds)
        self._forget(number - _SLICES)
        # The run itself counts: otherwise the first one beyond the limit would be certain.
        if self._arrived + 1 <= self._limit:
            return 1.0
        arrived, foretold = self._arrived + 1, self._foretold(now, number)
        probability = self._limit / (foretold if foretold > arrived else arrived)
        excess = self._sampled - self._limit + 1.0
        if excess > 0.0:
            probability *= math.exp2(-excess / self._gentle - (excess / _STEEP) ** 3)
        return probability

    def _foretold(self, now: float, number: int) -> float:
        """Return the runs in a window as full as the last slices, less three standard deviations."""
        last = self._slices[-1]
        # Two slices: the current one alone has seen too little when it begins.
        recent = last[1] if last[0] >= number - 1 else 0
        if len(self._slices) > 1 and self._slices[-2][0] == number - 1:
            recent += self._slices[-2][1]
        surely = recent - 3.0 * math.sqrt(recent)
        return surely * _SLICES * self._seconds / (now - (number - 1) * self._seconds)

    def count(self, now: float, sampled: bool) -> None:
        number = int(now / self._seconds)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append([number, 0, 0])
        last = self._slices[-1]
        last[1] += 1
        last[2] += sampled
        self._arrived += 1
        self._sampled += sampled

    def _forget(self, oldest: int) -> None:
        while self._slices and self._slices[0][0] < oldest:
            _, arrived, sampled = self._slices.popleft()
            self._arrived -= arrived
            self._sampled -= sampled


class _Limited(NamedSampler):
    """Limits all runs together, or each stratum by a function of the run."""

    may_exclude = False
    counts = True

    def __init__(
        self,
        limit: float,
        window: float,
        words: str,
        clock: Callable[[], float],
        stratum: Callable[[Run], str] = lambda run: "",
    ) -> None:
        self._limit, self._window = limit, window
        self._words, self._clock, self._stratum = words, clock, stratum
        self._controls: OrderedDict[str, _RateControl] = OrderedDict()

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        now, stratum = self._clock(), self._stratum(run)
        control = self._controls.get(stratum)
        if control is None:
            control = self._controls[stratum] = _RateControl(self._limit, self._window)
        self._controls.move_to_end(stratum)
        # Strata may be strangers' strings, such as user ids.
        if len(self._controls) > _MAX_STRATA:
            self._controls.popitem(last=False)
        probability = control.probability(now)
        # Counted as the decision will be, since samplers share one randomness.
        control.count(now, is_sampled(probability, *randomness_source(run)))
        return Chance(probability)


def per_minute(limit: float, *, clock: Callable[[], float] = time.monotonic) -> Sampler:
    """Sample about this many runs per minute, evenly; all runs while there are fewer.

    The limit is per process. Rules that share one sampler object share its limit. Combined by `&`, only the
    runs that the other sampler can sample count against it: `errors() & per_minute(10)`.

    Args:
        limit: runs per minute, at least 1. A sudden burst of m runs exceeds it by about log2(m) runs; it is
            never exceeded by more than 37 per minute.
        clock: returns seconds.

    Raises:
        ConfigError: the limit is not a number of at least 1.
    """
    number = _at_least_one(limit, f"per_minute({limit!r})")
    return _Limited(number, _SECONDS["minute"], f"per_minute({number:.10g})", clock)


def stratified(
    by: str | Callable[[Run], Any],
    floor: float,
    per: Literal["minute", "hour"] = "minute",
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Sampler:
    """Sample about this many runs of each stratum, so that rare agents, tenants or routes are scored too.

    Combined by `|`, it raises the rate of strata that would get less:
    `ratio(0.01) | stratified("agent_name", 5)`. The 4,096 most recent strata have limits of their own; a
    stratum that returns later starts with a new one.

    Args:
        by: defines the strata: a field of the run, an attribute's name, or a function of the run.
        floor: runs per stratum and minute or hour, at least 1; a stratum with fewer is sampled whole. A burst
            exceeds it as with `per_minute`.
        per: `minute` or `hour`.
        clock: returns seconds.

    Raises:
        ConfigError: an argument is not as described.
    """
    shown = repr(by) if isinstance(by, str) else getattr(by, "__name__", type(by).__name__)
    words = f"stratified({shown}, {floor!r})"
    if not by or not (isinstance(by, str) or callable(by)):
        raise ConfigError("sample", f"{words}: `by` must be a run's field, an attribute's name or a function")
    if per not in _SECONDS:
        raise ConfigError("sample", f"{words}: `per` must be 'minute' or 'hour', not {per!r}")
    limit = _at_least_one(floor, words)
    words = f"stratified({shown}, {limit:.10g}" + ("" if per == "minute" else f", {per!r}") + ")"

    def stratum(run: Run) -> str:
        if not isinstance(by, str):
            return str(by(run))
        return str(getattr(run, by) if by in Run.__dataclass_fields__ else find_attribute(run, by))

    return _Limited(limit, _SECONDS[per], words, clock, stratum)


def _at_least_one(value: Any, words: str) -> float:
    number = positive(value, words, "the number of runs")
    if number < 1:
        raise ConfigError("sample", f"{words}: the number of runs must be at least 1")
    return number
