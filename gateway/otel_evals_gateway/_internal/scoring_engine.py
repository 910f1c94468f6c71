"""The stages of live scoring, fed with what was received instead of what was captured."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from opentelemetry import _logs, metrics, trace

from otel_evals import Config, __version__, semconv
from otel_evals.destinations import DestinationStats, EventPreset
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
    SpanScores,
    Stats,
    assembly_limits,
)
from otel_evals_gateway._internal.options import GatewayOptions
from otel_evals_gateway._internal.recent_scores import RecentScores
from otel_evals_gateway._internal.trace_gatherer import TraceGatherer

__all__ = ["Scoring"]

_logger = logging.getLogger(__name__)
_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_ROOM_SECONDS = 0.01
_MUST_FIT = 25_000
"""Items of one request: half of what may wait."""
_RULES_SECONDS = 30.0
_LET_GO_SECONDS = 5.0


class Scoring:
    """Scores received spans; its methods may be called on any thread.

    Args:
        config: rules, destinations, limits.
        dialects: read spans.
        providers: take evaluation spans, events and metrics; the global ones where they are None.
        held: takes the scores of spans that are held to be forwarded; None if none are.
        held_count: how many are held.

    Raises:
        ConfigError: an option does not go with the gateway.
    """

    def __init__(
        self,
        config: Config,
        dialects: Dialects,
        providers: Providers,
        held: SpanScores | None = None,
        held_count: Callable[[], int] = lambda: 0,
    ) -> None:
        self.config = config
        self.options = config.sections.get("gateway") or GatewayOptions()
        self._dialects = dialects
        self._scales = _scales(config)
        self.putting = 0
        """Requests of which the engine has not got everything: it does not know their traces as open yet."""
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, providers.loggers)
        self.meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, providers.meters)
        self.recent = RecentScores()
        attacher = _NotingAttacher(
            self.recent,
            self._evaluation_spans(providers),
            logger if config.evaluation_events else None,
            self._metrics(held_count) if config.metrics else None,
            held,
            [each for each in config.destinations if isinstance(each, EventPreset)],
        )
        tracked = self.options.kafka is not None
        if tracked and config.store is None and any(rule.scope == "conversation" for rule in config.rules):
            raise ConfigError("store", "is needed for rules of scope conversation with `gateway.kafka`")
        store = OutcomeTracker if tracked else DurableQueue
        self._watches = start_watches(config.sections, config.destinations, lambda: logger)
        self.engine = Engine(config, dialects, attacher, new_gatherer=self._new_gatherer, new_store=store)

    def _evaluation_spans(self, providers: Providers) -> EvaluationSpans | None:
        where = self.config.evaluation_spans
        if not where:
            return None
        tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, providers.tracers)
        return EvaluationSpans(tracer, same_trace=where == "same_trace", own_service=False)

    def use_rules(self, config: Config) -> None:
        """Judge by the rules of this configuration from now on; may take a moment.

        Raises:
            ConfigError: the engine did not take them in time.
        """
        if not self.engine.use_rules(config, _RULES_SECONDS):
            raise ConfigError("rules", "the engine is busy and did not take them: try again later")
        self.config = config
        self._scales.update(_scales(config))

    @property
    def room(self) -> int:
        """How many more items may be put."""
        return self.engine.thread.room

    def has_room(self, count: int) -> bool:
        """Whether the items of one request may be put; more than half of what may wait at once go beyond it.

        They are in memory already, and nothing else is taken until there is room again.
        """
        return self.room >= min(count, _MUST_FIT)

    async def put(self, items: Sequence[IntakeItem], seconds: float) -> bool:
        """Put the items of one request, all or none: whether there was room for them within this time."""
        self.putting += 1
        try:
            deadline = time.monotonic() + seconds
            while not self.has_room(len(items)):
                if time.monotonic() >= deadline:
                    return False
                await asyncio.sleep(_ROOM_SECONDS)
            self.engine.thread.put_all(items)
            return True
        finally:
            self.putting -= 1

    def stats(self) -> Stats:
        """All counters at this moment."""
        return self.engine.stats()

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """Counts of deliveries, by destination."""
        return self.engine.destination_stats()

    def health(self) -> Health:
        """Whether scoring makes progress."""
        return self.engine.health(10.0, closed=False)

    @property
    def backlog(self) -> tuple[float, float]:
        """How much of what may wait does wait, of evaluations and of open traces: from 0 to 1."""
        traces, size = self.gatherer.size
        config = self.config
        gathered = max(traces / config.max_open_traces, size / config.max_bytes)
        return self.engine.ledger.pending / config.queue_size, gathered

    def let_go(self, traces: Collection[str]) -> None:
        """Forget traces that are not complete: another process gets everything of them again."""
        if not traces:
            return

        async def let_go() -> None:
            self.engine.thread.drain()  # nothing that was put before comes after
            self.gatherer.let_go(traces)

        self.engine.thread.run(let_go(), _LET_GO_SECONDS)

    def on_engine(self, function: Callable[[], object]) -> None:
        """Have a function called on the engine's thread."""
        self.engine.thread.call(function)

    def flush(self, seconds: float) -> bool:
        """Score what is complete, or has its root span, and deliver it; whether that was done in time."""
        return self.engine.flush(seconds)

    def close(self, deadline: float) -> None:
        """Score and deliver what can be until the deadline (`time.monotonic` seconds); count the rest."""
        for watch in self._watches:
            watch.stop()
        self.engine.shutdown(deadline)
        self.engine.close(deadline)

    def _new_gatherer(self) -> TraceGatherer:
        self.gatherer = TraceGatherer(
            assembly_limits(self.config),
            quiet=self.options.quiet,
            idle=self.options.idle,
            opens_run=self._opens_run,
        )
        return self.gatherer

    def _opens_run(self, span: SpanRecord) -> bool:
        operation = self._dialects.read(span)
        return operation is not None and operation.kind in _INVOCATIONS

    def _metrics(self, held_count: Callable[[], int]) -> Metrics:
        return Metrics(
            self.meter,
            self.stats,
            queue_size=lambda: self.engine.queue_size,
            held=held_count,
            exports=self.destination_stats,
            scales=self._scales,
            failing=lambda: self.engine.failing(),
            by=self.config.metric_attributes,
        )


class _NotingAttacher(Attacher):
    """Notes every evaluation beside attaching it."""

    def __init__(self, recent: RecentScores, *ways: Any) -> None:
        super().__init__(*ways)
        self._recent = recent

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach an outcome, and note it. Never raises."""
        super().attach(run, evaluation, opened)
        try:
            self._recent.note(run, evaluation)
        except Exception:
            _logger.exception("an evaluation of %s could not be noted", evaluation.scorer_id)


def _scales(config: Config) -> dict[str, float | None]:
    return {rule.name: getattr(rule.scorer, "scale", None) for rule in config.rules}
