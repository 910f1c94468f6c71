"""Samplers that keep to a number of runs per minute or hour, and stay unbiased.

Each run's probability is chosen before the run is looked at, from the runs of the last minute alone, and
that probability goes on record. An estimate that weights each score by one over its probability is therefore
right on average, whatever the traffic does (the Horvitz-Thompson estimator, with predictable probabilities).

The probability is what spreads the limit over the runs of the last minute. Once the limit is reached it
halves with every further pick instead of dropping to zero, since a run that could not be picked at all would
be missing from every estimate. So a burst of m runs is overdrawn by about log2(m) picks; after 57 halvings
the probability is below what 56 random bits can express, so never by more than 57.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from otel_evals.errors import ConfigError
from otel_evals.model import Run
from otel_evals.sampling.algebra import ALONE, Chance, Earlier, Sampler, positive
from otel_evals.sampling.conditions import find_attribute
from otel_evals.sampling.consistent import picks
from otel_evals.sampling.identity import drawn_from

__all__ = ["per_minute", "stratified"]

_SECONDS = {"minute": 60.0, "hour": 3600.0}
_SLICES = 12
_MAX_STRATA = 4096


class _Pace:
    """Chooses each run's probability from the runs of the window before it.

    The window is cut into slices that are forgotten whole, so it reaches back between 1 and 1 + 1/12 windows.
    """

    __slots__ = ("_arrived", "_limit", "_picked", "_seconds", "_slices")

    def __init__(self, limit: float, window: float) -> None:
        self._limit = limit
        self._seconds = window / _SLICES
        self._slices: deque[list[int]] = deque()  # [slice number, arrived, picked]
        self._arrived = self._picked = 0

    def probability(self, now: float) -> float:
        """Of the next run to arrive."""
        self._forget(int(now / self._seconds) - _SLICES)
        overdrawn = max(0.0, self._picked - self._limit + 1.0)
        return min(1.0, self._limit / (self._arrived + 1)) * math.ldexp(1.0, -math.ceil(overdrawn))

    def count(self, now: float, picked: bool) -> None:
        """A run has arrived."""
        number = int(now / self._seconds)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append([number, 0, 0])
        last = self._slices[-1]
        last[1] += 1
        last[2] += picked
        self._arrived += 1
        self._picked += picked

    def _forget(self, oldest: int) -> None:
        while self._slices and self._slices[0][0] < oldest:
            _, arrived, picked = self._slices.popleft()
            self._arrived -= arrived
            self._picked -= picked


class _Limited(Sampler):
    counts = True
    repeatable = False

    def __init__(self, limit: float, window: float, words: str, clock: Callable[[], float]) -> None:
        self._limit, self._window, self._words, self._clock = limit, window, words, clock

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        now, pace = self._clock(), self._pace(run)
        probability = pace.probability(now)
        pace.count(now, picks(probability, *drawn_from(run)))
        return Chance(probability)

    def _pace(self, run: Run) -> _Pace:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._words


class _PerMinute(_Limited):
    def __init__(self, limit: float, words: str, clock: Callable[[], float]) -> None:
        super().__init__(limit, 60.0, words, clock)
        self._one = _Pace(limit, 60.0)

    def _pace(self, run: Run) -> _Pace:
        return self._one


class _Stratified(_Limited):
    """One pace for each stratum, the most recent ones."""

    def __init__(
        self,
        by: Callable[[Run], Any],
        limit: float,
        window: float,
        words: str,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(limit, window, words, clock)
        self._by = by
        self._paces: OrderedDict[str, _Pace] = OrderedDict()

    def _pace(self, run: Run) -> _Pace:
        stratum = str(self._by(run))
        pace = self._paces.get(stratum)
        if pace is None:
            pace = self._paces[stratum] = _Pace(self._limit, self._window)
            if len(self._paces) > _MAX_STRATA:
                self._paces.popitem(last=False)
        else:
            self._paces.move_to_end(stratum)
        return pace


class _ByName:
    """A run's field of this name, else its attribute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_field = name in Run.__dataclass_fields__

    def __call__(self, run: Run) -> Any:
        return getattr(run, self._name) if self._is_field else find_attribute(run, self._name)


def per_minute(limit: float, *, clock: Callable[[], float] = time.monotonic) -> Sampler:
    """Pick about this many runs a minute, evenly, however many there are; all while there are fewer.

    The limit is each process's own. Rules that share one sampler object share the limit. Joined by `&`, only
    the runs that the other sampler lets pass are counted: `errors() & per_minute(10)`.

    Args:
        limit: runs per minute, at least 1. At most 57 more are picked in any minute, whatever the traffic
            does; a burst of m runs out of silence is overdrawn by about log2(m).
        clock: seconds, monotonic.

    Raises:
        ConfigError: the limit is not a number of at least 1.
    """
    return _PerMinute(_at_least_one(limit, f"per_minute({limit!r})"), f"per_minute({limit:.10g})", clock)


def stratified(
    by: str | Callable[[Run], Any],
    floor: float,
    per: Literal["minute", "hour"] = "minute",
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Sampler:
    """Pick about this many runs of each kind, so that rare agents, tenants or routes are seen too.

    Joined by `|`, it lifts the rate where a kind would get less: `ratio(0.01) | stratified("agent_name", 5)`.
    The 4,096 kinds met last are told apart; a kind forgotten and met again starts anew.

    Args:
        by: what tells the kinds apart: a field of the run, an attribute's name, or a function of the run.
        floor: runs of each kind per minute or hour, at least 1; all, where a kind has fewer. Overdrawn like
            `per_minute`.
        per: `minute` or `hour`.
        clock: seconds, monotonic.

    Raises:
        ConfigError: an argument is not as described.
    """
    name = by if isinstance(by, str) else getattr(by, "__name__", type(by).__name__)
    shown = repr(by) if isinstance(by, str) else name
    words = f"stratified({shown}, {floor!r})"
    if not by or not (isinstance(by, str) or callable(by)):
        raise ConfigError("sample", f"{words}: `by` must be a run's field, an attribute's name or a function")
    if per not in _SECONDS:
        raise ConfigError("sample", f"{words}: `per` must be 'minute' or 'hour', not {per!r}")
    limit = _at_least_one(floor, words)
    words = f"stratified({shown}, {limit:.10g}" + (")" if per == "minute" else f", {per!r})")
    return _Stratified(_ByName(by) if isinstance(by, str) else by, limit, _SECONDS[per], words, clock)


def _at_least_one(value: Any, words: str) -> float:
    number = positive(value, words, "the number of runs")
    if number < 1:
        raise ConfigError("sample", f"{words}: the number of runs must be at least 1")
    return number
