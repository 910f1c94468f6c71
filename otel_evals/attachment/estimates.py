"""Metrics of which any OpenTelemetry backend can compute the mean score of all runs, and its interval.

A histogram of the scores of sampled runs says nothing about the others as soon as a sampler looks at the run.
These counters are the sums that weighted estimates are made of (`otel_evals.results.sums`): they add up over
processes and time, and their increase over a time window is all that the window's estimate needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from opentelemetry.metrics import Meter

from otel_evals import semconv
from otel_evals.export.record import tenant_of
from otel_evals.model import Evaluation, Run, Score, ScorerFailure

__all__ = ["BoundedNames", "Estimates", "MetricDimension"]

MetricDimension = Literal["version", "tenant"]
"""What the estimates' counters can be told apart by, besides scorer and agent."""
_DIMENSIONS: Mapping[str, tuple[str, Callable[[Run], str]]] = {
    "version": (semconv.GEN_AI_AGENT_VERSION, lambda run: run.agent_version or ""),
    "tenant": (semconv.TENANT_ID, lambda run: str(tenant_of(run) or "")[:_LONGEST]),
}
_LONGEST = 200
_OTHER = "_OTHER"  # OpenTelemetry's word for a value that is not told
_MAX_NAMES = 100


class BoundedNames:
    """Bounds the number of an attribute's values: the first hundred stay, the others become `_OTHER`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        """The name, or `_OTHER`."""
        if name not in self._known:
            if len(self._known) >= _MAX_NAMES:
                return _OTHER
            self._known.add(name)
        return name


class Estimates:
    """Counts evaluations by the weight of their runs: one over the recorded probability.

    Evaluations without a recorded probability are not counted, and revisions are not counted again.

    Args:
        meter: creates the instruments.
        scales: of the scorers, by the rule's name. A scorer that has none has no sums of scores.
        agents: bounds the number of agents' names.
        by: further attributes, `version` or `tenant`, each with a hundred values at most.
    """

    def __init__(
        self,
        meter: Meter,
        scales: Mapping[str, float | None],
        agents: BoundedNames,
        by: Iterable[MetricDimension] = (),
    ) -> None:
        self._scales = scales
        self._by = [(*_DIMENSIONS[name], BoundedNames()) for name in by]
        self._agents = agents
        self._reasons = BoundedNames()
        self._begun: set[tuple[str, ...]] = set()
        self._runs = meter.create_counter(
            semconv.METRIC_ESTIMATE_RUNS,
            unit="{run}",
            description="Runs for which the evaluated ones stand, by outcome: the sum of their weights w.",
        )
        self._squares = meter.create_counter(
            semconv.METRIC_ESTIMATE_RUNS_SQUARED, unit="1", description="Sum of w * w of scored runs."
        )
        self._scores = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE,
            unit="1",
            description="Sum of w * x of scored runs, x being the score over its scale.",
        )
        self._cross = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE_CROSS, unit="1", description="Sum of w * w * x of scored runs."
        )
        self._score_squares = meter.create_counter(
            semconv.METRIC_ESTIMATE_SCORE_SQUARED,
            unit="1",
            description="Sum of w * w * x * x of scored runs.",
        )

    def expect(self, rule: str, run: Run) -> None:
        """A rule begins to score a run: its series start at zero, so that their first increase shows."""
        attributes = self._attributes(rule, run)
        key = rule, *attributes.values()
        if key not in self._begun:
            self._begun.add(key)
            self._add(attributes, rule, 0.0, 0.0)

    def record(self, run: Run, evaluation: Evaluation) -> dict[str, str]:
        """Count one evaluation; returns the attributes that it was counted with: rule and agent."""
        rule, outcome = evaluation.rule or evaluation.scorer_id, evaluation.outcome
        plain, attributes = self._plain(rule, run), self._attributes(rule, run)
        weight = evaluation.sampled.weight
        if weight is None or evaluation.revision > 1:
            return plain
        if isinstance(outcome, Score):
            self._add(attributes, rule, weight, outcome.value)
            return plain
        why = semconv.ERROR_TYPE if isinstance(outcome, ScorerFailure) else semconv.REASON
        reason = self._reasons(evaluation.reason or "unknown")
        self._runs.add(weight, {**attributes, semconv.OUTCOME: evaluation.status, why: reason})
        return plain

    def _plain(self, rule: str, run: Run) -> dict[str, str]:
        name = {semconv.GEN_AI_EVALUATION_NAME: rule}
        return {**name, semconv.GEN_AI_AGENT_NAME: self._agents(run.agent_name)} if run.agent_name else name

    def _attributes(self, rule: str, run: Run) -> dict[str, str]:
        attributes = self._plain(rule, run)
        for attribute, read, bounded in self._by:
            attributes[attribute] = bounded(read(run))
        return attributes

    def _add(self, attributes: dict[str, str], rule: str, weight: float, score: float) -> None:
        self._runs.add(weight, {**attributes, semconv.OUTCOME: "scored"})
        scale = self._scales.get(rule)
        if scale:
            x = score / scale
            self._squares.add(weight * weight, attributes)
            self._scores.add(weight * x, attributes)
            self._cross.add(weight * weight * x, attributes)
            self._score_squares.add(weight * x * weight * x, attributes)
