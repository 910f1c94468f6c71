"""Evaluation spans: their place, the conditions for recording them, and their sampling.

By default, each is the root of a new trace, linked to the judged span: the application's traces keep their
latency, tokens, cost, size and errors. It is recorded only if it is needed, because the scorer calls a
judge, records a span or writes on the current one. In the judged span's trace every evaluation has one.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    INVALID_SPAN,
    INVALID_SPAN_CONTEXT,
    Link,
    NonRecordingSpan,
    ProxyTracer,
    Span,
    SpanContext,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util.types import Attributes

from otel_evals import semconv
from otel_evals._internal.attach import records
from otel_evals._internal.attach.providers import with_ids
from otel_evals._internal.model import Evaluation, Run
from otel_evals._internal.trust.marks import ScorerSpan, mark, marked_context, marked_state

_logger = logging.getLogger(__name__)
_RANDOM = RandomIdGenerator()
_SHARED_BITS = 64
_FLAGS = tuple(map(TraceFlags, range(256)))
"""Shared by all contexts, so that the garbage collector need not walk one for each."""
_LOW_BITS = (1 << _SHARED_BITS) - 1
"""The part of a trace id that samplers use."""
_OWN_SERVICE = {SERVICE_NAME: "unknown_service", "openinference.project.name": "default"}
"""Resource attributes by which backends separate services and projects, with their defaults."""


class EvaluationSpans:
    """Opens and ends the spans of evaluations.

    With `same_trace`, they are children of the judged spans. Otherwise `own_service` appends `-evaluations`
    to `service.name` and Phoenix's project in their resource, to tell them from the application's. With
    `proposed`, they also have the attributes that are proposed for the GenAI conventions.
    """

    def __init__(
        self, tracer: Tracer, *, same_trace: bool = False, own_service: bool = True, proposed: bool = False
    ) -> None:
        self._given = tracer
        self._proposed = proposed
        self._same_trace = same_trace
        self.every = same_trace
        """True if evaluations that call no judge have a span too."""
        self._own_service = own_service
        self._resolved: Any = None

    def open(self, run: Run, span_id: str, scorer_id: str, start_time: int) -> EvaluationSpan:
        """Start the span of an evaluation at a time in nanoseconds."""
        given = run, span_id, scorer_id, start_time
        if not self._same_trace:
            return EvaluationSpan(self, *given)
        try:
            links = judged_links(run, span_id)[:-1]  # the last is its parent
            judged = mark(judged_context(run, span_id))
            recorded = _started(self._given, judged, links, run, scorer_id, start_time)
        except Exception as error:
            own = EvaluationSpan(self, *given)
            own.recorded.is_recording()  # starts it: where that fails too, it is not because of the trace
            # For all that follow: the processor would refuse each of them.
            self._same_trace = False
            _logger.warning(
                "evaluation spans have traces of their own: a span processor refused one below the judged"
                " span, which has ended (%s)",
                type(error).__name__,
            )
            return own
        return EvaluationSpan(self, *given, recorded)

    @property
    def generator(self) -> IdGenerator | None:
        """Draws ids for new traces; None if the tracer does not say how it does."""
        return getattr(self._tracer, "id_generator", None)

    def start(self, span: EvaluationSpan) -> Span:
        """Start an evaluation's span in its own trace."""
        run, tracer = span.run, self._tracer
        # The scorer may have seen the ids already: the recorded span must have the same.
        if span.generator is not None:
            tracer = with_ids(tracer, span.get_span_context(), mark(span.judged))
        links = judged_links(run, span.span_id)
        return _started(tracer, marked_context(), links, run, span.scorer_id, span.start_time)

    def end(self, span: ScorerSpan, evaluation: Evaluation, attributes: records.Attributes) -> None:
        """End a span with its evaluation's outcome, which has these attributes, if it is needed."""
        asked_a_judge = any(step.model is not None for step in getattr(evaluation.outcome, "steps", ()))
        if isinstance(span, EvaluationSpan) and (span.needed or asked_a_judge):
            tracer = self._given if self._same_trace else self._tracer
            if self._proposed:
                span.recorded.set_attribute(semconv.GEN_AI_OPERATION_NAME, semconv.OPERATION_EVALUATION)
                span.recorded.set_attributes(records.proposed_attributes(evaluation))
            records.end_span(tracer, span.recorded, evaluation, attributes, may_fail=not self._same_trace)

    def retry(self, span: ScorerSpan, end_time: int | None = None) -> None:
        """End a needed span whose evaluation is attempted again."""
        if isinstance(span, EvaluationSpan) and span.needed:
            span.recorded.set_attribute(semconv.EVALUATION_OUTCOME, "retried")
            span.recorded.end(end_time)

    @property
    def _tracer(self) -> Any:
        """The tracer for new traces: a copy, since the application's must not change."""
        if self._resolved is None:
            tracer: Any = self._given
            if isinstance(tracer, ProxyTracer):
                tracer = getattr(tracer, "_tracer", tracer)
            tracer = getattr(tracer, "__wrapped__", tracer)  # OpenInference's proxy cannot be copied
            if self._own_service and isinstance(getattr(tracer, "resource", None), Resource):
                tracer = copy.copy(tracer)
                given = tracer.resource.attributes
                own = {k: f"{given.get(k) or default}-evaluations" for k, default in _OWN_SERVICE.items()}
                tracer.resource = tracer.resource.merge(Resource(own))
            self._resolved = tracer
        return self._resolved


