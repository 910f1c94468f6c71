"""A scorer's results over many runs: counts, the mean of all runs and its confidence interval."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import Direction, Evaluation, Run, Score, is_missing
from otel_evals._internal.statistics.bounds import missing
from otel_evals._internal.statistics.clusters import Clusters
from otel_evals._internal.statistics.estimate import Estimate, estimate
from otel_evals._internal.statistics.estimate import Interval as Range
from otel_evals._internal.statistics.sums import Sums, Tally

Interval = tuple[float, float]
Kin = str
"""Whose run it is: the user's id, or else the conversation's, or else the trace's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTally:
    """One scorer's results over all runs. Other outcomes than scores are counted."""

    scorer_id: str
    direction: Direction
    scored: int
    mean: float | None
    """Of all runs, sampled or not: each score is weighted with one over its run's sampling probability. None
    if no run of known probability was scored."""
    interval: Interval | None
    """95% confidence interval of the mean. Where conversations or users have several runs, these are taken
    to resemble each other. None without a mean; without a scale, also where `n_effective` is below 200."""
    n_effective: float = 0.0
    """How many runs of equal weight would say as much."""
    too_few: bool = True
    """Whether these are too few, less than ten, to draw conclusions from."""
    unknown: int = 0
    """Scores without a known probability, which are not in the mean."""
    missing_share: float = 0.0
    """Weighted share of the runs whose score is missing (`otel_evals.model.is_missing`)."""
    bounds: Interval | None = None
    """The interval for whatever the missing scores are, from all at 0 to all at the scale; None without a
    scale."""
    lowest: float | None = None
    highest: float | None = None
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """By the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By error type; dropped evaluations included."""
    cost: float | None = None
    """US dollars of the judge calls; None if no judge was called or a price is unknown."""


def kin_of(run: Run) -> Kin:
    """Whose run it is."""
    return run.user_id or run.conversation_id or run.trace_id


def tally(
    rules: Iterable[Rule], evaluations: Sequence[Evaluation], kin: Mapping[str, Kin] | None = None
) -> tuple[ScorerTally, ...]:
    """One tally for each scorer, in the order of the rules.

    Args:
        rules: the rules.
        evaluations: what they gave.
        kin: `kin_of` the runs by trace id. Runs that are not in it are taken to resemble no others.
    """
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
    return tuple(_tally(name, *scales[name], found, kin or {}) for name, found in by_scorer.items())


def _tally(
    scorer_id: str,
    direction: Direction,
    scale: float | None,
    evaluations: Sequence[Evaluation],
    kin: Mapping[str, Kin],
) -> ScorerTally:
    ends: dict[str, Counter[str]] = {"not_scored": Counter(), "failed": Counter(), "dropped": Counter()}
    scores = [e.outcome for e in evaluations if isinstance(e.outcome, Score)]
    for evaluation in evaluations:
        if evaluation.status != "scored":
            ends[evaluation.status][evaluation.reason or "unknown"] += 1
    values = [score.value for score in scores]
    judged = [score.cost for score in scores if any(step.model for step in score.steps)]
    made, share, bounds = _estimated(evaluations, scale, kin)
    return ScorerTally(
        scorer_id=scorer_id,
        direction=direction,
        scored=len(values),
        mean=_mean(evaluations),
        interval=_ends(made.interval),
        n_effective=made.n_effective,
        too_few=made.too_few,
        unknown=made.unknown,
        missing_share=share,
        bounds=_ends(bounds),
        lowest=min(values, default=None),
        highest=max(values, default=None),
        not_scored=dict(ends["not_scored"]),
        failed=dict(ends["failed"] + ends["dropped"]),
        cost=sum(c for c in judged if c is not None) if judged and None not in judged else None,
    )


def _mean(evaluations: Sequence[Evaluation]) -> float | None:
    """The weighted mean in the unit of the scores; no rounding takes it out of their range."""
    weights = [(e.outcome.value, e.sampled.weight) for e in evaluations if isinstance(e.outcome, Score)]
    runs = [(value, w) for value, w in weights if w is not None]
    if not runs:
        return None
    mean = math.fsum(value * w for value, w in runs) / math.fsum(w for _, w in runs)
    return min(max(mean, min(value for value, _ in runs)), max(value for value, _ in runs))


def _estimated(
    evaluations: Sequence[Evaluation], scale: float | None, kin: Mapping[str, Kin]
) -> tuple[Estimate, float, Range | None]:
    """The mean in the unit of the scores, the share that is missing, and the bounds on the mean with it."""
    scored = [(e, e.outcome.value) for e in evaluations if isinstance(e.outcome, Score)]
    # Without a scale, squares of what is far from 0 would leave no digits for the variance.
    unit, offset = scale or 1.0, 0.0 if scale or not scored else scored[0][1]
    runs = [(e, (value - offset) / unit, e.sampled.weight) for e, value in scored]
    sums = Sums.of_runs((x, w) for _, x, w in runs)
    clusters = _clusters([(e, x, w) for e, x, w in runs if w is not None], kin)
    made = estimate(sums, clusters=clusters, scaled=scale is not None).in_units(unit, offset)
    lost = sum(
        (Tally.of(e.sampled.weight) for e in evaluations if is_missing(e.status, e.reason)), start=Tally()
    )
    found = missing(sums, lost) if scale and lost.n else None
    bounds = found.bounds if found else None
    share = lost.w / (sums.w + lost.w) if lost.w else 0.0
    return made, share, Range(unit * bounds.low, unit * bounds.high) if bounds else None


def _clusters(runs: Sequence[tuple[Evaluation, float, float]], kin: Mapping[str, Kin]) -> Clusters | None:
    """The runs by user, or else by conversation, as the results store has them; None where all are apart."""
    keys = [kin.get(e.trace_id, e.trace_id) for e, _, _ in runs]
    if len(set(keys)) == len(keys):
        return None
    return Clusters.of_runs((key, x, w) for key, (_, x, w) in zip(keys, runs, strict=True))


def _ends(interval: Range | None) -> Interval | None:
    return (interval.low, interval.high) if interval else None
