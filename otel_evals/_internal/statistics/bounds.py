"""Bounds on a mean when some sampled runs have no score.

A run without a score (the judge failed or timed out, the budget was spent) may differ from the scored runs.
Its score still lies in 0..1, so scoring all such runs 0, then 1, bounds the mean (Manski's bounds).
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_evals._internal.statistics.clusters import Clusters
from otel_evals._internal.statistics.estimate import Interval, design_effect, estimate
from otel_evals._internal.statistics.sums import Sums, Tally


@dataclass(frozen=True, slots=True)
class Missing:
    """Effect that the missing scores could have on the mean."""

    share: float | None
    """Weighted share of the missing among scored and missing runs; None without weight."""
    bounds: Interval | None
    """Holds for any value of the missing scores: from the lower end of the interval with all of them at 0, to
    the upper end with all of them at 1, and at least the interval of the scored ones. None without weight."""


def missing(
    scored: Sums,
    lost: Tally,
    *,
    confidence: float = 0.95,
    inflation: float = 1.0,
    clusters: Clusters | None = None,
) -> Missing:
    """Return bounds on the mean of scored and missing runs together, without runs of unknown probability.

    Args:
        scored: sums of the scored runs, values in 0..1.
        lost: runs that should have a score; not the runs to which the scorer does not apply.
        confidence: as for `estimate`.
        inflation: as for `estimate`.
        clusters: the scored runs by conversations or users.

    Raises:
        ValueError: as for `estimate`.
    """
    # `estimate` refuses clusters of other runs, so the ends with missing runs get the effect as a factor.
    both = max(inflation, design_effect(scored, clusters)) if clusters else inflation
    ends = [
        estimate(scored + lost.valued(x), confidence=confidence, inflation=both).interval for x in (0.0, 1.0)
    ]
    # Equal scores of few clusters get their exact bound only here, which may reach further than the ends.
    ends.append(estimate(scored, confidence=confidence, inflation=inflation, clusters=clusters).interval)
    known = [each for each in ends if each]
    weight = scored.w + lost.w
    bounds = Interval(min(each.low for each in known), max(each.high for each in known)) if known else None
    return Missing(share=lost.w / weight if weight else None, bounds=bounds)
