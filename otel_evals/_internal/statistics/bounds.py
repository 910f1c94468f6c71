"""What the runs without a score could change, and whether the sampler did what it says.

A run that was sampled but got no score (the judge failed, timed out, the budget was spent) may differ from
those that got one. Its score lies in 0..1 all the same, so scoring all of them 0, then 1, bounds the mean
(Manski's bounds).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from otel_evals._internal.statistics.estimate import Interval, estimate
from otel_evals._internal.statistics.sums import Sums, Tally

SAMPLER_LIMIT = 4.0
"""A sampler that does what it records exceeds this |z| once in 16,000 times."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What the missing scores could change."""

    share: float | None
    """Weighted share of the missing among scored and missing runs; None without weight."""
    bounds: Interval | None
    """From the lower end of the interval with every missing score at 0 to the upper end with all at 1; holds
    whatever the missing scores are. None without weight."""
    break_even: float | None
    """Mean of the missing scores at which the mean of all is `floor`: below 0 the floor is kept whatever is
    missing, above 1 it is not. None where nothing is missing or scored, or no floor was given."""


def missing(
    scored: Sums,
    lost: Tally,
    *,
    floor: float | None = None,
    confidence: float = 0.95,
    inflation: float = 1.0,
) -> Missing:
    """Bounds on the mean of scored and missing runs together, those of unknown probability left out.

    Args:
        scored: of the scored runs, values in 0..1.
        lost: the runs that should have been scored; not those to which the scorer does not apply.
        floor: a mean to compare with, for `break_even`.
        confidence: as for `estimate`.
        inflation: as for `estimate`.

    Raises:
        ValueError: as for `estimate`.
    """
    low = estimate(scored + lost.valued(0.0), confidence=confidence, inflation=inflation).interval
    high = estimate(scored + lost.valued(1.0), confidence=confidence, inflation=inflation).interval
    weight = scored.w + lost.w
    share = lost.w / weight if weight else None
    break_even = None
    if floor is not None and share and scored.w:
        break_even = (floor - scored.wx / weight) / share
    return Missing(
        share=share, bounds=Interval(low.low, high.high) if low and high else None, break_even=break_even
    )


def sampler_z(sampled: Tally, eligible: int) -> float:
    """How far the sampled runs' weights are from the number of runs they stand for, in standard deviations.

    z = (sum w - N) / sqrt(sum w^2 - sum w), with the Horvitz-Thompson estimate of the variance of sum w under
    independent decisions. Only where no head sampler chose before.

    Args:
        sampled: all sampled runs, whatever became of them.
        eligible: how many runs the sampler was asked about.

    Returns:
        About normal where the sampler is right. Infinite where it has no freedom, every probability being 1,
        and the numbers differ all the same.
    """
    difference, variance = sampled.w - eligible, sampled.ww - sampled.w
    if variance > 1e-9 * sampled.ww:
        return difference / math.sqrt(variance)
    return 0.0 if abs(difference) <= 1e-9 * eligible else math.copysign(math.inf, difference)
