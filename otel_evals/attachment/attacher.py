"""Attaches evaluations in the ways that are switched on."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass

from opentelemetry import trace
from opentelemetry._logs import Logger
from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer

from otel_evals import semconv
from otel_evals.attachment import records
from otel_evals.attachment.hold import Verdicts
from otel_evals.attachment.metrics import Metrics
from otel_evals.marking import mark
from otel_evals.model import Evaluation, Run

__all__ = ["Attacher", "Opened"]


@dataclass(frozen=True, slots=True)
class Opened:
    """An evaluation that has begun."""

    judged: Context
    """The judged span is current in it."""
    span: Span | None
    context: contextvars.Context
    """What the scorer runs in: below the evaluation span, and marked, so that nothing in it is scored."""


class Attacher:
    """Opens an evaluation before its scorer runs and attaches its outcome; on the engine's thread.

    Args:
        tracer: records evaluation spans; None for none.
        logger: takes evaluation events; None for none.
        metrics: records scores; None for none.
        verdicts: hands attributes to the exporters that hold judged spans; None for none.
    """

    def __init__(
        self,
        tracer: Tracer | None,
        logger: Logger | None,
        metrics: Metrics | None,
        verdicts: Verdicts | None,
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._metrics = metrics
        self._verdicts = verdicts

    def open(self, run: Run, span_id: str, scorer_id: str, start_time: int) -> Opened:
        """Begin the evaluation of a span."""
        judged = context = records.judged_context(run, span_id)
        span = None
        if self._tracer is not None:
            span = records.start_span(self._tracer, run, span_id, scorer_id, start_time)
            context = trace.set_span_in_context(span, context)
        return Opened(judged, span, records.attached(mark(context)))

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach an outcome; `opened` is None when its scorer never ran."""
        if self._metrics is not None:
            self._metrics.record(run, evaluation)
        if self._tracer is not None and opened is not None and opened.span is not None:
            records.end_span(self._tracer, opened.span, evaluation)
        if self._logger is not None and evaluation.status in ("scored", "failed"):
            judged = opened.judged if opened else records.judged_context(run, evaluation.span_id)
            records.emit_event(self._logger, run, evaluation, judged)
        if self._verdicts is not None and not run.turns:  # no span is held until its conversation ends
            attributes = records.span_attributes(evaluation)
            self._verdicts.add(int(evaluation.trace_id, 16), int(evaluation.span_id, 16), attributes)

    def abandon(self, opened: Opened, reason: str) -> None:
        """End what was begun without an outcome: another attempt will be made."""
        if opened.span is not None:
            opened.span.set_attribute(semconv.EVALUATION_OUTCOME, "spooled")
            opened.span.set_attribute(semconv.EVALUATION_REASON, reason)
            opened.span.end()

    def release(self, trace_id: str, span_id: str) -> None:
        """Let a span go: nothing more will be attached to it."""
        if self._verdicts is not None:
            self._verdicts.finish(int(trace_id, 16), int(span_id, 16))
