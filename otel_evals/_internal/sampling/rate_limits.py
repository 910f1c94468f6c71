"""Samplers with a rate limit, per minute or hour, whose estimates stay unbiased.

Each run's probability is chosen before the run is looked at, from the runs of the last minute alone, and is
recorded. An estimate that weights each score by one over its probability is therefore unbiased, whatever the
traffic does (the Horvitz-Thompson estimator, with predictable probabilities).

The probability is the limit divided by the number of runs of the last minute. Once the limit is reached, the
probability halves with every further sampled run instead of dropping to zero, since a run that cannot be
sampled at all would be missing from every estimate. A burst of m runs therefore exceeds the limit by about
log2(m) runs; after 57 halvings the probability is smaller than 56 random bits can express, so by 57 at most.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Literal

from otel_evals._internal.model import Run
from otel_evals._internal.redis_server import is_address, redis_server
from otel_evals._internal.sampling.algebra import ALONE, Chance, Earlier, Sampler, positive
from otel_evals._internal.sampling.conditions import find_attribute
from otel_evals._internal.sampling.consistent import is_sampled
from otel_evals._internal.sampling.randomness import randomness_source
from otel_evals._internal.sampling.shared_counts import SharedCounts
from otel_evals.errors import ConfigError

_SECONDS = {"minute": 60.0, "hour": 3600.0}
_SLICES = 12
_STEEP = (
    10.0  # the probability is halved 57 times, to nothing that 56 bits can tell, 37 runs beyond the limit
)
_MAX_STRATA = 4096


class _RateControl:
    """Chooses each run's probability from the runs of the window before it.

    The window is kept in twelve slices, so it is between 1 and 1 + 1/12 windows long. The probability is the
    limit over the runs of the window, or over those that the last two slices foretell, where these are surely
    more. Runs sampled beyond the limit halve it, gently at first: uneven weights are what makes estimates
    inaccurate, and a count that varies as chance has it is no excess.
    """

    __slots__ = ("_arrived", "_gentle", "_limit", "_sampled", "_seconds", "_slices")

    def __init__(self, limit: float, window: float) -> None:
        self._limit = limit
        self._gentle = min(4.0, math.sqrt(limit))
        self._seconds = window / _SLICES
        self._slices: deque[list[float]] = deque()  # [slice number, arrived, sampled]
        self._arrived = self._sampled = 0.0

    def probability(self, now: float) -> float:
        """The probability of the next run."""
        number = int(now / self._seconds)
        self._forget(number - _SLICES)
        if self._arrived + 1 <= self._limit:
            return 1.0
        arrived, foretold = self._arrived + 1, self._foretold(now, number)
        probability = self._limit / (foretold if foretold > arrived else arrived)
        excess = self._sampled - self._limit + 1.0
        if excess > 0.0:
            probability *= math.exp2(-excess / self._gentle - (excess / _STEEP) ** 3)
        return probability if probability < 1.0 else 1.0

    def _foretold(self, now: float, number: int) -> float:
        """The runs in a window as full as the last slices, less three standard deviations."""
        last = self._slices[-1]
        recent = last[1] if last[0] >= number - 1 else 0
        if len(self._slices) > 1 and self._slices[-2][0] == number - 1:
            recent += self._slices[-2][1]
        surely = recent - 3.0 * math.sqrt(recent)
        return surely * _SLICES * self._seconds / (now - (number - 1) * self._seconds)

    def count(self, now: float, sampled: bool) -> None:
        """Count a run that has arrived."""
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


class _SharedRateControl(_RateControl):
    """Counts the runs of other processes too, as of the last exchange with them."""

    __slots__ = ("_counts", "_others")

    def __init__(self, limit: float, window: float, counts: SharedCounts) -> None:
        super().__init__(limit, window)
        self._counts = counts
        self._others = counts.others

    def probability(self, now: float) -> float:
        if self._others is not self._counts.others:
            self._others = self._counts.others
            self._slices = deque([number, *both] for number, both in self._counts.totals().items())
            self._arrived = sum(counts[1] for counts in self._slices)
            self._sampled = sum(counts[2] for counts in self._slices)
        return super().probability(now)

    def count(self, now: float, sampled: bool) -> None:
        self._counts.count(int(now / self._seconds), sampled)
        super().count(now, sampled)


class _Limited(Sampler):
    may_exclude = False
    counts = True
    repeatable = False

    def __init__(self, limit: float, window: float, words: str, clock: Callable[[], float]) -> None:
        self._limit, self._window, self._words, self._clock = limit, window, words, clock

    def chance(self, run: Run, earlier: Mapping[str, Earlier] = ALONE) -> Chance:
        now, control = self._clock(), self._control(run)
        probability = control.probability(now)
        control.count(now, is_sampled(probability, *randomness_source(run)))
        return Chance(probability)

    def _control(self, run: Run) -> _RateControl:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._words


class _PerMinute(_Limited):
    def __init__(self, limit: float, words: str, clock: Callable[[], float]) -> None:
        super().__init__(limit, 60.0, words, clock)
        self._only = _RateControl(limit, 60.0)

    def _control(self, run: Run) -> _RateControl:
        return self._only


class _SharedPerMinute(_Limited):
    """A rate limit over all processes that name the same store and name."""

    def __init__(self, limit: float, store: str, name: str, clock: Callable[[], float]) -> None:
        server = redis_server(store)
        words = f"per_minute({limit:.10g}, store={server.name!r}, name={name!r})"
        super().__init__(limit, 60.0, words, clock)
        counts = SharedCounts(server, name, _SLICES, 60.0 / _SLICES, clock)
        self._only = _SharedRateControl(limit, 60.0, counts)

    def _control(self, run: Run) -> _RateControl:
        return self._only


class _Stratified(_Limited):
    """A rate limit for each of the most recent strata."""

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
        self._controls: OrderedDict[str, _RateControl] = OrderedDict()

    def _control(self, run: Run) -> _RateControl:
        stratum = str(self._by(run))
        control = self._controls.get(stratum)
        if control is None:
            control = self._controls[stratum] = _RateControl(self._limit, self._window)
            if len(self._controls) > _MAX_STRATA:
                self._controls.popitem(last=False)
        else:
            self._controls.move_to_end(stratum)
        return control


class _ByName:
    """The run's field of this name, or else its attribute."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_field = name in Run.__dataclass_fields__

    def __call__(self, run: Run) -> Any:
        return getattr(run, self._name) if self._is_field else find_attribute(run, self._name)