def _started(
    tracer: Any, context: Context, links: list[Link], run: Run, scorer_id: str, start_time: int
) -> Span:
    span: Span = tracer.start_span(
        f"evaluate {scorer_id}",
        context=context,
        links=links,
        attributes=records.opening_attributes(run, scorer_id),
        start_time=start_time,
    )
    return span


def judged_context(run: Run, span_id: str) -> Context:
    """Return a context with nothing but the judged span, or an empty one for invalid ids, as in odd files."""
    try:
        return set_span_in_context(NonRecordingSpan(_span_context(run, span_id)), Context())
    except ValueError:
        return Context()


def _span_context(run: Run, span_id: str) -> SpanContext:
    return SpanContext(
        trace_id=int(run.trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=_FLAGS[run.trace_flags & 0xFF],
        trace_state=_state_of(run),
    )


def _state_of(run: Run) -> TraceState:
    return TraceState.from_header([run.trace_state]) if run.trace_state else DEFAULT_TRACE_STATE


def judged_links(run: Run, span_id: str) -> list[Link]:
    """Return links to the roots of a conversation's runs; the judged span is last."""
    earlier = [_span_context(turn, turn.root_span_id) for turn in run.turns[:-1]]
    return [Link(context) for context in (*earlier, _span_context(run, span_id))]


def _own_context(run: Run, generator: IdGenerator | None) -> SpanContext:
    """Return the marked ids of an evaluation span in a new trace.

    The trace id has the low 64 bits of the judged trace's: samplers by trace id keep both or neither.
    Without a generator, the span does not exist, and spans below it must not be recorded.
    """
    try:
        trace_id = int(run.trace_id, 16)
    except ValueError:  # ids of odd files
        trace_id = 0
    flags = run.trace_flags
    if generator is None:
        generator, flags = _RANDOM, flags & ~TraceFlags.SAMPLED
    return SpanContext(
        generator.generate_trace_id() >> _SHARED_BITS << _SHARED_BITS | trace_id & _LOW_BITS,
        generator.generate_span_id(),
        False,
        _FLAGS[flags & 0xFF],
        marked_state(_state_of(run)),
    )


class OwnSpan(ScorerSpan):
    """The current span while a scorer runs, in a separate trace. Seldom does anything ask for its ids."""

    judged: Context | None = None
    """The judged span is current in it; None if nothing needed it so far."""

    def __init__(self, run: Run, generator: IdGenerator | None = None) -> None:
        super().__init__(INVALID_SPAN_CONTEXT)
        self.run = run
        self.generator = generator

    def get_span_context(self) -> SpanContext:
        """Return the ids, drawn now if they were not before."""
        known: SpanContext | None = vars(self).get("own_context")
        if known is None:  # `setdefault` returns the same to all threads
            known = vars(self).setdefault("own_context", _own_context(self.run, self.generator))
        return known


class EvaluationSpan(OwnSpan):
    """An evaluation's span that is started when something is written on it."""

    def __init__(
        self,
        spans: EvaluationSpans,
        run: Run,
        span_id: str,
        scorer_id: str,
        start_time: int,
        recorded: Span | None = None,
    ) -> None:
        super().__init__(run, spans.generator)
        self.judged: Context = judged_context(run, span_id)
        if recorded is not None:
            self.own_context = recorded.get_span_context()
        self.needed = spans.every
        self.span_id = span_id
        self.scorer_id = scorer_id
        self.start_time = start_time
        self._spans = spans
        self._recorded = recorded

    @property
    def recorded(self) -> Span:
        """The recorded span, started now if it was not before."""
        # Created when needed, which is seldom; `setdefault` returns the same lock to all threads.
        with vars(self).setdefault("_lock", threading.Lock()):
            if self._recorded is None:
                self._recorded = self._spans.start(self)
            return self._recorded

    def is_recording(self) -> bool:
        # True before its start: code that asks first would otherwise write nothing.
        return self._recorded is None or self._recorded.is_recording()

    def set_attribute(self, key: str, value: Any) -> None:
        self._written().set_attribute(key, value)

    def set_attributes(self, attributes: Any) -> None:
        self._written().set_attributes(attributes)

    def add_event(self, name: str, attributes: Attributes = None, timestamp: int | None = None) -> None:
        self._written().add_event(name, attributes, timestamp or time.time_ns())

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        self._written().add_link(context, attributes)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self._written().record_exception(exception, attributes, timestamp, escaped)

    def _written(self) -> Span:
        """Return the recorded span, or one that ignores everything if it cannot be started."""
        self.needed = True
        try:
            return self.recorded
        except Exception:  # a span processor of the application
            _logger.debug("an evaluation span could not be started", exc_info=True)
            return INVALID_SPAN
