"""The engine of live scoring, fed with received items instead of captured ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Collection, Hashable, Sequence, Set
from math import inf
from typing import Any, NamedTuple

from opentelemetry import _logs, metrics, trace

from otel_evals import Config, __version__, semconv
from otel_evals.destinations import EventPreset
from otel_evals.dialects import Dialects
from otel_evals.errors import ConfigError
from otel_evals.model import Evaluation, OperationKind, Run, SpanRecord
from otel_evals.sdk.config import start_watches
from otel_evals.sdk.pipeline import (
    Attacher,
    DurableQueue,
    Engine,
    EvaluationSpans,
    Health,
    IntakeItem,
    Metrics,
    Opened,
    OutcomeTracker,
    Providers,
    SpanGroup,
    assembly_limits,
    evaluations_of,
)
from otel_evals_gateway._internal.held_spans import HeldSpans
from otel_evals_gateway._internal.hold_times import options_of, quiet_seconds
from otel_evals_gateway._internal.judged_traces import JudgedTraces
from otel_evals_gateway._internal.recent_scores import RecentScores
from otel_evals_gateway._internal.trace_gatherer import LostItems, RootsTaken, TraceGatherer

_logger = logging.getLogger(__name__)
_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_ROOM_SECONDS = 0.01
_FULL = 0.9
"""Fill level of the open traces from which no request is taken; see `has_room`."""
_MUST_FIT = 25_000
"""Items of one request: half of the backlog's capacity."""
_RULES_SECONDS = 30.0
_JUDGED_PART = 4
"""Of `max_bytes`, for the spans of judged traces: this part."""
_BYTES_PER_JUDGED = 2_048
"""Of `max_bytes`, for each judged trace of which only the evaluations are kept."""
_FORGET_SECONDS = 5.0
_MOST_OUTGOING = 2_000
"""Outgoing runs from which no further trace is closed."""


class OutgoingRun(NamedTuple):
    """A run for the member of the group that gathers its conversation."""

    trace_id: str
    conversation: str
    message: bytes


