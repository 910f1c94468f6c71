"""Metrics: scores, durations and judge costs as they occur; counters as observable instruments.

A histogram of the scores of sampled runs says nothing about the others as soon as a sampler looks at the run.
`Estimates` counts the sums behind weighted estimates (`otel_evals._internal.statistics.sums`), from which any
OpenTelemetry backend can compute the mean score of all runs and its interval: they add up over processes and
time, and their increase over a time window is all that the window's estimate needs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Counter, Meter, Observation

from otel_evals import semconv
from otel_evals._internal.accounting.counters import counted_as
from otel_evals._internal.attach.observed import Measured, Observed
from otel_evals._internal.model import Evaluation, Run, Score, ScorerFailure
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_SCORE_BOUNDARIES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
_SECONDS_BOUNDARIES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

_SCORED = ("scored", "", "")
_Read = Callable[[CallbackOptions], Iterable[Observation]]


class BoundedNames:
    """Bounds the number of an attribute's values: the first hundred stay, the others become `_OTHER`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known:
            # Anybody can name an agent or a model. Backends keep a series for each value.
            name = counted_as(redact(name), self._known)
            self._known.add(name)
        return name


@dataclass(slots=True, eq=False)
class _Series:
    """The sums per rule and agent since the last update of the counters."""

    attributes: dict[str, str]
    scale: float | None
    begun: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By outcome: how many collections there had been when its zero was counted."""
    runs: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """Sums of w, by outcome and the attribute with its reason."""
    squares: float = 0.0
    scores: float = 0.0
    cross: float = 0.0
    score_squares: float = 0.0

    def add(self, weight: float, score: float) -> None:
        self.runs[_SCORED] = self.runs.get(_SCORED, 0.0) + weight
        if self.scale:
            weighed = weight * score / self.scale
            self.squares += weight * weight
            self.scores += weighed
            self.cross += weight * weighed
            self.score_squares += weighed * weighed

    def take(self, ended: tuple[str, str, str]) -> tuple[float, ...]:
        """Remove and return the sums of an outcome."""
        runs = self.runs.pop(ended)
        if ended != _SCORED:
            return (runs,)
        taken = runs, self.squares, self.scores, self.cross, self.score_squares
        self.squares = self.scores = self.cross = self.score_squares = 0.0
        return taken


class Estimates:
    """Counts evaluations by the weight of their runs: one over the recorded probability.

    Evaluations without a recorded probability are not counted, nor are later revisions. Five counters per run
    cost as much as reading it: they are updated at the start of each collection. Backends that compute
    increases do not see a series' first value, so its weights wait until its zeros have been collected.

    Args:
        meter: creates the instruments.
        scales: of the scorers, by the rule's name; without a scale, there are no sums of scores.
        agents: bounds the number of agents' names.
    """

    def __init__(
        self,
        meter: Meter,
        scales: Mapping[str, float | None],
        agents: BoundedNames,
    ) -> None:
        self.scales = dict(scales)
        self._agents = agents
        self._reasons = BoundedNames()
        self._series: dict[tuple[str, str], _Series] = {}
        self.expected: set[tuple[str, str]] = set()
        """Rules, each with an agent's name or none, whose series have started. Both are bounded in number."""
        self._collections = 0
        self._lock = threading.Lock()  # `collecting` runs on a reader's thread

        def counter(name: str, description: str, unit: str = "1") -> Counter:
            return meter.create_counter(name, unit=unit, description=description)

        self._runs = counter(
            semconv.METRIC_ESTIMATE_RUNS,
            "Runs for which the evaluated ones stand, by outcome: the sum of their weights w.",
            "{run}",
        )
        self._squares = counter(semconv.METRIC_ESTIMATE_RUNS_SQUARED, "Sum of w * w of scored runs.")
        self._scores = counter(
            semconv.METRIC_ESTIMATE_SCORE, "Sum of w * x of scored runs, x being the score over its scale."
        )
        self._cross = counter(semconv.METRIC_ESTIMATE_SCORE_CROSS, "Sum of w * w * x of scored runs.")
        self._score_squares = counter(
            semconv.METRIC_ESTIMATE_SCORE_SQUARED, "Sum of w * w * x * x of scored runs."
        )

    def expect(self, rule: str, run: Run) -> None:
        """Start the series of a rule and a run at zero: backends need that to see the first increase."""
        key = self._key(rule, run)
        if key not in self.expected:
            self.expected.add(key)
            series = self._of(key)
            series.begun[_SCORED] = self._collections
            with self._lock:
                self._count(series, _SCORED, (0.0,) * 5)

    def record(self, run: Run, evaluation: Evaluation) -> str:
        """Count an evaluation; returns its agent's name, bounded in number, or nothing."""
        key = self._key(evaluation.rule or evaluation.scorer_id, run)
        sampled, outcome = evaluation.sampled, evaluation.outcome
        weight = 1.0 if sampled.probability == 1.0 else sampled.weight
        if weight is not None and evaluation.revision == 1:
            series = self._of(key)
            with self._lock:
                if isinstance(outcome, Score):
                    series.add(weight, outcome.value)
                else:
                    why = semconv.ERROR_TYPE if isinstance(outcome, ScorerFailure) else semconv.REASON
                    ended = evaluation.status, why, self._reasons(evaluation.reason or "unknown")
                    series.runs[ended] = series.runs.get(ended, 0.0) + weight
        return key[1]

    def _key(self, rule: str, run: Run) -> tuple[str, str]:
        agent = run.agent_name or ""
        return rule, self._agents(agent) if agent else ""

    def _of(self, key: tuple[str, str]) -> _Series:
        series = self._series.get(key)
        if series is None:
            rule, agent = key
            attributes = {semconv.GEN_AI_EVALUATION_NAME: rule}
            if agent:
                attributes[semconv.GEN_AI_AGENT_NAME] = agent
            series = self._series[key] = _Series(attributes, self.scales.get(rule))
        return series

    def collecting(self) -> None:
        """Count the weights so far; to be called at the start of each collection."""
        with self._lock:
            self._collections += 1
            self._update()

    def after_fork(self) -> None:
        """Replace the lock in a forked child; a reader's thread of the parent may have held it."""
        self._lock = threading.Lock()

    def release(self) -> None:
        """Count everything now: the next collection may be the last."""
        with self._lock:
            self._update(at_once=True)

    def _update(self, *, at_once: bool = False) -> None:
        """Count the sums of series that need not wait."""
        for series in list(self._series.values()):
            for ended in list(series.runs):
                begun = series.begun.get(ended)
                if at_once or (begun is not None and self._collections >= begun + 2):
                    self._count(series, ended, series.take(ended))
                # Zeros counted after n collections are in the next one, which has begun if n is one more.
                elif begun is None:
                    series.begun[ended] = self._collections
                    self._count(series, ended, (0.0,) * 5)

    def _count(self, series: _Series, ended: tuple[str, str, str], sums: tuple[float, ...]) -> None:
        outcome, why, reason = ended
        attributes = {semconv.OUTCOME: outcome, why: reason} if why else {semconv.OUTCOME: outcome}
        try:
            self._runs.add(sums[0], {**series.attributes, **attributes})
            if series.scale and ended == _SCORED:
                self._squares.add(sums[1], series.attributes)
                self._scores.add(sums[2], series.attributes)
                self._cross.add(sums[3], series.attributes)
                self._score_squares.add(sums[4], series.attributes)
        except BaseException as error:  # a meter of the application
            log_error(_logger, "estimates could not be counted", error=error)


