"""Mean of a closed time window, with a confidence interval that holds for few, rare and unequal runs.

For values in 0..1 the interval is that of Agresti and Coull (1998), with weights: four pseudo observations
(0, 0, 1, 1) of the typical weight k = sum w^2 / sum w are added. Fifty perfect scores still leave an interval
about 0.1 wide. The weighted form is this project's own; `benchmarks/monitoring.py` simulates how often it
holds.

Clusters that inflate the variance by a factor leave as much information as so many times fewer runs, so the
pseudo observations get that many times the weight. The factor is at most the number of runs per cluster.
Scores that are all 0 or all 1 say nothing about it: then the exact bound for the number of clusters holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

from otel_evals._internal.statistics.clusters import Clusters, freedom
from otel_evals._internal.statistics.student import t_quantile
from otel_evals._internal.statistics.sums import Sums

ENOUGH = 10.0
"""Minimum effective sample size for a conclusion."""
ENOUGH_UNSCALED = 200.0
"""Minimum effective sample size for an interval of values without a scale."""
FEW_CLUSTERS = 50.0
"""Effective number of clusters below which there is a warning."""
DOMINANT_SHARE = 0.05
"""Share of all weight above which a single run causes a warning."""
_BLOCKS = 6


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval from `low` to `high`, both included."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def width(self) -> float:
        """Length of the interval."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Estimate:
    """A weighted mean and its accuracy."""

    mean: float | None
    """None if no run has weight."""
    interval: Interval | None
    """Of the mean, at `confidence`; None without a mean, or below `ENOUGH_UNSCALED` without a scale."""
    confidence: float
    n: int
    """Scored runs of known probability."""
    n_effective: float
    """Number of runs of equal weight with the same precision."""
    unknown: int
    """Scored runs of unknown probability; the mean leaves them out, and is biased if they differ."""
    too_few: bool
    """True if `n_effective` is below `ENOUGH`."""
    dominated: bool
    """True if one run may have more than `DOMINANT_SHARE` of all weight."""
    few_clusters: bool
    """True if runs of the same cluster are alike, and the effective number of clusters is below
    `FEW_CLUSTERS`: other users or conversations may differ from these."""
    clusters: int | None
    """Number of users or conversations, if it is known and below `n`."""
    approximate: bool
    """True if the values have no scale: the interval then assumes that no rare, huge value was missed."""

    def in_units(self, scale: float = 1.0, offset: float = 0.0) -> Estimate:
        """Return the estimate of the scores `offset + scale * x`, where the sums are sums of x."""
        if self.mean is None:
            return self
        interval = self.interval and Interval(
            offset + scale * self.interval.low, offset + scale * self.interval.high
        )
        return replace(self, mean=offset + scale * self.mean, interval=interval)


def estimate(
    sums: Sums,
    *,
    confidence: float = 0.95,
    clusters: Clusters | None = None,
    scaled: bool = True,
    inflation: float = 1.0,
) -> Estimate:
    """Return the Hájek mean of the values and its confidence interval.

    The interval holds for a window chosen beforehand. Checked repeatedly until it shows something, it fails
    in nearly half of all cases; use `band` for that.

    Args:
        sums: sums of the scored runs.
        confidence: share of cases in which the interval holds, between 0 and 1.
        clusters: the same runs by groups of conversations or users, whose runs are correlated. The larger of
            the two variances is used, with the degrees of freedom of the groups.
        scaled: whether the values lie in 0..1. If not, the interval is a plain t interval, and None below an
            effective sample size of `ENOUGH_UNSCALED`.
        inflation: factor of the variance, for clusters with a known effect (`design_effect`).

    Raises:
        ValueError: `confidence` or `inflation` is out of range, values are not within 0..1 though `scaled`,
            or `clusters` is about other runs.
    """
    check_confidence(confidence)
    if not 1.0 <= inflation < math.inf:
        raise ValueError(f"inflation: must be at least 1 and finite, not {inflation!r}")
    # The two are added in another order, so they may differ by rounding.
    if clusters and not math.isclose(math.fsum(clusters.w), sums.w, rel_tol=1e-6, abs_tol=1e-6):
        raise ValueError("clusters: must be of the same runs as the sums, but the weights differ")
    if scaled:
        check_values(sums)
    interval = None
    if sums.w:
        wanted = _bounded if scaled else _unbounded
        interval = wanted(sums, clusters, confidence, inflation)
    return Estimate(
        mean=_mean(sums, scaled),
        interval=interval,
        confidence=confidence,
        n=sums.n,
        n_effective=sums.n_effective,
        unknown=sums.unknown,
        too_few=sums.n_effective < ENOUGH,
        dominated=sums.w_max > DOMINANT_SHARE * sums.w,
        few_clusters=clusters is not None
        and clusters.effective < FEW_CLUSTERS
        # Beyond chance: runs of the same cluster are alike.
        and design_effect(sums, clusters) > 1.0 + 2.5 * math.sqrt(2.0 / clusters.freedom),
        # As many clusters as runs say nothing beyond `n`.
        clusters=clusters.number if clusters and (clusters.number or 0) < sums.n else None,
        approximate=not scaled,
    )


