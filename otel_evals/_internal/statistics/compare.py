"""Comparison of two versions of an agent: their difference, and evidence that the second is worse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from otel_evals._internal.statistics.eprocess import FINE_BETS, log_e_value
from otel_evals._internal.statistics.estimate import Estimate, Interval
from otel_evals._internal.statistics.sums import Sums

# Even steps in log(f / (1 - f)): towards the ends of the scale, each bet matters at another f.
_GRID = (0.0, *(1.0 / (1.0 + math.exp(-i / 10.0)) for i in range(-60, 61)), 1.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two means."""

    mean: float
    """Second minus first; below 0 if the second is lower."""
    interval: Interval


def difference(first: Estimate, second: Estimate) -> Difference | None:
    """Return the second mean minus the first, for closed windows of different runs.

    Combines the two intervals (MOVER: Zou, Donner 2008): the ends lie sqrt((m1 - l1)^2 + (u2 - m2)^2) above
    and sqrt((u1 - m1)^2 + (m2 - l2)^2) below the difference. The difference is an effect of the version only
    if both versions received traffic at the same time; otherwise anything else may have changed too.

    Returns:
        None if either estimate has no interval.

    Raises:
        ValueError: the confidences differ.
    """
    if first.confidence != second.confidence:
        raise ValueError(f"confidence: must be the same, not {first.confidence} and {second.confidence}")
    if first.mean is None or second.mean is None or not first.interval or not second.interval:
        return None
    mean = second.mean - first.mean
    below = math.hypot(first.interval.high - first.mean, second.mean - second.interval.low)
    above = math.hypot(first.mean - first.interval.low, second.interval.high - second.mean)
    return Difference(mean, Interval(mean - below, mean + above))


def log_e_value_worse(
    first: Sums,
    second: Sums,
    *,
    largest: tuple[float, float],
    inflation: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Return the logarithm of the evidence that the second mean is below the first; it may be watched.

    If it is not, some mean f has the first mean at or below it and the second at or above it. The minimum,
    over all f, of the evidence that the first is above f times the evidence that the second is below f is
    therefore an e-process.

    Args:
        first: sums of the first version's runs, values in 0..1, since a start chosen without looking at them.
        second: the same for the second version.
        largest: upper limit of the weights, of each version.
        inflation: design effect of a reference period, of each version.

    Returns:
        The minimum to within 1%, or 0.01 if it is small. At most 0 if the second mean is not below the first.
        Raise an alarm at level a from log(1/a) on.

    Raises:
        ValueError: as for `eprocess.log_e_value`.
    """

    def product(f: float) -> float:
        # A run belongs to one version, so the product of both e-values is an e-value.
        above = log_e_value(first, f, "above", largest=largest[0], inflation=inflation[0], bets=FINE_BETS)
        below = log_e_value(second, f, "below", largest=largest[1], inflation=inflation[1], bets=FINE_BETS)
        return above + below

    return _least(product)


def _least(function: Callable[[float], float]) -> float:
    """Return the minimum over all means: on a grid, then by a ternary search around its minimum."""
    values = [function(mean) for mean in _GRID]
    best = min(range(len(_GRID)), key=values.__getitem__)
    low, high = _GRID[max(0, best - 1)], _GRID[min(len(_GRID) - 1, best + 1)]
    while high - low > 1e-6:
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if function(left) <= function(right) else (left, high)
    # The search assumes a single minimum between the neighbours; the grid's value is kept if it is lower.
    return min(values[best], function((low + high) / 2.0))