class Metrics:
    """Records evaluations, and exposes the counters as observable instruments.

    `scales` has the scorers' scales by rule.
    """

    def __init__(
        self,
        meter: Meter,
        look: Callable[[], Measured],
        scales: Mapping[str, float | None] | None = None,
    ) -> None:
        self._models = BoundedNames()
        self.estimates = Estimates(meter, scales or {}, BoundedNames())
        self._score = meter.create_histogram(
            semconv.METRIC_SCORE,
            unit="1",
            description="Scores of sampled runs, unweighted: its mean is not that of all runs.",
            explicit_bucket_boundaries_advisory=_SCORE_BOUNDARIES,
        )
        self._duration = meter.create_histogram(
            semconv.METRIC_EVALUATION_DURATION,
            unit="s",
            description="Time from a scorer's start to its outcome.",
            explicit_bucket_boundaries_advisory=_SECONDS_BOUNDARIES,
        )
        self._tokens = meter.create_counter(
            semconv.METRIC_JUDGE_TOKENS, unit="{token}", description="Tokens that judges used."
        )
        self._cost = meter.create_counter(
            semconv.METRIC_JUDGE_COST, unit="{USD}", description="What judges cost, where the price is known."
        )
        # Last: a reader may call back as soon as an observable instrument exists.
        Observed(meter, look, self.estimates.collecting)

    def record(self, run: Run, evaluation: Evaluation, context: Context | None = None) -> None:
        """Record an evaluation; exemplars link to the judged span, if it is current in the context."""
        attributes: dict[str, Any] = {semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id}
        agent = self.estimates.record(run, evaluation)
        if agent:
            attributes[semconv.GEN_AI_AGENT_NAME] = agent
        self._duration.record(evaluation.duration, {**attributes, semconv.OUTCOME: evaluation.outcome.status})
        for step in getattr(evaluation.outcome, "steps", ()):
            if step.model is not None:
                judged = {
                    semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id,
                    semconv.JUDGE_MODEL: self._models(step.model),
                }
                self._tokens.add(step.usage.total_tokens, judged)
                if step.cost is not None:
                    self._cost.add(step.cost, judged)
        if isinstance(evaluation.outcome, Score):
            if run.models:
                attributes[semconv.GEN_AI_REQUEST_MODEL] = self._models(run.models[0])
            self._score.record(evaluation.outcome.value, attributes, context)
