"""Metrics: scores, durations and judge costs as they occur; counters as observable instruments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals import semconv
from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.attach.estimates import BoundedNames, Estimates, MetricDimension
from otel_evals._internal.deliver.counts import DestinationStats
from otel_evals._internal.model import Evaluation, Run, Score
from otel_evals._internal.redis_server import servers

_SCORE_BOUNDARIES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
_SECONDS_BOUNDARIES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]


class Metrics:
    """Records evaluations, and exposes the counters as observable instruments.

    Args:
        meter: creates the instruments.
        stats: reads the counters.
        queue_size: reads how many items wait to be scored.
        held: reads how many spans are held for their scores.
        exports: reads the counts of deliveries, by destination.
        scales: of the scorers, by the rule's name; those that are missing have none.
        failing: reads which rules fail again and again.
        by: what else the sums for weighted means are told apart by.
    """

    def __init__(
        self,
        meter: Meter,
        stats: Callable[[], Stats],
        queue_size: Callable[[], int],
        held: Callable[[], int],
        exports: Callable[[], Mapping[str, DestinationStats]],
        scales: Mapping[str, float | None] | None = None,
        failing: Callable[[], Mapping[str, str]] = dict,
        by: Iterable[MetricDimension] = (),
    ) -> None:
        self._stats = stats
        self._failing = failing
        self._exports = exports
        self.estimates = Estimates(meter, scales or {}, BoundedNames(), by)
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
        meter.create_observable_counter(
            semconv.METRIC_RUNS, [self._runs], unit="{run}", description="Runs, by what became of them."
        )
        meter.create_observable_counter(
            semconv.METRIC_EVALUATIONS,
            [self._evaluations],
            unit="{evaluation}",
            description="Eligible runs of each scorer, by what became of them.",
        )
        meter.create_observable_counter(
            semconv.METRIC_SPANS_LOST,
            [lambda _: list(_lost(self._stats()))],
            unit="{item}",
            description="Spans and log records that did not reach their run, by reason.",
        )
        meter.create_observable_counter(
            semconv.METRIC_EXPORTS,
            [self._exported],
            unit="{run}",
            description="Scored runs, by destination and what became of them.",
        )
        meter.create_observable_gauge(
            semconv.METRIC_QUEUE_SIZE,
            [lambda _: [Observation(queue_size())]],
            unit="{item}",
            description="Items that wait to be scored.",
        )
        meter.create_observable_gauge(
            semconv.METRIC_CONVERSATIONS_WAITING,
            [lambda _: [Observation(self._stats().conversations.waiting)]],
            unit="{conversation}",
            description="Conversations that have not been idle for long enough to be judged.",
        )
        meter.create_observable_gauge(
            semconv.METRIC_SPANS_HELD,
            [lambda _: [Observation(held())]],
            unit="{span}",
            description="Judged spans that wait for their scores.",
        )
        meter.create_observable_gauge(
            semconv.METRIC_RULES_FAILING,
            [self._rules_failing],
            unit="1",
            description="Whether a rule fails again and again: 1 or 0.",
        )
        meter.create_observable_counter(
            semconv.METRIC_SHARED_FAILURES,
            [lambda _: [Observation(s.failures, {semconv.SHARED_SERVER: s.name}) for s in servers()]],
            unit="{call}",
            description="Calls to servers that processes share that failed, or were not made after one had.",
        )

    def record(self, run: Run, evaluation: Evaluation, context: Context | None = None) -> None:
        """Record one evaluation.

        Args:
            run: what was judged.
            evaluation: the outcome.
            context: has the judged span as its current one, which exemplars then tell.
        """
        attributes: dict[str, Any] = {semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id}
        if agent := self.estimates.record(run, evaluation):
            attributes[semconv.GEN_AI_AGENT_NAME] = agent
        self._duration.record(evaluation.duration, {**attributes, semconv.OUTCOME: evaluation.outcome.status})
        for step in getattr(evaluation.outcome, "steps", ()):
            if step.model is not None:
                judged = {
                    semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id,
                    semconv.JUDGE_MODEL: step.model,
                }
                self._tokens.add(step.usage.total_tokens, judged)
                if step.cost is not None:
                    self._cost.add(step.cost, judged)
        if isinstance(evaluation.outcome, Score):
            if run.models:
                attributes[semconv.GEN_AI_REQUEST_MODEL] = run.models[0]
            self._score.record(evaluation.outcome.value, attributes, context)

    def _runs(self, _: CallbackOptions) -> Iterable[Observation]:
        stats = self._stats()
        yield Observation(stats.eligible, {semconv.OUTCOME: "eligible"})
        yield from _by_reason("ignored", stats.ignored, {})

    def _evaluations(self, _: CallbackOptions) -> Iterable[Observation]:
        for name, rule in self._stats().rules.items():
            scorer = {semconv.GEN_AI_EVALUATION_NAME: name}
            yield Observation(rule.scored, {**scorer, semconv.OUTCOME: "scored"})
            if rule.stored:
                yield Observation(rule.stored, {**scorer, semconv.OUTCOME: "stored"})
            for outcome in ("not_sampled", "not_scored", "dropped"):
                yield from _by_reason(outcome, getattr(rule, outcome), scorer)
            for error_type, count in rule.failed.items():
                yield Observation(
                    count, {**scorer, semconv.OUTCOME: "failed", semconv.ERROR_TYPE: error_type}
                )

    def _rules_failing(self, _: CallbackOptions) -> Iterable[Observation]:
        failing = self._failing()
        for name in self._stats().rules:
            yield Observation(int(name in failing), {semconv.GEN_AI_EVALUATION_NAME: name})

    def _exported(self, _: CallbackOptions) -> Iterable[Observation]:
        for destination, stats in self._exports().items():
            for outcome in ("exported", "failed", "dropped"):
                count = getattr(stats, outcome)
                yield Observation(count, {semconv.DESTINATION: destination, semconv.OUTCOME: outcome})


def _lost(stats: Stats) -> Iterator[Observation]:
    for reason, count in stats.losses.items():
        yield Observation(count, {semconv.REASON: reason})


def _by_reason(
    outcome: str, counts: Mapping[str, int], attributes: Mapping[str, str]
) -> Iterator[Observation]:
    for reason, count in counts.items():
        yield Observation(count, {**attributes, semconv.OUTCOME: outcome, semconv.REASON: reason})
