"""Wires the stages: capture, assembly, sampling, engine, attachment, export. Starts, flushes and stops them.

The application's threads only touch `spans` (a SpanProcessor), `log_records` (a LogRecordProcessor) and
the exporters that `hold` wraps; all else happens on the engine's thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from anyio.to_thread import current_default_thread_limiter
from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import TracerProvider

from otel_evals import semconv
from otel_evals.assembly.build import find_runs
from otel_evals.assembly.live import Assembler, Closed, Limits
from otel_evals.assembly.scattered import UnfinishedTurns
from otel_evals.assembly.whole import closed_with, read_again
from otel_evals.attachment import Attacher, Metrics, ScoringSpanExporter, Verdicts
from otel_evals.capture import CaptureLogRecords, CaptureSpans, EndedSpan, LogOfSpan
from otel_evals.config import Config
from otel_evals.conversing import Conversing
from otel_evals.dialect import Dialects, load_dialects
from otel_evals.engine import Accounts, EngineLoop, Health, LossLog, Stats, Stories, gather_seconds
from otel_evals.explanation import Explanation
from otel_evals.export import DestinationStats, FanOut
from otel_evals.inspection import Inspector
from otel_evals.judging import Judging, rule_names
from otel_evals.model import Run, ScoredRun, SpanRecord
from otel_evals.version import __version__

if TYPE_CHECKING:
    from otel_evals.store.durable import Durable

__all__ = ["Pipeline"]

_logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0


class Pipeline:
    """Scores what its span processor captures.

    Args:
        config: rules, destinations, limits.
        tracer_provider: records the evaluation spans; the global one by default.
        logger_provider: takes the evaluation events; the global one by default.
        meter_provider: takes the metrics; the global one by default.
        dialects: who reads spans; all that are installed by default.
        attacher: attaches outcomes in place of the one that uses these providers.
    """

    def __init__(
        self,
        config: Config,
        *,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        dialects: Dialects | None = None,
        attacher: Attacher | None = None,
    ) -> None:
        self.config = config
        self._dialects = load_dialects() if dialects is None else dialects
        self._closed = False
        self._exporters: list[ScoringSpanExporter] = []
        self._verdicts = Verdicts()
        self._accounts = Accounts(rule_names(config.rules))
        meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, meter_provider)
        tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, tracer_provider)
        logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, logger_provider)
        self._attacher = attacher or Attacher(
            tracer if config.evaluation_spans else None,
            logger if config.evaluation_events else None,
            self._metrics(meter) if config.metrics else None,
            self._verdicts if config.span_attributes else None,
        )
        self._engine: EngineLoop[EndedSpan | LogOfSpan] = EngineLoop(
            self._handle,
            self._tick,
            self._deliver,
            gather=gather_seconds(durable=config.store is not None),
        )
        self.spans = CaptureSpans(
            self._engine,
            self._dialects,
            config.ceiling,
            self._verdicts.expect if config.holds else None,
            nested_targets=any(rule.scope == "agent" for rule in config.rules),
            flush=self.force_flush,
            close=self.shutdown,
        )
        self.log_records = CaptureLogRecords(self._engine, self.spans.keeps)
        self._build_stages()
        if self._spool is not None and config.store is not None and config.store.exists():
            self._engine.call(self._spool.start)  # what another process left is not to wait for traffic
        me = weakref.ref(self)
        os.register_at_fork(
            before=lambda: _around_fork(me, "before_fork"),
            after_in_parent=lambda: _around_fork(me, "after_fork_in_parent"),
            after_in_child=lambda: _after_fork(me),
        )

    def hold(self, exporter: SpanExporter) -> ScoringSpanExporter:
        """Wrap an exporter, so that judged spans carry their scores as attributes."""
        config = self.config
        wrapped = ScoringSpanExporter(exporter, self._verdicts, hold=config.hold, limit=config.hold_limit)
        self._exporters.append(wrapped)
        return wrapped

    @property
    def intake(self) -> EngineLoop[EndedSpan | LogOfSpan]:
        """Where captured items go in."""
        return self._engine

    @property
    def open_items(self) -> int:
        """Captured spans and log records that are not part of a finished run yet."""
        return self._engine.waiting + self._assembler.open_spans

    def stats(self) -> Stats:
        """The books at this moment."""
        stats = self._accounts.snapshot(self._engine.refused)
        if waiting := self._conversing.waiting:
            stats = replace(stats, conversations={"waiting": waiting})
        return stats if self._spool is None else replace(stats, store=self._spool.stats())

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """What happened to a trace; see `otel_evals.explain`."""
        return self._inspector.explain(trace_id, trace_state)

    def health(self, stalled_after: float = 10.0) -> Health:
        """Whether scoring goes on; see `otel_evals.health`."""
        return self._inspector.health(stalled_after, closed=self._closed)

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """What became of the scored runs, by destination."""
        return self._fan_out.stats()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score everything captured so far and deliver it; whether that was done in time.

        Judged spans that ended by now are not held any longer, scored or not. Conversations are not cut
        short: those that are not idle for long enough still wait.

        Args:
            timeout_millis: milliseconds it may take.
        """
        if self._closed or self._engine.here:
            return False
        timeout = timeout_millis / 1000
        done = self._engine.run(self._flush(time.monotonic() + timeout), timeout + 0.5) is True
        self._verdicts.let_pass(time.time_ns())
        for exporter in self._exporters:
            exporter.release()
        return done

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Score what can be scored in time, count the rest as dropped, release what is held, and stop.

        Conversations that still wait end here.

        Args:
            timeout_millis: milliseconds it may take; the configured `shutdown_timeout` by default.
        """
        if self._closed:
            return
        timeout = self.config.shutdown_timeout if timeout_millis is None else timeout_millis / 1000
        deadline = time.monotonic() + timeout
        try:
            if not self._engine.here:
                flush = self._flush(time.monotonic() + timeout * 0.8, ending=True)
                self._engine.run(flush, timeout * 0.8 + 0.2)
                self._engine.run(self._finish(deadline), deadline - time.monotonic() + 0.2)
        finally:
            self._closed = True
            self._verdicts.close()
            self._engine.stop(max(0.1, deadline - time.monotonic()))
            self._judging.close()
            self._loss_log.close()

    def _build_stages(self) -> None:
        """What lives on the engine's thread; built anew in a forked child."""
        config = self.config
        limits = Limits(
            grace=config.grace,
            max_age=config.max_age,
            max_traces=config.max_open_traces,
            max_spans_per_trace=config.max_spans_per_trace,
            max_bytes=config.max_bytes,
        )
        self._stories = Stories(config.explain_traces)
        self._fan_out = FanOut(config.destinations, told=self._told)
        self._spool = self._open_spool()
        ended = self._spool.note if self._spool is not None else None
        self._assembler = Assembler(limits, self._ignore, self._take_late, ended)
        self._inspector = Inspector(
            config, self._engine, self._accounts, self.stats, self._assembler, self._stories, self._fan_out
        )
        self._turns = UnfinishedTurns()
        self._loss_log = LossLog(self._inspector.losses)
        self._settled = asyncio.Event()
        self._judging = Judging(
            config,
            self._accounts,
            self._stories,
            self._attacher,
            self._fan_out.put,
            self._settled.set,
            self._spool,
        )
        turns = None if self._spool is None else self._spool.turns
        self._conversing = Conversing(config, self._judging, self._accounts, self._stories, turns)
        if self._spool is not None:
            self._spool.scoring = self._judging

    def _open_spool(self) -> Durable | None:
        if self.config.store is None:
            return None
        from otel_evals.store.durable import Durable  # SQLite is loaded where it is used

        return Durable(
            self.config,
            self._engine.call,
            read=lambda spans, links: read_again(spans, self._dialects, links),
            judge=self._judge,
            put=self._fan_out.put_to,
            lacking=self._fan_out.lacking,
            late=lambda trace_id, count: self._ignore("span_late", count, trace_id),
        )

    def _told(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        self._stories.delivered(destination, batch, end)
        if self._spool is not None:
            self._spool.delivered(destination, batch, end)

    def _take_late(self, span: SpanRecord, above: str | None) -> bool:
        return self._spool is not None and self._spool.late(span, above)

    def _metrics(self, meter: metrics.Meter) -> Metrics:
        return Metrics(
            meter,
            self.stats,
            queue_size=lambda: self._engine.waiting + self._accounts.pending,
            held=lambda: sum(e.held for e in self._exporters),
            exports=lambda: {
                name: {"exported": s.exported, "failed": s.failed, "dropped": s.dropped}
                for name, s in self._fan_out.stats().items()
            },
        )

    # --- on the engine's thread ---

    async def _deliver(self) -> None:
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, sum(r.concurrency for r in self.config.rules))
        await asyncio.gather(self._judging.prepare(), self._fan_out.run())

    def _handle(self, items: list[EndedSpan | LogOfSpan]) -> None:
        now = time.monotonic()
        for item in items:
            self._take(item, now)
        self._judge_due(now)

    def _take(self, item: EndedSpan | LogOfSpan, now: float) -> None:
        try:
            self._assembler.add(item, now)
        except Exception:
            _logger.debug("a captured item could not be taken", exc_info=True)
            self._accounts.ignore("span_unreadable" if isinstance(item, EndedSpan) else "log_unreadable")

    def _tick(self) -> float | None:
        now = time.monotonic()
        self._judge_due(now)
        self._assembler.evict_old(now)
        self._conversing.judge_due(now)
        self._loss_log.look()
        looks = (self._assembler.next_due, self._conversing.next_look(now))
        return min((due for due in looks if due is not None), default=now + _TICK_SECONDS)

    def _judge_due(self, now: float) -> None:
        for closed in self._assembler.close_due(now):
            self._judge(closed)
            time.sleep(0)  # offer the interpreter's lock: whoever wants it would wait for 5 ms else
        for run in self._turns.due(now):
            self._judge_whole([run], closed_with([run]))

    def _judge(self, closed: Closed) -> None:
        runs = [r for run in self._read(closed) for r in self._turns.add(run, time.monotonic())]
        self._judge_whole(runs, closed_with(runs, closed))

    def _judge_whole(self, runs: list[Run], closed: Closed) -> None:
        """Judge runs; let go of every span that is neither judged nor part of a turn that goes on."""
        self._conversing.take(runs, time.monotonic())  # first, so that the store is never without them
        kept = self._judging.judge(runs, closed) | self._turns.held
        for span in closed.spans:
            if span.span_id not in kept:
                self._attacher.release(span.trace_id, span.span_id)

    def _read(self, closed: Closed) -> list[Run]:
        trace_id = closed.spans[0].trace_id
        try:
            runs = find_runs(closed.spans, self._dialects, closed.links)
        except Exception:
            _logger.exception("a run could not be read")
            self._ignore("unreadable", 1, trace_id)
            return []
        self._stories.assembled(trace_id, len(closed.spans), runs)
        if not runs:
            self._ignore("nothing_to_judge", 1, trace_id)
        return runs

    def _ignore(self, reason: str, count: int, trace_id: str) -> None:
        self._accounts.ignore(reason, count)
        self._stories.ignored(trace_id, reason, count)

    async def _flush(self, deadline: float, *, ending: bool = False) -> bool:
        self._engine.drain()
        self._judge_due(float("inf"))
        while (left := deadline - time.monotonic()) > 0:
            if ending and self._conversing.judge_due(float("inf")):
                await asyncio.sleep(0)
            if not self._accounts.pending:
                if ending and self._conversing.waiting:
                    continue
                break
            self._settled.clear()
            try:
                await asyncio.wait_for(self._settled.wait(), left)
            except TimeoutError:
                break
        if self._spool is not None:
            await self._spool.all_sent(deadline - time.monotonic())
        delivered = await self._fan_out.force_flush(max(0.0, deadline - time.monotonic()))
        if self._spool is not None:
            delivered = await self._spool.flush(deadline - time.monotonic()) and delivered
        return delivered and not self._accounts.pending

    async def _finish(self, deadline: float) -> None:
        self._judging.abort("shutdown")
        self._conversing.end()
        if self._spool is not None:
            await self._spool.prepare_to_leave((deadline - time.monotonic()) / 2)
        self._assembler.evict_all()
        await self._fan_out.shutdown(max(0.1, deadline - time.monotonic()))
        if self._spool is not None:
            await self._spool.close(max(0.1, deadline - time.monotonic()))

    def _after_fork(self) -> None:
        """A forked child scores what it captures itself; the rest is its parent's."""
        self._engine.after_fork()
        self._judging.disown()
        if self._spool is not None:
            self._spool.leave_to_parent()
        self.spans.reset()
        self._accounts = Accounts(rule_names(self.config.rules))
        self._build_stages()
        for exporter in self._exporters:
            exporter.after_fork()


def _around_fork(me: weakref.ref[Pipeline], step: str) -> None:
    pipeline = me()
    if pipeline is not None and pipeline._spool is not None:
        getattr(pipeline._spool, step)()


def _after_fork(me: weakref.ref[Pipeline]) -> None:
    pipeline = me()
    if pipeline is not None:
        pipeline._after_fork()
