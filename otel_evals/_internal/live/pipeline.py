"""The pipeline of an application: capture, the hold in front of the exporters, and the engine.

The application's threads only run `spans` (a SpanProcessor), `log_records` (a LogRecordProcessor) and the
exporters that `hold` wraps; everything else happens on the engine's thread.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry import _logs, metrics
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import TracerProvider

from otel_evals import semconv
from otel_evals._internal.accounting.counters import Health, Stats
from otel_evals._internal.accounting.explanation import Explanation
from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.attach.observed import Measured
from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from otel_evals._internal.capture.items import OpenSpans
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.config.loader import start_watches
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.validation import FOREVER
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.engine.engine import Engine
from otel_evals._internal.engine.outlets import new_attacher, new_evaluation_spans, new_metrics
from otel_evals._internal.model.convention import Conventions, load_conventions
from otel_evals._internal.model.spans import size_of_span
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.util.error_log import safely
from otel_evals._internal.util.threads import are_greenlets
from otel_evals._internal.util.version import __version__
from otel_evals.errors import ConfigError

if TYPE_CHECKING:
    from otel_evals._internal.engine.journal.runs import RunJournal

_LOOK_SECONDS = 0.1
"""Seconds until the next look for the capacity to score a run that an earlier process left."""
_MOMENT_SECONDS = 0.1
"""Seconds for exporting held spans after a shutdown that used all its time."""
_RELEASE_SECONDS = 0.5
"""Seconds for exporting spans after a flush that used all its time."""


class Pipeline:
    """Scores the spans captured by its processors.

    Args:
        config: rules, destinations, limits.
        tracer_provider: for evaluation spans; the global one by default.
        evaluation_tracer_provider: a separate one for evaluation spans outside the judged traces.
        logger_provider: for evaluation events; the global one by default.
        meter_provider: for metrics; the global one by default.
        conventions: read spans; all installed ones by default.

    Raises:
        ConfigError: a rule has `isolation="process"`, but gevent has replaced threads.
    """

    def __init__(
        self,
        config: Config,
        *,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        evaluation_tracer_provider: TracerProvider | None = None,
        conventions: Conventions | None = None,
    ) -> None:
        _check_threads(config)
        self.config = config
        self._closed = False
        self._evaluation_provider = evaluation_tracer_provider
        self._scores = PendingScores()
        self._exporters: list[ScoringSpanExporter] = []
        self.conventions = conventions = load_conventions() if conventions is None else conventions
        """Read spans, and know the instrumentation scopes seen so far."""
        meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, meter_provider)
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, logger_provider)
        spans = new_evaluation_spans(config, tracer_provider, evaluation_tracer_provider)
        scores = self._scores if config.span_attributes else None
        self._attacher = attacher = new_attacher(config, spans, logger_provider, scores)
        open_spans = OpenSpans()
        self._resuming: list[asyncio.Future[None]] = []
        self._journal = None if config.journal is None else _journal(config.journal.absolute())
        self._engine = Engine(config, conventions, attacher, open_spans=open_spans, source=self._journal)
        self.spans = CaptureSpans(
            self._engine.thread,
            conventions,
            config.ceiling,
            self._scores.expect if config.holds else None,
            trust_remote=config.trust_remote,
            nested_targets=any(rule.scope == "agent" for rule in config.rules),
            open_spans=open_spans,
            flush=self.force_flush,
            close=self.shutdown,
        )
        self.log_records = CaptureLogRecords(self._engine.thread, self.spans.keeps, conventions.claims_log)
        if config.metrics:
            # Last, since a reader may call back at once. A meter keeps its instruments and their callbacks
            # for the life of the process.
            me = weakref.ref(self)
            attacher.measure_with(new_metrics(config, meter, lambda: _measured(me())))
        self._watches = start_watches(config.sections, config.destinations, lambda: logger)
        _all.add(self)

    @property
    def engine(self) -> Engine:
        """The engine that scores."""
        return self._engine

    def resume(self) -> None:
        """Score the runs that earlier processes left in the journal."""
        if self._journal is not None:
            journal = self._journal
            # The loop keeps only weak references to tasks.
            begin = lambda: self._resuming.append(asyncio.ensure_future(self._resume(journal)))  # noqa: E731
            self._engine.thread.call(begin)

    async def _resume(self, journal: RunJournal) -> None:
        """Put as many runs at once as the rules' queues take, and the next when these have arrived there."""
        # A quarter: the rest is for the runs of this process.
        most, most_bytes = max(1, self.config.limits.queue_size // 4), self.config.limits.max_bytes // 4
        put = size = 0
        for left in journal.left():
            self._engine.resumed.update(item.span.span_id for item in left if not item.owner)
            self._engine.put_all(left)
            put, size = put + 1, size + sum(size_of_span(item.span) for item in left)
            if put >= most or size >= most_bytes:
                await asyncio.sleep(self.config.grace + _LOOK_SECONDS)
                while self._engine.capacity() < put:  # noqa: ASYNC110  # nothing reports it
                    await asyncio.sleep(_LOOK_SECONDS)
                put = size = 0

    def trace_with(self, tracer_provider: TracerProvider) -> None:
        """Record evaluation spans with the provider of the judged spans."""
        self._attacher.record_with(
            new_evaluation_spans(self.config, tracer_provider, self._evaluation_provider)
        )

    def hold(self, exporter: SpanExporter) -> ScoringSpanExporter:
        """Wrap an exporter to add scores to judged spans as attributes."""
        config = self.config
        wrapped = ScoringSpanExporter(
            exporter,
            self._scores,
            hold=config.hold,
            limit=config.limits.max_held_spans,
            max_bytes=config.limits.max_bytes,
            context=private_context(config.redact, content=config.capture_content),
        )
        self._exporters.append(wrapped)
        return wrapped

    def stats(self) -> Stats:
        """All counters at this moment."""
        return replace(self._engine.stats(), remote=dict(self.spans.remote))

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """Explain a trace; see `otel_evals.explain`."""
        return self._engine.explain(trace_id, trace_state)

    def health(self, stalled_after: float = 10.0) -> Health:
        """Return the health; see `otel_evals.health`."""
        return self._engine.health(stalled_after, closed=self._closed)

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """Counts of deliveries, by destination."""
        return self._engine.destination_stats()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score and deliver everything captured so far; returns False after a timeout.

        Judged spans that have ended are then released, scored or not. Conversations that are not idle yet
        keep waiting.
        """
        if self._closed or self._engine.here:
            return False
        timeout = _seconds(timeout_millis)
        deadline, began = time.monotonic() + timeout, time.time_ns()
        done = self._engine.flush(timeout)
        # After scoring: held spans leave with the scores that it resulted in.
        self._scores.let_pass(began)
        return self._released(max(deadline, time.monotonic() + _RELEASE_SECONDS)) and done

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Score runs until the timeout, count the rest as dropped, release all held spans, and stop.

        Conversations that are not idle yet are judged as they are.

        Args:
            timeout_millis: the configured `shutdown_timeout` by default.
        """
        if self._closed:
            return
        timeout = self.config.shutdown_timeout if timeout_millis is None else _seconds(timeout_millis)
        deadline = time.monotonic() + timeout
        try:
            self._engine.shutdown(deadline)
        finally:
            # Also after an exception: the held spans have to leave.
            self._closed = True
            for watch in self._watches:
                safely(watch.stop, "a section's work could not be stopped")
            self._scores.close()
            self._engine.close(deadline)
            if self._journal is not None:
                # After the engine, which reports finished traces until its end.
                self._journal.close()
            self._released(time.monotonic() + _MOMENT_SECONDS)

    def _released(self, deadline: float) -> bool:
        """Wait until released spans are exported; a slow exporter continues afterwards."""
        released = [exporter.wait_until_released(deadline) for exporter in self._exporters]
        return all(released)

    def _after_fork_in_child(self) -> None:
        """Reset in a forked child, which scores only what it captures itself."""
        if self._attacher.metrics is not None:
            self._attacher.metrics.estimates.after_fork()
        if self._journal is not None:
            self._journal.after_fork_in_child()
        self._engine.after_fork_in_child()
        if self._closed:
            self._engine.thread.backlog.close()
        self.spans.reset()
        for watch in self._watches:
            safely(watch.start, "a section's work could not be started")
        for exporter in self._exporters:
            exporter.after_fork()


def _journal(folder: Path) -> RunJournal:
    from otel_evals._internal.engine.journal.journal import Journal  # imported only if used
    from otel_evals._internal.engine.journal.runs import RunJournal

    return RunJournal(Journal(folder))


def _check_threads(config: Config) -> None:
    """Refuse scoring processes under gevent: its threads cannot wait for a pipe."""
    for number, rule in enumerate(config.rules):
        if rule.isolation == "process" and are_greenlets():
            problem = "'process' does not work where gevent has replaced threads: leave it out"
            raise ConfigError(f"rules[{number}].isolation", problem)


def _seconds(millis: int) -> float:
    return min(millis, FOREVER * 1000) / 1000


def _measured(pipeline: Pipeline | None) -> Measured:
    """Return the counters of a pipeline, or none once it is gone."""
    if pipeline is None:
        return Measured()
    engine, held = pipeline.engine, sum(each.held for each in pipeline._exporters)
    return Measured(
        pipeline.stats(), engine.queue_size, held, engine.destination_stats(), engine.failing_rules()
    )


_all: weakref.WeakSet[Pipeline] = weakref.WeakSet()
"""All live pipelines. Fork handlers are permanent, so one set of handlers serves all of them."""


def _after_fork_in_child() -> None:
    for pipeline in list(_all):
        pipeline._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