def design_effect(sums: Sums, clusters: Clusters) -> float:
    """Return the factor by which correlation within clusters inflates the variance of the mean; at least 1.

    The ratio of the two linearised variances at the mean, at most the number of runs per cluster if clusters
    are counted. 1 without a variance or a mean.
    """
    mean = sums.mean
    if mean is None or not _varies(sums):
        return 1.0
    spread = sums.spread(mean)
    # Only counted clusters limit the factor: an estimated number may be too large, even infinite.
    most = sums.n_effective / (clusters.effective if clusters.squares or clusters.groups < 2 else 1.0)
    return max(1.0, min(clusters.spread(mean) / spread, most))


def wander(hours: Mapping[int, Sums]) -> float:
    """Return the factor by which slow changes of the mean inflate the variance of a sum; at least 1.

    If the mean wanders for hours at a time, blocks of hours differ more than their runs explain. The factor
    is the largest ratio of the variance between blocks to that of their runs, over blocks of 1, 2, 4 ...
    hours of which there are at least six, if it is beyond chance. One lasting change of the mean, a fall for
    example, is not wandering and left out. A memory longer than a sixth of the time cannot be seen.

    Args:
        hours: sums by hour, numbered from any hour.
    """
    whole = sum(hours.values(), Sums())
    spread = whole.spread(whole.mean) if whole.mean is not None else 0.0
    rests = _around_change(hours)
    first, found, width = min(hours, default=0), 1.0, 1
    while spread and (max(hours) - first + 1) // width >= _BLOCKS:
        weights: dict[int, float] = {}
        sums: dict[int, float] = {}
        for hour, rest in rests.items():
            block = (hour - first) // width
            weights[block] = weights.get(block, 0.0) + hours[hour].w
            sums[block] = sums.get(block, 0.0) + rest
        # For blocks of equal weight, df is n - 3, as in the ratio below.
        n, df = len(weights), freedom(list(weights.values())) - 2.0
        if n >= _BLOCKS and df >= 1.0:
            ratio = math.fsum(rest * rest for rest in sums.values()) * n / (n - 3) / spread
            # A variance estimate has a relative deviation of sqrt(2 / df): two of them count as chance.
            if ratio > 1.0 + 2.0 * math.sqrt(2.0 / df):
                # Few blocks know their variance badly: the quotient widens the factor as t does an interval.
                found = max(found, ratio * (_t(0.95, df) / _t(0.95, math.inf)) ** 2)
        width *= 2
    return found


def _around_change(hours: Mapping[int, Sums]) -> dict[int, float]:
    """Return wx - m w by hour, for means m before and after the change that explains most."""
    order = sorted(hours)
    pairs = ((hours[hour].w, hours[hour].wx) for hour in order)
    before = list(accumulate(pairs, lambda one, other: (one[0] + other[0], one[1] + other[1])))
    w, wx = before[-1] if before else (0.0, 0.0)

    def explained(split: int) -> float:
        one, other = before[split], (w - before[split][0], wx - before[split][1])
        return math.fsum(x * x / v for v, x in (one, other) if v > 0.0)

    best = max(range(len(order)), key=explained, default=0)
    found = {}
    for place, hour in enumerate(order):
        v, x = before[best] if place <= best else (w - before[best][0], wx - before[best][1])
        found[hour] = hours[hour].wx - (x / v if v > 0.0 else 0.0) * hours[hour].w
    return found


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless it lies between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence: must be between 0 and 1, not {confidence!r}")


