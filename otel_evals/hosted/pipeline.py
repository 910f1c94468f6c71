"""The application's half of a pipeline whose engine has a process of its own.

Capture, the hold in front of the exporter and the application's own providers stay; reading, sampling,
scoring and delivery are elsewhere, so what they cost and hold never touches the application's threads.
"""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import TracerProvider

from otel_evals import semconv
from otel_evals.attachment import Attacher, Metrics, ScoringSpanExporter, Verdicts
from otel_evals.capture import CaptureLogRecords, CaptureSpans
from otel_evals.config import Config
from otel_evals.dialect import load_dialects
from otel_evals.engine import Health, RuleStats, Stats, gather_seconds
from otel_evals.errors import ConfigError
from otel_evals.explanation import Explanation, explain_unseen
from otel_evals.export import DestinationStats
from otel_evals.hosted.books import buried, total, totals, undelivered
from otel_evals.hosted.link import Link
from otel_evals.hosted.relay import Attached, Books, Report
from otel_evals.inspection import losses_of, trace_id_of
from otel_evals.isolation.child import WorkerDiedError
from otel_evals.isolation.portable import NotPortableError, pack
from otel_evals.judging import rule_names
from otel_evals.pipeline import Pipeline
from otel_evals.version import __version__

__all__ = ["HostedPipeline"]

_logger = logging.getLogger(__name__)
_ANSWER_SECONDS = 2.0
_FORGOTTEN = "The engine's process died {} time(s); what it knew of earlier traces ended with it."


