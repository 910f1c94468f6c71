"""What a scorer said of many runs: counts, the mean and how sure it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from otel_evals.config import Rule
from otel_evals.model import Direction, Evaluation, Score

__all__ = ["ScorerTally", "interval", "tally"]

_Z = 1.959964  # 97.5% of the normal distribution lie below
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTally:
    """One scorer over all runs. Only scores make the mean; what is no score is counted beside it."""

    scorer_id: str
    direction: Direction
    scored: int
    mean: float | None
    """None where nothing was scored."""
    interval: Interval | None
    """95% confidence interval of the mean."""
    lowest: float | None
    highest: float | None
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """By the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By error type; dropped evaluations included."""
    cost: float | None = None
    """US dollars of the judge calls; None when no judge was called or a price is unknown."""


def tally(rules: Iterable[Rule], evaluations: Sequence[Evaluation]) -> tuple[ScorerTally, ...]:
    """One tally for each scorer, in the order of the rules."""
    by_scorer: dict[str, list[Evaluation]] = {}
    scales: dict[str, tuple[Direction, float | None]] = {}
    for rule in rules:
        name = _name(rule.scorer.id, rule.scope == "conversation")
        by_scorer.setdefault(name, [])
        scales[name] = rule.scorer.direction, getattr(rule.scorer, "scale", None)
    for evaluation in evaluations:
        by_scorer[_name(evaluation.scorer_id, evaluation.conversation_id is not None)].append(evaluation)
    return tuple(_tally(name, *scales[name], found) for name, found in by_scorer.items())


def _name(scorer_id: str, conversation: bool) -> str:
    """A scorer's runs and its conversations are told apart."""
    return f"{scorer_id}@conversation" if conversation else scorer_id


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
    """95% confidence interval of the mean; None where it cannot be told.

    For scores within 0..scale this is Wilson's interval of the mean taken as a proportion. A score between
    0 and 1 varies no more than a coin of the same mean, so the interval is rather too wide than too narrow,
    and it does not shrink to nothing when all scores are equal. Without a scale it is the normal one.
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