def check_values(sums: Sums) -> None:
    """Raise ValueError unless all values lie in 0..1."""
    for name, x in (("x_min", sums.x_min), ("x_max", sums.x_max)):
        if x is not None and not 0.0 <= x <= 1.0:
            raise ValueError(f"{name}: values must lie in 0..1, not {x!r}; divide scores by their scale")


def _mean(sums: Sums, scaled: bool) -> float | None:
    mean = sums.mean
    # A rounded sum may leave the range of the values.
    return min(1.0, max(0.0, mean)) if scaled and mean is not None else mean


def _bounded(sums: Sums, clusters: Clusters | None, confidence: float, inflation: float) -> Interval:
    """Return the interval of independent runs, widened if runs of a cluster are alike."""
    alone = _agresti_coull(sums, confidence, inflation, sums.n_effective + 3.0)
    if not clusters:
        return alone
    # The estimated number may be infinite, and unequal weights may leave fewer effective runs.
    number = max(1.0, min(clusters.effective, sums.n_effective))
    # All runs of a cluster alike: as many runs as clusters.
    most = _agresti_coull(sums, confidence, sums.n_effective / number, number + 3.0)
    if not _varies(sums):
        mean = sums.wx / sums.w
        miss = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / number)
        # The bound of Clopper and Pearson for clusters that all agree.
        ends = {0.0: Interval(0.0, miss), 1.0: Interval(1.0 - miss, 1.0)}
        # Equal scores inside the scale, such as all 0.5, have no exact bound.
        return _union(alone, ends.get(round(mean, 9), most))
    effect = design_effect(sums, clusters)
    # The known factor has widened `alone` already.
    if effect <= inflation:
        return alone
    df = min(sums.n_effective + 3.0, clusters.freedom_at(sums.wx / sums.w))
    alike = _agresti_coull(sums, confidence, effect, df)
    # Counted clusters limit the effect: runs cannot be more alike than all equal within each.
    narrower = min(alike, most, key=lambda each: each.width) if clusters.squares else alike
    return _union(alone, narrower)


def _varies(sums: Sums) -> bool:
    """Return True if not all values are equal, beyond rounding."""
    return sums.spread(sums.wx / sums.w) > 1e-12 * sums.ww


def _agresti_coull(sums: Sums, confidence: float, effect: float, df: float) -> Interval:
    """Return Agresti and Coull's interval with weights, if an effect inflates the variance.

    c = (X + 2k) / (W + 4k);  V = effect * sum w^2 (x - c)^2 + 2 k^2 (c^2 + (1 - c)^2)
    h = sqrt(t^2 V / (W + 4k)^2 + (m - c)^2);  from min(m, c - h) to max(m, c + h), cut to 0..1
    """
    mean = _mean(sums, scaled=True) or 0.0
    # An effect raises k to a quarter of all weight at most: 4k then weighs as much as the runs.
    k = min(max(effect, 1.0) * sums.ww / sums.w, max(sums.ww / sums.w, sums.w / 4.0))
    weight = sums.w + 4.0 * k
    centre = (sums.wx + 2.0 * k) / weight
    # Degrees of freedom without clusters: (W + 4k)^2 / (Q + 4k^2) - 1.
    variance = effect * sums.spread(centre) + 2.0 * k * k * (centre**2 + (1.0 - centre) ** 2)
    half = math.hypot(_t(confidence, df) * math.sqrt(variance) / weight, mean - centre)
    return Interval(max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half)))


def _union(one: Interval, other: Interval) -> Interval:
    return Interval(min(one.low, other.low), max(one.high, other.high))


def _unbounded(sums: Sums, clusters: Clusters | None, confidence: float, inflation: float) -> Interval | None:
    """Return the t interval of the linearised variance."""
    mean = sums.mean
    if mean is None or sums.n_effective < ENOUGH_UNSCALED:
        return None
    spread, df = sums.spread(mean) * inflation, sums.n_effective - 1.0
    if clusters:
        # One group shows no variance between clusters.
        if clusters.groups < 2:
            return None
        if clusters.spread(mean) > spread:
            spread, df = clusters.spread(mean), min(df, clusters.freedom)
    half = _t(confidence, df) * math.sqrt(spread) / sums.w
    return Interval(mean - half, mean + half)


def _t(confidence: float, df: float) -> float:
    return t_quantile((1.0 + confidence) / 2.0, df)