class ScoringEngine:
    """Scores received spans; puts their scores on held spans, if there are any. Thread-safe."""

    def __init__(
        self, config: Config, dialects: Dialects, providers: Providers, held_spans: HeldSpans | None = None
    ) -> None:
        self.config = config
        self.options = options_of(config)
        self._dialects = dialects
        self._scales = _scales(config)
        self.putting = 0
        """Requests in transfer to the engine, which does not know all of their traces as open yet."""
        self._roots_put = 0
        self.outbox: deque[OutgoingRun] = deque()
        """Runs to pass on."""
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, providers.loggers)
        self.meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, providers.meters)
        self.recent = RecentScores()
        attacher = _NotingAttacher(
            self.recent,
            self._evaluation_spans(providers),
            logger if config.evaluation_events else None,
            None,
            None if held_spans is None else held_spans.scores,
            [each for each in config.destinations if isinstance(each, EventPreset)],
            proposed=config.semconv == "proposed",
        )
        self._watches = start_watches(config.sections, config.destinations, lambda: logger)
        self.engine = Engine(
            config, dialects, attacher, new_gatherer=self._new_gatherer, new_store=self._new_store
        )
        self._observe()
        if config.metrics:
            attacher.measure_with(self._metrics(held_spans))  # last: a reader may call back at once

    def _observe(self) -> None:
        self.meter.create_observable_gauge(
            "otel_evals.gateway.open_traces.usage",
            [lambda _: [metrics.Observation(self.gathered)]],
            "1",
            "Part of max_open_traces or max_bytes that open traces use",
        )
        self.meter.create_observable_counter(
            "otel_evals.gateway.spans.forgotten_early",
            [lambda _: [metrics.Observation(self.gatherer.closed_spans["forgotten_early"])]],
            "{span}",
            "Spans of scored runs that were forgotten before their time, for lack of room",
        )

    def _new_store(self) -> DurableQueue:
        most_bytes = self.config.max_bytes
        self._judged = JudgedTraces(
            self.options.remember, most_bytes // _JUDGED_PART, most_bytes // _BYTES_PER_JUDGED
        )
        kafka = self.options.kafka
        if kafka is None:
            return _Queue(self._judged)
        passes_on = kafka.topics.conversations is not None
        self._tracker = _Tracker(self._judged, self._pass_on if passes_on else None)
        return self._tracker

    def _pass_on(self, trace_id: str, conversation: str, message: bytes) -> None:
        self.outbox.append(OutgoingRun(trace_id, conversation, message))

    def sent(self, trace_id: str, lost: str | None = None) -> None:
        """Record that an outgoing run has arrived, or the reason why it cannot."""
        self._tracker.sent(trace_id, lost)

    def _evaluation_spans(self, providers: Providers) -> EvaluationSpans | None:
        where = self.config.evaluation_spans
        if not where:
            return None
        tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, providers.tracers)
        proposed, same_trace = self.config.semconv == "proposed", where == "same_trace"
        return EvaluationSpans(tracer, same_trace=same_trace, own_service=False, proposed=proposed)

    def use_rules(self, config: Config) -> None:
        """Switch to the rules of this configuration; ConfigError if the engine is busy for long."""
        if not self.engine.use_rules(config, _RULES_SECONDS):
            raise ConfigError("rules", "the engine is busy and did not take them: try again later")
        self.config = config
        self._scales.update(_scales(config))

    def has_room(self, count: int) -> bool:
        """Return True if a request's items fit, and no complete trace is evicted for them.

        A request larger than half of the backlog only needs that half free: its items are in memory already,
        and nothing else is accepted until there is room again. Traces without their root never cause
        a refusal, because the root may not arrive: they are evicted.
        """
        fits = self.engine.thread.room >= min(count, _MUST_FIT)
        waits = self.gatherer.waits_for_room and self.gathered >= _FULL
        return fits and not waits and self._rooted < _FULL

    @property
    def _rooted(self) -> float:
        """Fill level of the open traces by those with their root, and by those on their way to the engine."""
        traces, size = self.gatherer.rooted
        traces += self._roots_put - self.gatherer.roots_taken
        size += self.engine.thread.backlog.bytes
        return max(traces / self.config.max_open_traces, size / self.config.max_bytes)

    async def put(self, items: Sequence[IntakeItem], seconds: float, *, roots: int = 0) -> bool:
        """Put a request's items, all or none; False if there was no room within this time.

        `roots` is the number of root spans among them.
        """
        self.putting += 1
        try:
            deadline = time.monotonic() + seconds
            while not self.has_room(len(items)):
                if time.monotonic() >= deadline:
                    return False
                await asyncio.sleep(_ROOM_SECONDS)
            self._roots_put += roots
            self.engine.thread.put_all([*items, RootsTaken(roots)])  # type: ignore[list-item]
            return True
        finally:
            self.putting -= 1

    def lose(self, items: Sequence[IntakeItem]) -> None:
        """Note that `put` found no room for items: their runs would be judged on a part."""
        self.engine.thread.put_all([LostItems(items)])  # type: ignore[list-item]

    def health(self) -> Health:
        return self.engine.health(10.0, closed=False)

    @property
    def gathered(self) -> float:
        """Fill level of the open traces with the intake, from 0 to 1."""
        traces, size = self.gatherer.size
        traces += self.engine.thread.waiting
        return max(traces / self.config.max_open_traces, size / self.config.max_bytes)

    def forget(self, traces: Collection[str]) -> None:
        """Forget incomplete traces that another process receives again from the start."""
        if not traces:
            return

        async def forget() -> None:
            self.engine.thread.drain()  # items that were put before must not follow
            self.gatherer.forget(traces)

        self.engine.thread.run(forget(), _FORGET_SECONDS)

    def forget_judged(self, sources: Set[Hashable]) -> None:
        """Forget the judged traces of sources that another process has read meanwhile."""
        self.engine.thread.call(lambda: self.gatherer.forget_judged(sources))

    def close(self, deadline: float) -> None:
        """Score and deliver until the deadline (`time.monotonic` seconds); count the rest."""
        for watch in self._watches:
            watch.stop()
        self.engine.shutdown(deadline)
        self.engine.close(deadline)

    def _new_gatherer(self) -> TraceGatherer:
        self.gatherer = TraceGatherer(
            assembly_limits(self.config),
            quiet=quiet_seconds(self.config),
            idle=self.options.idle,
            opens_run=self.opens_run,
            room=self.room,
            remember=self.options.remember,
            judged=self._judged if self.config.store is None else None,
        )
        return self.gatherer

    def room(self) -> float:
        """Return how many traces can be judged now without a loss in a queue behind them."""
        steps, pending = self.engine.steps, self.engine.ledger.pending
        if self.config.store is not None:  # the store keeps runs until the queues have room
            return inf
        each = max(1, len(self.config.rules))
        queued = steps.evaluator.scheduler.room // each
        if len(self.outbox) >= _MOST_OUTGOING:
            return 0
        return min(queued if pending else max(1, queued), steps.fan_out.room - pending)

    def opens_run(self, span: SpanRecord) -> bool:
        operation = self._dialects.read(span)
        return operation is not None and operation.kind in _INVOCATIONS

    def _metrics(self, held_spans: HeldSpans | None) -> Metrics:
        return Metrics(
            self.meter,
            lambda: self.engine.steps.stats(),
            queue_size=lambda: self.engine.queue_size,
            held=lambda: 0 if held_spans is None else len(held_spans),
            exports=lambda: self.engine.steps.fan_out.stats(),
            scales=self._scales,
            failing=lambda: self.engine.ledger.failures.failing(),
            by=self.config.metric_attributes,
        )


class _Queue(DurableQueue):
    """Notes the evaluations of judged traces."""

    def __init__(self, judged: JudgedTraces, *args: Any) -> None:
        super().__init__(*args)
        self._judged = judged

    def keep(self, group: SpanGroup, jobs: Sequence[Any]) -> None:
        super().keep(group, jobs)
        made = evaluations_of(jobs)
        if made or not jobs:  # conversations are not judged again
            self._judged.note(group, made)

    def add(self, job: Any) -> None:
        super().add(job)
        self._judged.note_more(evaluations_of([job]))


class _Tracker(_Queue, OutcomeTracker):
    """The same with Kafka."""


class _NotingAttacher(Attacher):
    """Notes every evaluation for `/stats`."""

    def __init__(self, recent: RecentScores, *ways: Any, proposed: bool = False) -> None:
        super().__init__(*ways, proposed=proposed)
        self._recent = recent

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach and note an evaluation. Never raises."""
        super().attach(run, evaluation, opened)
        try:
            self._recent.note(run, evaluation)
        except Exception:
            _logger.exception("an evaluation of %s could not be recorded", evaluation.scorer_id)


def _scales(config: Config) -> dict[str, float | None]:
    return {rule.name: rule.facts.scale for rule in config.rules}