class HostedPipeline(Pipeline):
    """A pipeline with another engine behind the same face: nothing of `Pipeline`'s own stages is built here.

    Args:
        config: rules, destinations, limits; all of it must be able to travel to another process.
        tracer_provider: records the evaluation spans; the global one by default.
        logger_provider: takes the evaluation events; the global one by default.
        meter_provider: takes the metrics; the global one by default.

    Raises:
        ConfigError: a rule or a destination cannot be sent to another process.
    """

    def __init__(
        self,
        config: Config,
        *,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self.config = config
        self._closed = False
        self._exporters: list[ScoringSpanExporter] = []
        self._verdicts = Verdicts()
        self._link = Link(
            _packed(config),
            self._receive,
            self._note_death,
            gather=gather_seconds(durable=config.store is not None),
        )
        self._past = self._new_books().stats
        self._books = self._new_books()
        self._past_destinations: Mapping[str, DestinationStats] = {}
        tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, tracer_provider)
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, logger_provider)
        meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, meter_provider)
        self._attacher = Attacher(
            tracer if config.evaluation_spans else None,
            logger if config.evaluation_events else None,
            self._metrics(meter) if config.metrics else None,
            self._verdicts if config.span_attributes else None,
        )
        self.spans = CaptureSpans(
            self._link,
            load_dialects(),
            config.ceiling,
            self._verdicts.expect if config.holds else None,
            nested_targets=any(rule.scope == "agent" for rule in config.rules),
            flush=self.force_flush,
            close=self.shutdown,
        )
        self.log_records = CaptureLogRecords(self._link, self.spans.keeps)
        me = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _after_fork(me))

    @property
    def pid(self) -> int | None:
        """The engine's process; None while there is none."""
        return self._link.pid

    @property
    def deaths(self) -> int:
        """How often the engine's process died and was started again."""
        return self._link.deaths

    def hold(self, exporter: SpanExporter) -> ScoringSpanExporter:
        """Wrap an exporter, so that judged spans carry their scores as attributes."""
        config = self.config
        wrapped = ScoringSpanExporter(exporter, self._verdicts, hold=config.hold, limit=config.hold_limit)
        self._exporters.append(wrapped)
        return wrapped

    def stats(self) -> Stats:
        """The books as the engine's process last reported them, at most a fraction of a second ago."""
        stats: Stats = total(self._past, self._books.stats)
        refused = self._link.refused
        return total(stats, Stats(losses={"intake_full": refused})) if refused else stats

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """What became of the scored runs, by destination."""
        return totals(self._past_destinations, self._books.destinations)

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """What happened to a trace; see `otel_evals.explain`."""
        trace = trace_id_of(trace_id)
        answer = self._asked("explain", trace, trace_state) if not self._closed else None
        if not isinstance(answer, Explanation):
            return explain_unseen(trace, self.config.ceiling, trace_state, (self._silence(),))
        if answer.verdict == "unseen" and self.deaths:
            return replace(answer, notes=(*answer.notes, _FORGOTTEN.format(self.deaths)))
        return answer

    def health(self, stalled_after: float = 10.0) -> Health:
        """Whether scoring goes on; see `otel_evals.health`. While the engine's process starts, it does."""
        link, losses = self._link, losses_of(self.stats(), self.destination_stats())
        answer = self._asked("health", stalled_after) if link.ready else None
        if isinstance(answer, Health):
            return replace(answer, losses=losses)
        if self._closed or not link.started or (not link.ready and not link.deaths):
            status: Literal["healthy", "idle"] = "healthy" if link.started and not self._closed else "idle"
            return Health(status=status, waiting=link.waiting, losses=losses)
        problem = f"the engine's process does not answer; it died {link.deaths} times"
        return Health(status="stalled", problem=problem, waiting=link.waiting, losses=losses)

    def _asked(self, name: str, *arguments: Any) -> Any:
        return self._link.ask(name, *arguments, timeout=_ANSWER_SECONDS) if self._link.started else None

    def _silence(self) -> str:
        """Why the engine's process said nothing."""
        if self._closed:
            return "Scoring was shut down; what the engine's process knew ended with it."
        return "The engine's process does not answer." if self._link.started else "Nothing was captured yet."

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score everything captured so far and deliver it; whether that was done in time.

        Args:
            timeout_millis: milliseconds it may take.
        """
        if self._closed or self._link.here:
            return False
        done = (
            not self._link.started
            or self._ask("force_flush", timeout_millis, timeout_millis / 1000 + 0.5) is True
        )
        self._verdicts.let_pass(time.time_ns())
        for exporter in self._exporters:
            exporter.release()
        return done

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Score what can be scored in time, count the rest as dropped, release what is held, and stop.

        Args:
            timeout_millis: milliseconds it may take; the configured `shutdown_timeout` by default.
        """
        if self._closed:
            return
        timeout = self.config.shutdown_timeout if timeout_millis is None else timeout_millis / 1000
        deadline = time.monotonic() + timeout
        self._closed = True
        try:
            if self._link.started and not self._link.here:
                self._ask("shutdown", int(timeout * 1000), timeout + 0.5)
        finally:
            self._verdicts.close()
            self._link.stop(max(0.5, deadline - time.monotonic()))

    def _ask(self, name: str, millis: int, timeout: float) -> Any:
        try:
            return self._link.ask(name, millis, timeout=timeout)
        except Exception:
            _logger.exception("the engine's process failed to %s", name)
            return None

    def _metrics(self, meter: metrics.Meter) -> Metrics:
        return Metrics(
            meter,
            self.stats,
            queue_size=lambda: self._link.waiting + self._books.pending,
            held=lambda: sum(e.held for e in self._exporters),
            exports=lambda: {
                name: {"exported": s.exported, "failed": s.failed, "dropped": s.dropped}
                for name, s in self.destination_stats().items()
            },
        )

    # --- on the link's threads ---

    def _receive(self, report: Report) -> None:
        for item in report.items:
            if isinstance(item, Attached):
                self._attach(item)
            else:
                self._attacher.release(item.trace_id, item.span_id)
        self._books = report.books

    def _attach(self, item: Attached) -> None:
        evaluation, opened = item.evaluation, None
        try:
            if item.began and self.config.evaluation_spans:
                start = evaluation.time - int(evaluation.duration * 1e9)
                opened = self._attacher.open(item.run, evaluation.span_id, evaluation.scorer_id, start)
            self._attacher.attach(item.run, evaluation, opened)
        except Exception:
            _logger.exception("an evaluation of %s could not be attached", evaluation.scorer_id)

    def _note_death(self, error: WorkerDiedError, sent: int) -> None:
        """Close the books of a process that died and let the spans go that waited for it."""
        books = self._books
        lost = sent - books.received + books.open + (self._link.waiting if self._closed else 0)
        reason = "shutdown" if self._closed else error.error_type
        self._past = total(self._past, buried(books, lost, reason, spooled=self.config.store is not None))
        self._past_destinations = totals(self._past_destinations, undelivered(books, reason))
        self._books = self._new_books()
        self._verdicts.let_pass(time.time_ns())
        for exporter in self._exporters:
            exporter.release()

    def _new_books(self) -> Books:
        stats = Stats(rules={name: RuleStats() for name in rule_names(self.config.rules)})
        return Books(stats=stats, destinations={}, received=0, open=0, pending=0)

    def _after_fork(self) -> None:
        """A forked child has its own captures scored by a process of its own."""
        self._link.after_fork()
        self.spans.reset()
        self._past, self._books = self._new_books().stats, self._new_books()
        self._past_destinations = {}
        for exporter in self._exporters:
            exporter.after_fork()


def _packed(config: Config) -> bytes:
    for field, things in (("rules", config.rules), ("destinations", config.destinations)):
        for index, thing in enumerate(things):
            _pack(f"{field}[{index}]", thing)
    return _pack("isolation", config)


def _pack(field: str, thing: object) -> bytes:
    try:
        return pack(thing)
    except NotPortableError as error:
        raise ConfigError(field, f"with isolation='process' it {error}") from None


def _after_fork(me: weakref.ref[HostedPipeline]) -> None:
    pipeline = me()
    if pipeline is not None:
        pipeline._after_fork()
