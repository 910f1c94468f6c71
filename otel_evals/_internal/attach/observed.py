"""Counters as observable instruments: a reader asks for them at each collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals import semconv
from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.util.redis_server import servers

_Read = Callable[[CallbackOptions], Iterable[Observation]]


@dataclass(frozen=True, slots=True)
class Measured:
    """The counters that metrics observe."""

    stats: Stats = field(default_factory=Stats)
    queue_size: int = 0
    held: int = 0
    """Spans that wait for their scores."""
    exports: Mapping[str, DestinationStats] = field(default_factory=dict)
    failing: Mapping[str, str] = field(default_factory=dict)
    """Rules that fail again and again."""


class Observed:
    """The counters that `look` returns, as instruments; each collection begins with `collecting`."""

    def __init__(self, meter: Meter, look: Callable[[], Measured], collecting: Callable[[], object]) -> None:
        self._look, self._collecting = look, collecting

        def counter(name: str, read: _Read, unit: str, description: str) -> None:
            meter.create_observable_counter(name, [read], unit=unit, description=description)

        def gauge(name: str, read: Callable[[], int], unit: str, description: str) -> None:
            observe: _Read = lambda _: [Observation(read())]  # noqa: E731
            meter.create_observable_gauge(name, [observe], unit=unit, description=description)

        counter(semconv.METRIC_RUNS, self._runs, "{run}", "Runs, by what became of them.")
        counter(
            semconv.METRIC_EVALUATIONS,
            self._evaluations,
            "{evaluation}",
            "Eligible runs of each scorer, by what became of them.",
        )
        counter(
            semconv.METRIC_SPANS_LOST,
            self._lost,
            "{item}",
            "Spans and log records that did not reach their run, by reason.",
        )
        counter(
            semconv.METRIC_EXPORTS,
            self._exported,
            "{run}",
            "Scored runs, by destination and what became of them.",
        )
        counter(
            semconv.METRIC_SHARED_FAILURES,
            _shared_failures,
            "{call}",
            "Calls to servers that processes share that failed, or were not made after one had.",
        )
        size = "Items that wait to be scored."
        gauge(semconv.METRIC_QUEUE_SIZE, lambda: self._look().queue_size, "{item}", size)
        gauge(
            semconv.METRIC_CONVERSATIONS_WAITING,
            lambda: self._look().stats.conversations.waiting,
            "{conversation}",
            "Conversations that have not been idle for long enough to be judged.",
        )
        held = "Judged spans that wait for their scores."
        gauge(semconv.METRIC_SPANS_HELD, lambda: self._look().held, "{span}", held)
        meter.create_observable_gauge(
            semconv.METRIC_RULES_FAILING,
            [self._rules_failing],
            unit="1",
            description="Whether a rule fails again and again: 1 or 0.",
        )

    def _runs(self, _: CallbackOptions) -> Iterable[Observation]:
        # This instrument is created first, and readers ask in that order.
        self._collecting()
        stats = self._look().stats
        yield Observation(stats.eligible, {semconv.OUTCOME: "eligible"})
        yield from _by_reason("ignored", stats.ignored, {})

    def _lost(self, _: CallbackOptions) -> Iterable[Observation]:
        for reason, count in self._look().stats.losses.items():
            yield Observation(count, {semconv.REASON: reason})

    def _evaluations(self, _: CallbackOptions) -> Iterable[Observation]:
        for name, rule in self._look().stats.rules.items():
            scorer = {semconv.GEN_AI_EVALUATION_NAME: name}
            yield Observation(rule.scored, {**scorer, semconv.OUTCOME: "scored"})
            for outcome in ("not_sampled", "not_scored", "dropped"):
                yield from _by_reason(outcome, getattr(rule, outcome), scorer)
            for error_type, count in rule.failed.items():
                yield Observation(
                    count, {**scorer, semconv.OUTCOME: "failed", semconv.ERROR_TYPE: error_type}
                )

    def _rules_failing(self, _: CallbackOptions) -> Iterable[Observation]:
        measured = self._look()
        for name in measured.stats.rules:
            yield Observation(int(name in measured.failing), {semconv.GEN_AI_EVALUATION_NAME: name})

    def _exported(self, _: CallbackOptions) -> Iterable[Observation]:
        for destination, stats in self._look().exports.items():
            for outcome in ("exported", "failed", "dropped"):
                count = getattr(stats, outcome)
                yield Observation(count, {semconv.DESTINATION: destination, semconv.OUTCOME: outcome})


def _shared_failures(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(s.failures, {semconv.SHARED_SERVER: s.name}) for s in servers()]


def _by_reason(
    outcome: str, counts: Mapping[str, int], attributes: Mapping[str, str]
) -> Iterable[Observation]:
    for reason, count in counts.items():
        yield Observation(count, {**attributes, semconv.OUTCOME: outcome, semconv.REASON: reason})
