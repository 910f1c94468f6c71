"""A scorer's results over many runs: counts, the mean and its confidence interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from otel_evals.config import Rule
from otel_evals.model import Direction, Evaluation, Score

__all__ = ["ScorerTally", "interval", "tally"]

_Z = 1.959964  # the 97.5% quantile of the normal distribution
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTally:
    """One scorer's results over all runs. The mean is that of the scores; other outcomes are counted."""

    scorer_id: str
    direction: Direction
    scored: int
    mean: float | None
    """None if nothing was scored."""
    interval: Interval | None
    """95% confidence interval of the mean."""
    lowest: float | None
    highest: float | None
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """By the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By error type; dropped evaluations included."""
    cost: float | None = None
    """US dollars of the judge calls; None if no judge was called or a price is unknown."""


def tally(rules: Iterable[Rule], evaluations: Sequence[Evaluation]) -> tuple[ScorerTally, ...]:
    """One tally for each scorer, in the order of the rules."""
    by_scorer: dict[str, list[Evaluation]] = {}
    scales: dict[str, tuple[Direction, float | None]] = {}
    names: dict[str, str] = {}
    for rule in rules:
        # A scorer's results for runs and for conversations are separate.
        name = names[rule.name] = rule.name if rule.scope == "conversation" else rule.scorer.id
        by_scorer.setdefault(name, [])
        scales[name] = rule.scorer.direction, getattr(rule.scorer, "scale", None)
    for evaluation in evaluations:
        by_scorer[names.get(evaluation.rule, evaluation.scorer_id)].append(evaluation)
    return tuple(_tally(name, *scales[name], found) for name, found in by_scorer.items())


def _tally(
    scorer_id: str, direction: Direction, scale: float | None, evaluations: Sequence[Evaluation]
) -> ScorerTally:
    ends: dict[str, Counter[str]] = {"not_scored": Counter(), "failed": Counter(), "dropped": Counter()}
    scores = [e.outcome for e in evaluations if isinstance(e.outcome, Score)]
    for evaluation in evaluations:
        if evaluation.status != "scored":
            ends[evaluation.status][evaluation.reason or "unknown"] += 1
    values = [score.value for score in scores]
    judged = [score.cost for score in scores if any(step.model for step in score.steps)]
    return ScorerTally(
        scorer_id=scorer_id,
        direction=direction,
        scored=len(values),
        mean=fmean(values) if values else None,
        interval=interval(values, scale),
        lowest=min(values, default=None),
        highest=max(values, default=None),
        not_scored=dict(ends["not_scored"]),
        failed=dict(ends["failed"] + ends["dropped"]),
        cost=sum(c for c in judged if c is not None) if judged and None not in judged else None,
    )


def interval(values: Sequence[float], scale: float | None) -> Interval | None:
    """95% confidence interval of the mean; None if it cannot be computed.

    For scores within 0..scale this is Wilson's interval of the mean taken as a proportion. The variance of
    scores in 0..1 is at most that of a binary score with the same mean, so the interval is conservative, and
    it keeps a width when all scores are equal. Without a scale it is the normal approximation.
    """
    if not values or (scale is None and len(values) < 2):
        return None
    n, mean = len(values), fmean(values)
    if scale is None:
        half = _Z * stdev(values) / math.sqrt(n)
        return mean - half, mean + half
    p, z2 = mean / scale, _Z * _Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(max(0.0, p * (1 - p)) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return scale * max(0.0, middle - half), scale * min(1.0, middle + half)