def per_minute(
    limit: float,
    *,
    store: str | None = None,
    name: str | None = None,
    clock: Callable[[], float] | None = None,
) -> Sampler:
    """Sample about this many runs per minute, evenly; all runs while there are fewer.

    The limit is per process, or with a `store` that of all processes that name it. Rules that share one
    sampler object share its limit. Combined by `&`, only the runs that the other sampler can sample count
    against it: `errors() & per_minute(10)`.

    Args:
        limit: runs per minute, at least 1. A sudden burst of m runs exceeds it by about log2(m) runs; it is
            never exceeded by more than 37 per minute and process.
        store: address `redis://HOST:PORT/NUMBER` of a server through which processes tell each other, twice a
            second, how many runs came. While it is away, the others are taken to go on as they last did.
        name: of the limit, by which processes share it; needed with a store.
        clock: seconds; monotonic, and with a store since the epoch.

    Raises:
        ConfigError: the limit is not a number of at least 1, or the store or the name is missing or none.
    """
    words = f"per_minute({limit!r})"
    number = _at_least_one(limit, words)
    if store is None and name is None:
        return _PerMinute(number, f"per_minute({limit:.10g})", clock or time.monotonic)
    if not is_address(store, "sample") or not isinstance(name, str) or not name:
        fix = "`store` and `name` go together: per_minute(10, store='redis://HOST:PORT/0', name='support')"
        raise ConfigError("sample", f"{words}: {fix}")
    return _SharedPerMinute(number, str(store), name, clock or time.time)


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
    stratum that comes back later starts with a new one.

    Args:
        by: what makes the strata: a field of the run, an attribute's name, or a function of the run.
        floor: runs of each stratum per minute or hour, at least 1; all runs of a stratum that has fewer. A
            burst exceeds it as with `per_minute`.
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
