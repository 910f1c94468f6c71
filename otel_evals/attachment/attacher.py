"""Attaches evaluations in the ways that are switched on."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry._logs import Logger
from opentelemetry.context import Context
from opentelemetry.trace import Span, Tracer

from otel_evals import semconv
from otel_evals.attachment import records
from otel_evals.attachment.hold import PendingScores
from otel_evals.attachment.metrics import Metrics
from otel_evals.model import Evaluation, Run, Score, ScorerFailure, SpanRecord
from otel_evals.recursion import mark

__all__ = ["Attacher", "Opened"]

_logger = logging.getLogger(__name__)


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
        scores: hands attributes to the exporters that hold judged spans; None for none.
    """

    def __init__(
        self,
        tracer: Tracer | None,
        logger: Logger | None,
        metrics: Metrics | None,
        scores: PendingScores | None,
    ) -> None:
        self._tracer = tracer
        self._logger = logger
        self._metrics = metrics
        self._scores = scores

    def trace_with(self, tracer: Tracer) -> None:
        """Record evaluation spans with another tracer from now on, where they are recorded at all."""
        if self._tracer is not None:
            self._tracer = tracer

    def open(self, run: Run, span_id: str, scorer_id: str, start_time: int) -> Opened:
        """Begin the evaluation of a span. Never raises: without an evaluation span, scoring goes on."""
        judged = records.judged_context(run, span_id)
        context, span = mark(judged), None
        if self._tracer is not None:
            try:
                span = records.start_span(self._tracer, run, context, scorer_id, start_time)
                context = trace.set_span_in_context(span, context)
            except Exception:  # a span processor of somebody else's
                _logger.warning("no evaluation span for %s", scorer_id, exc_info=True)
        own = contextvars.Context()  # nothing of the engine's, or of whoever woke it
        own.run(context_api.attach, context)
        return Opened(judged, span, own)

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach an outcome, in each way as far as it works. Never raises.

        Args:
            run: what was judged.
            evaluation: the outcome.
            opened: what `open` gave; None when its scorer never ran.
        """
        for way in (self._record, self._end_span, self._emit_event, self._add_attributes):
            try:
                way(run, evaluation, opened)
            except Exception:
                _logger.exception("an evaluation of %s could not be attached", evaluation.scorer_id)

    def abandon(self, opened: Opened, reason: str) -> None:
        """End what was begun without an outcome: another attempt will be made. Never raises."""
        if opened.span is not None:
            opened.span.set_attribute(semconv.EVALUATION_OUTCOME, "stored")
            opened.span.set_attribute(semconv.EVALUATION_REASON, reason)
            try:
                opened.span.end()
            except Exception:  # a span processor of somebody else's
                _logger.warning("an evaluation span could not be ended", exc_info=True)

    def release(self, trace_id: str, span_id: str) -> None:
        """Let a span go: nothing more will be attached to it."""
        if self._scores is not None:
            self._scores.finish(int(trace_id, 16), int(span_id, 16))

    def release_others(self, spans: Iterable[SpanRecord], awaited: Collection[str]) -> None:
        """Let all these spans go but those that something is awaited for, given by their ids."""
        if self._scores is not None:
            for span in spans:
                if span.span_id not in awaited:
                    self._scores.finish(int(span.trace_id, 16), int(span.span_id, 16))

    def _record(self, run: Run, evaluation: Evaluation, _: Opened | None) -> None:
        if self._metrics is not None:
            self._metrics.record(run, evaluation)

    def _end_span(self, _: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        if self._tracer is not None and opened is not None and opened.span is not None:
            records.end_span(self._tracer, opened.span, evaluation)

    def _emit_event(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        if self._logger is not None and isinstance(evaluation.outcome, Score | ScorerFailure):
            judged = opened.judged if opened else records.judged_context(run, evaluation.span_id)
            records.emit_event(self._logger, run, evaluation, judged)

    def _add_attributes(self, run: Run, evaluation: Evaluation, _: Opened | None) -> None:
        if self._scores is not None and not run.turns:  # no span is held until its conversation ends
            attributes = records.span_attributes(evaluation)
            self._scores.add(int(evaluation.trace_id, 16), int(evaluation.span_id, 16), attributes)
