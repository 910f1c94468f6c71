"""A scorer's results over many runs: counts, the mean of all runs and its confidence interval."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import Direction, Evaluation, Run, Score, is_missing
from otel_evals._internal.model.evaluations import judges_cost
from otel_evals._internal.statistics.bounds import missing
from otel_evals._internal.statistics.clusters import Clusters
from otel_evals._internal.statistics.estimate import Estimate, estimate
from otel_evals._internal.statistics.estimate import Interval as Range
from otel_evals._internal.statistics.sums import Sums, Tally

Interval = tuple[float, float]
Kin = str
"""Key of dependent runs: the user's id, the conversation's, or the trace's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerTally:
    """One scorer's results over all runs; outcomes other than scores are counted."""

    scorer_id: str
    direction: Direction
    scored: int
    mean: float | None
    """Mean over all runs, sampled or not: the weight of a score is 1 / its sampling probability. None if no
    run of known probability was scored."""
    interval: Interval | None
    """95% confidence interval of the mean; runs of the same user or conversation count as dependent. None
    without a mean, or without a scale if `n_effective` is below 200."""
    n_effective: float = 0.0
    """Effective number of runs: as many with equal weights are as informative."""
    too_few: bool = True
    """True for an effective number below ten: too few to draw conclusions."""
    unknown: int = 0
    """Scores without a known probability; they are not in the mean."""
    missing_share: float = 0.0
    """Weighted share of runs with a missing score (`otel_evals.model.is_missing`)."""
    bounds: Interval | None = None
    """Interval over all values of the missing scores, from all 0 to all at the scale; None without a
    scale."""
    lowest: float | None = None
    highest: float | None = None
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """Counts by the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """Counts by error type, with dropped evaluations."""
    cost: float | None = None
    """Cost of judge calls in US dollars; None if no judge was called or a price is unknown."""


def kin_of(run: Run) -> Kin:
    """Return the user's id, the conversation's, or the trace's."""
    return run.user_id or run.conversation_id or run.trace_id


def tally(
    rules: Iterable[Rule], evaluations: Sequence[Evaluation], kin: Mapping[str, Kin] | None = None
) -> tuple[ScorerTally, ...]:
    """Return one tally per scorer, in the order of the rules.

    `kin` has `kin_of` the runs by trace id; other runs count as independent.
    """
    by_scorer: dict[str, list[Evaluation]] = {}
    scales: dict[str, tuple[Direction, float | None]] = {}
    names: dict[str, str] = {}
    for rule in rules:
        # A scorer's results for runs and for conversations are separate.
        name = names[rule.name] = rule.name if rule.scope == "conversation" else rule.scorer_id
        by_scorer.setdefault(name, [])
        scales[name] = rule.facts.direction, rule.facts.scale
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
    ends: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for evaluation in evaluations:
        ends[evaluation.status][evaluation.reason or "unknown"] += 1
    values = [e.outcome.value for e in evaluations if isinstance(e.outcome, Score)]
    made, share, bounds = _estimated(evaluations, scale, kin)
    return ScorerTally(
        scorer_id=scorer_id,
        direction=direction,
        scored=len(values),
        mean=None if made.mean is None else min(max(made.mean, min(values)), max(values)),  # rounding
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
        cost=judges_cost(e.outcome for e in evaluations),
    )


def _estimated(
    evaluations: Sequence[Evaluation], scale: float | None, kin: Mapping[str, Kin]
) -> tuple[Estimate, float, Range | None]:
    """Return the mean in the unit of the scores, the missing share, and the bounds of the mean with it."""
    scored = [(e, e.outcome.value) for e in evaluations if isinstance(e.outcome, Score)]
    # Without a scale, squares of large scores would leave no digits for the variance.
    unit, offset = scale or 1.0, 0.0 if scale or not scored else scored[0][1]
    runs = [(e, (value - offset) / unit, e.sampled.weight) for e, value in scored]
    sums = Sums.of_runs((x, w) for _, x, w in runs)
    clusters = _clusters([(e, x, w) for e, x, w in runs if w is not None], kin)
    made = estimate(sums, clusters=clusters, scaled=scale is not None).in_units(unit, offset)
    lost = sum(
        (Tally.of(e.sampled.weight) for e in evaluations if is_missing(e.status, e.reason)), start=Tally()
    )
    bounds = missing(sums, lost, clusters=clusters).bounds if scale and lost.n else None
    share = lost.w / (sums.w + lost.w) if lost.w else 0.0
    return made, share, Range(unit * bounds.low, unit * bounds.high) if bounds else None


def _clusters(runs: Sequence[tuple[Evaluation, float, float]], kin: Mapping[str, Kin]) -> Clusters | None:
    """Group the runs by their kin, as the results store does; None if all are independent."""
    # Runs of one user are correlated: as independent runs, they would make intervals too narrow.
    keys = [kin.get(e.trace_id, e.trace_id) for e, _, _ in runs]
    if len(set(keys)) == len(keys):
        return None
    return Clusters.of_runs((key, x, w) for key, (_, x, w) in zip(keys, runs, strict=True))


def _ends(interval: Range | None) -> Interval | None:
    return (interval.low, interval.high) if interval else None
