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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from opentelemetry import _logs, metrics, trace
from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Span, TracerProvider

from otel_evals import semconv
from otel_evals.assembly.build import find_runs, subruns
from otel_evals.assembly.live import Assembler, Closed, Limits
from otel_evals.attachment import Metrics, ScoringSpanExporter, Verdicts, records
from otel_evals.capture import CaptureLogRecords, CaptureSpans, EndedSpan, LogOfSpan, mark
from otel_evals.config import Config, Rule
from otel_evals.dialect import Dialects, load_dialects
from otel_evals.engine import Accounts, EngineLoop, Job, Lane, Stats
from otel_evals.export import FanOut
from otel_evals.model import (
    Dropped,
    Evaluation,
    NotScored,
    Outcome,
    Run,
    Sampled,
    Score,
    ScoredRun,
    ScorerFailure,
    StepRecord,
)
from otel_evals.sampling import picks, recorded_probability
from otel_evals.version import __version__

__all__ = ["Pipeline"]

_logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Ticket:
    """A run and what is still to come for it."""

    run: Run
    target: str
    left: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)
    spans: dict[int, Span] = field(default_factory=dict)


class Pipeline:
    """Scores what its span processor captures.

    Args:
        config: rules, destinations, limits.
        tracer_provider: records the evaluation spans; the global one by default.
        logger_provider: takes the evaluation events; the global one by default.
        meter_provider: takes the metrics; the global one by default.
        dialects: who reads spans; all that are installed by default.
    """

    def __init__(
        self,
        config: Config,
        *,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        dialects: Dialects | None = None,
    ) -> None:
        self.config = config
        self._dialects = load_dialects() if dialects is None else dialects
        self._rules = {_name(rule): rule for rule in config.rules}
        self._accounts = Accounts(self._rules)
        self._tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, tracer_provider)
        self._otel_logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, logger_provider)
        self._verdicts = Verdicts()
        self._exporters: list[ScoringSpanExporter] = []
        self._closed = False
        self._engine: EngineLoop[EndedSpan | LogOfSpan] = EngineLoop(self._handle, self._tick, self._deliver)
        self.spans = CaptureSpans(
            self._engine,
            self._dialects,
            config.ceiling,
            self._verdicts.expect if config.span_attributes else None,
            nested_targets=any(rule.scope == "agent" for rule in config.rules),
            flush=self.force_flush,
            close=self.shutdown,
        )
        self.log_records = CaptureLogRecords(self._engine, self.spans.keeps)
        self._build_stages()
        self._metrics = self._build_metrics(meter_provider) if config.metrics else None
        me = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _after_fork(me))

    def hold(self, exporter: SpanExporter) -> ScoringSpanExporter:
        """Wrap an exporter, so that judged spans carry their scores as attributes."""
        config = self.config
        wrapped = ScoringSpanExporter(exporter, self._verdicts, hold=config.hold, limit=config.hold_limit)
        self._exporters.append(wrapped)
        return wrapped

    def stats(self) -> Stats:
        """The books at this moment."""
        if self._engine.refused:
            refused, self._engine.refused = self._engine.refused, 0
            self._accounts.ignore("intake_full", refused)
        return self._accounts.snapshot()

    def destination_stats(self) -> Mapping[str, Any]:
        """What became of the scored runs, by destination."""
        return self._fan_out.stats()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Score everything captured so far and deliver it; whether that was done in time.

        Args:
            timeout_millis: milliseconds it may take.
        """
        if self._closed or self._engine.here:
            return False
        timeout = timeout_millis / 1000
        return self._engine.run(self._flush(time.monotonic() + timeout), timeout + 0.5) is True

    def shutdown(self, timeout_millis: int | None = None) -> None:
        """Score what can be scored in time, count the rest as dropped, release what is held, and stop.

        Args:
            timeout_millis: milliseconds it may take; the configured `shutdown_timeout` by default.
        """
        if self._closed:
            return
        timeout = self.config.shutdown_timeout if timeout_millis is None else timeout_millis / 1000
        deadline = time.monotonic() + timeout
        try:
            if not self._engine.here:
                self._engine.run(self._flush(time.monotonic() + timeout * 0.8), timeout * 0.8 + 0.2)
                self._engine.run(self._finish(deadline), deadline - time.monotonic() + 0.2)
        finally:
            self._closed = True
            self._verdicts.close()
            self._engine.stop(max(0.1, deadline - time.monotonic()))
            self._report_losses()

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
        self._assembler = Assembler(limits, self._accounts.ignore)
        self._lanes = {name: Lane(rule, self._begin, self._end) for name, rule in self._rules.items()}
        self._fan_out = FanOut(config.destinations)
        self._losing = False
        self._settled = asyncio.Event()

    def _build_metrics(self, meter_provider: MeterProvider | None) -> Metrics:
        meter = metrics.get_meter(semconv.SCOPE_NAME, __version__, meter_provider)
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
        limiter.total_tokens = max(limiter.total_tokens, sum(r.concurrency for r in self._rules.values()))
        await self._fan_out.run()

    def _handle(self, items: list[EndedSpan | LogOfSpan]) -> None:
        now = time.monotonic()
        for item in items:
            self._assembler.add(item, now)
        self._judge_due(now)

    def _tick(self) -> float | None:
        now = time.monotonic()
        self._judge_due(now)
        self._assembler.evict_old(now)
        due = self._assembler.next_due
        return now + _TICK_SECONDS if due is None else due

    def _judge_due(self, now: float) -> None:
        for closed in self._assembler.close_due(now):
            try:
                self._judge(closed)
            except Exception:
                _logger.exception("a run could not be read")
                self._accounts.ignore("unreadable")

    def _judge(self, closed: Closed) -> None:
        """Read the runs, ask the rules, queue the jobs; let go of every span that no job aims at."""
        runs = find_runs(closed.spans, self._dialects, closed.links)
        if not runs:
            self._accounts.ignore("nothing_to_judge")
        jobs: list[Job] = []
        for run in runs:
            if run.trace_flags & 1:
                self._accounts.accept()
                jobs += self._jobs(run)
            else:
                self._accounts.ignore("trace_not_sampled")
        targets = {job.ticket.target for job in jobs}
        for span in closed.spans:
            if span.span_id not in targets:
                self._verdicts.finish(int(span.trace_id, 16), int(span.span_id, 16))
        for job in jobs:
            self._queue(job)

    def _jobs(self, run: Run) -> list[Job]:
        """The jobs the rules make of a run: one per rule, or one for each agent in it."""
        jobs = []
        tickets: dict[str, _Ticket] = {}
        for name, rule in self._rules.items():
            for part in [run] if rule.scope == "run" else subruns(run):
                sampled = self._decide(name, rule, part)
                if sampled is not None:
                    ticket = tickets.setdefault(part.root_span_id, _Ticket(part, part.root_span_id))
                    ticket.left += 1
                    jobs.append(Job(rule, part, sampled, ticket))
        return jobs

    def _decide(self, name: str, rule: Rule, run: Run) -> Sampled | None:
        try:
            applies = rule.when is None or bool(rule.when(run))
            chance = rule.sample.chance(run) if applies else None
        except Exception:
            _logger.warning("a condition of rule %s failed", name, exc_info=True)
            self._accounts.skip(name, "predicate_failed")
            return None
        if chance is None:
            self._accounts.skip(name, "not_applicable")
            return None
        if not picks(chance.probability, int(run.trace_id, 16), run.trace_state):
            self._accounts.skip(name, "sampled_out")
            return None
        self._accounts.sample(name)
        return Sampled(recorded_probability(chance, run.trace_state), str(rule.sample))

    def _queue(self, job: Job) -> None:
        waiting = sum(lane.waiting for lane in self._lanes.values())
        if waiting >= self.config.queue_size:
            job.ended = True
            self._end(job, Dropped(reason="queue_full"))
        else:
            self._lanes[_name(job.rule)].offer(job)

    def _begin(self, job: Job) -> None:
        """Open the evaluation span and prepare the context in which the scorer runs."""
        context = records.judged_context(job.run, job.ticket.target)
        if self.config.evaluation_spans:
            span = records.start_span(
                self._tracer, job.run, job.ticket.target, job.rule.scorer.id, job.started
            )
            job.ticket.spans[id(job)] = span
            context = trace.set_span_in_context(span, context)
        job.context = records.attached(mark(context))

    def _end(self, job: Job, outcome: Outcome) -> None:
        evaluation = self._evaluation(job, outcome)
        self._accounts.settle(_name(job.rule), evaluation)
        ticket: _Ticket = job.ticket
        try:
            self._attach(job, evaluation)
        except Exception:
            _logger.exception("an evaluation of %s could not be attached", evaluation.scorer_id)
        ticket.evaluations.append(evaluation)
        ticket.left -= 1
        if ticket.left == 0:
            self._verdicts.finish(int(job.run.trace_id, 16), int(ticket.target, 16))
            self._fan_out.put(ScoredRun(run=ticket.run, evaluations=tuple(ticket.evaluations)))
        if isinstance(outcome, Dropped) and not self._losing:
            self._losing = True
            _logger.warning("sampled runs are being dropped (%s); stats() has the counts", outcome.reason)
        if self._accounts.pending == 0:
            self._settled.set()

    def _evaluation(self, job: Job, outcome: Outcome) -> Evaluation:
        scorer, run = job.rule.scorer, job.run
        identity = f"{run.trace_id}:{job.ticket.target}:{scorer.id}:{scorer.version}"
        return Evaluation(
            evaluation_id=sha256(identity.encode()).hexdigest()[:32],
            scorer_id=scorer.id,
            scorer_version=scorer.version,
            direction=scorer.direction,
            trace_id=run.trace_id,
            span_id=job.ticket.target,
            outcome=outcome if self.config.capture_content else _without_content(outcome),
            sampled=job.sampled,
            duration=time.monotonic() - job.began if job.began else 0.0,
            attempts=max(1, job.attempts),
            time=time.time_ns(),
        )

    def _attach(self, job: Job, evaluation: Evaluation) -> None:
        if self._metrics is not None:
            self._metrics.record(job.run, evaluation)
        span = job.ticket.spans.pop(id(job), None)
        if span is not None:
            records.end_span(self._tracer, span, evaluation)
        if self.config.evaluation_events and evaluation.status in ("scored", "failed"):
            records.emit_event(self._otel_logger, job.run, evaluation)
        if self.config.span_attributes:
            trace_id, span_id = int(evaluation.trace_id, 16), int(evaluation.span_id, 16)
            self._verdicts.add(trace_id, span_id, records.span_attributes(evaluation))

    async def _flush(self, deadline: float) -> bool:
        self._engine.drain()
        self._judge_due(float("inf"))
        while self._accounts.pending and (left := deadline - time.monotonic()) > 0:
            self._settled.clear()
            try:
                await asyncio.wait_for(self._settled.wait(), left)
            except TimeoutError:
                break
        delivered = await self._fan_out.force_flush(max(0.0, deadline - time.monotonic()))
        return delivered and not self._accounts.pending

    async def _finish(self, deadline: float) -> None:
        for lane in self._lanes.values():
            lane.abort(Dropped(reason="shutdown"))
        self._assembler.evict_all()
        await self._fan_out.shutdown(max(0.1, deadline - time.monotonic()))

    def _report_losses(self) -> None:
        stats = self.stats()
        dropped = {name: dict(rule.dropped) for name, rule in stats.rules.items() if rule.dropped}
        if dropped:
            _logger.warning("sampled runs were dropped before they were scored: %s", dropped)

    def _after_fork(self) -> None:
        """A forked child scores what it captures itself; the rest is its parent's."""
        self._engine.after_fork()
        self.spans.reset()
        self._accounts = Accounts(self._rules)
        self._build_stages()
        for exporter in self._exporters:
            exporter.after_fork()


def _after_fork(me: weakref.ref[Pipeline]) -> None:
    pipeline = me()
    if pipeline is not None:
        pipeline._after_fork()


def _name(rule: Rule) -> str:
    return rule.scorer.id if rule.scope == "run" else f"{rule.scorer.id}@{rule.scope}"


def _without_content(outcome: Outcome) -> Outcome:
    """The outcome without anything that quotes the run."""
    match outcome:
        case Score():
            return replace(outcome, explanation=None, steps=_bare(outcome.steps))
        case NotScored():
            return replace(outcome, steps=_bare(outcome.steps))
        case ScorerFailure():
            return replace(outcome, message=outcome.error_type, steps=_bare(outcome.steps))
    return outcome


def _bare(steps: tuple[StepRecord, ...]) -> tuple[StepRecord, ...]:
    return tuple(
        replace(s, result=None, prompt=None, context=replace(s.context, text=None) if s.context else None)
        for s in steps
    )
