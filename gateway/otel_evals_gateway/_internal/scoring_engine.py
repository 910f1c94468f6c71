"""The engine that scores received spans, within the bounds that receivers and Kafka ask for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from opentelemetry import _logs, metrics, trace
from opentelemetry.metrics import Observation

from otel_evals import Config, __version__, semconv
from otel_evals.conventions import Conventions
from otel_evals.errors import ConfigError
from otel_evals.model import OperationKind, SpanRecord
from otel_evals.sdk.config import start_watches
from otel_evals.sdk.pipeline import (
    Engine,
    Gatherer,
    IntakeItem,
    Measured,
    Providers,
    QuietClosing,
    Source,
    assembly_limits,
    new_attacher,
    new_evaluation_spans,
    new_metrics,
)
from otel_evals_gateway._internal.counters import RecentScores
from otel_evals_gateway._internal.held_spans import HeldSpans
from otel_evals_gateway._internal.options import options_of, quiet_seconds

_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_LOOK_SECONDS = 0.01
_FULL = 0.9
"""Fill level of the open traces from which no request is taken; see `has_capacity`."""
_MUST_FIT = 25_000
"""Items of one request: half of the intake's capacity."""
_RULES_SECONDS = 30.0
_CALL_SECONDS = 5.0
_REMEMBERED_PART = 16
"""Of `max_bytes`, for the ids of closed spans: this part."""


class ScoringEngine:
    """Scores received spans; any thread may call it.

    Args:
        config: rules, destinations, limits.
        conventions: read spans.
        providers: take what is emitted; its `meters` are used for all metrics.
        held_spans: get the scores of the spans that are forwarded, if any are held.
        source: notified of finished traces, if none of its spans may be lost.
        closing: creates what decides when traces close, with arguments as of `QuietClosing`.
    """

    def __init__(
        self,
        config: Config,
        conventions: Conventions,
        providers: Providers,
        held_spans: HeldSpans | None = None,
        source: Source | None = None,
        closing: Callable[..., QuietClosing] = QuietClosing,
    ) -> None:
        self.config = config
        self.options = options_of(config)
        self.conventions = conventions
        self._roots_put = 0
        self._counting = threading.Lock()
        self.recent = RecentScores()
        self._held_spans = held_spans
        self.meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, providers.meters)
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, providers.loggers)
        tracers = providers.tracers or trace.get_tracer_provider()
        spans = new_evaluation_spans(config, tracers, own=tracers)
        scores = None if held_spans is None else held_spans.scores
        self._attacher = new_attacher(config, spans, providers.loggers, scores, self.recent.note)
        self._watches = start_watches(config.sections, config.destinations, lambda: logger)
        limits = assembly_limits(config)
        closing_when = closing(
            quiet_seconds(config),
            self.options.idle,
            limits.max_age,
            self.opens_run,
            remember_bytes=limits.max_bytes // _REMEMBERED_PART,
        )
        self.gatherer = Gatherer(limits, closing_when, capacity=lambda: self.engine.capacity())
        self.engine = Engine(
            config, conventions, self._attacher, new_gatherer=lambda: self.gatherer, source=source
        )
        self.meter.create_observable_gauge(
            "otel_evals.gateway.open_traces.usage",
            [lambda _: [Observation(self.usage)]],
            "1",
            "Part of max_open_traces or max_bytes that open traces use",
        )
        if config.metrics:  # last: a reader may call back at once
            self._attacher.measure_with(new_metrics(config, self.meter, self._measured))

    def use_rules(self, config: Config) -> None:
        """Switch to the rules of this configuration; ConfigError if the engine is busy for long."""
        if not self.engine.use_rules(config, _RULES_SECONDS):
            raise ConfigError("rules", "the engine is busy and did not take them: try again later")
        self.config = config

    def _measured(self) -> Measured:
        engine, held = self.engine, 0 if self._held_spans is None else len(self._held_spans)
        return Measured(
            engine.stats(), engine.queue_size, held, engine.destination_stats(), engine.failing_rules()
        )

    @property
    def usage(self) -> float:
        """Fill level of the open traces with the intake, from 0 to 1."""
        traces, size = self.gatherer.usage
        return self._level(traces + self.engine.intake.waiting, size)

    def has_capacity(self, count: int) -> bool:
        """Return True if a request's items fit, and no complete trace is evicted for them.

        A request larger than half of the intake only needs that half free: its items are in memory already,
        and nothing else is accepted until there is capacity again. Traces without their root never cause
        a refusal, because the root may not arrive: they are evicted.
        """
        intake = self.engine.intake
        if intake.capacity < min(count, _MUST_FIT) or (self.gatherer.waits and self.usage >= _FULL):
            return False
        traces, size = self.gatherer.rooted
        roots_on_the_way = self._roots_put - self.gatherer.roots_seen
        return self._level(traces + roots_on_the_way, size + intake.bytes) < _FULL

    def _level(self, traces: int, size: int) -> float:
        return max(traces / self.config.limits.max_open_traces, size / self.config.limits.max_bytes)

    async def put(self, items: Sequence[IntakeItem], seconds: float, *, roots: int = 0) -> bool:
        """Put a request's items, all or none; False if there was no capacity within this time.

        `roots` is the number of root spans among them.
        """
        deadline = time.monotonic() + seconds
        while not self.has_capacity(len(items)):
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        self.put_at_once(items, roots)
        return True

    def put_at_once(self, items: Sequence[IntakeItem], roots: int) -> None:
        """Put items, of which some are root spans, even beyond the capacity."""
        # Receivers put on the event loop, Kafka on its own thread.
        with self._counting:
            self._roots_put += roots
        self.engine.put_all(items)

    def lack(self, items: Sequence[Any]) -> None:
        """Note that `put` found no capacity for items: their runs would be judged on a part."""

        async def note() -> None:
            self.gatherer.lack(items, time.monotonic())

        self.engine.run(note, _CALL_SECONDS)

    def forget(self, traces: Collection[str]) -> None:
        """Forget incomplete traces that another process receives again from the start."""

        async def forget() -> None:
            await self.engine.drained()  # items that were put before must not follow
            self.gatherer.forget(traces)

        if traces:
            self.engine.run(forget, _CALL_SECONDS)

    def opens_run(self, span: SpanRecord) -> bool:
        operation = self.conventions.read(span)
        return operation is not None and operation.kind in _INVOCATIONS

    def close(self, deadline: float) -> None:
        """Score and deliver until the deadline (`time.monotonic` seconds); count the rest."""
        for watch in self._watches:
            watch.stop()
        self.engine.shutdown(deadline)
        self.engine.close(deadline)
