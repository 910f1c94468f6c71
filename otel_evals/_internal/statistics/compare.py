"""Two versions of an agent, side by side: their difference, and evidence that one is worse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from otel_evals._internal.statistics.eprocess import FINE_BETS, log_e_value
from otel_evals._internal.statistics.estimate import Estimate, Interval
from otel_evals._internal.statistics.sums import Sums

# Even steps in log(f / (1 - f)): towards the ends of the scale, each bet has its say at another f.
_GRID = (0.0, *(1.0 / (1.0 + math.exp(-i / 10.0)) for i in range(-60, 61)), 1.0)


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much one mean differs from another."""

    mean: float
    """Second less first; below 0 the second is lower."""
    interval: Interval


def difference(first: Estimate, second: Estimate) -> Difference | None:
    """The second mean less the first, for closed windows of different runs.

    From the two intervals (MOVER: Zou, Donner 2008): the ends lie sqrt((m1 - l1)^2 + (u2 - m2)^2) above and
    sqrt((u1 - m1)^2 + (m2 - l2)^2) below the difference. It is an effect of the version only where traffic
    was split between both at the same time; before and after, anything else may have changed too.

    Returns:
        None where either has no interval.

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
    """The logarithm of the evidence that the second mean is below the first, which may be watched.

    Were it not, some mean f would have the first at or below it and the second at or above it; so the least,
    over all f, of the product of the evidence that the first is above f and that the second is below f is an
    e-process.

    Args:
        first: sums of the first version's runs since a start that was chosen without looking, values in 0..1.
        second: the same of the second version.
        largest: what no weight exceeds, of each.
        inflation: design effect of a reference period, for each.

    Returns:
        Within 1% of the least, or 0.01 where it is small. At most 0 where the second mean is not below the
        first. An alarm at level a is due from log(1/a) on.

    Raises:
        ValueError: as for `eprocess.log_e_value`.
    """

    def product(f: float) -> float:
        above = log_e_value(first, f, "above", largest=largest[0], inflation=inflation[0], bets=FINE_BETS)
        below = log_e_value(second, f, "below", largest=largest[1], inflation=inflation[1], bets=FINE_BETS)
        return above + below

    return _least(product)


def _least(function: Callable[[float], float]) -> float:
    """The least value over all means: on a grid, then by ever smaller thirds around its least."""
    values = [function(mean) for mean in _GRID]
    best = min(range(len(_GRID)), key=values.__getitem__)
    low, high = _GRID[max(0, best - 1)], _GRID[min(len(_GRID) - 1, best + 1)]
    while high - low > 1e-6:
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if function(left) <= function(right) else (left, high)
    return min(values[best], function((low + high) / 2.0))
