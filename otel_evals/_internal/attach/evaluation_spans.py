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
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    ProxyTracer,
    Span,
    SpanContext,
    SpanKind,
    TraceFlags,
    Tracer,
    TraceState,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.util.types import Attributes

from otel_evals import semconv
from otel_evals._internal.attach import records
from otel_evals._internal.model import Evaluation, Run
from otel_evals._internal.recursion import Marks, ScorerSpan, mark, marked_context, marked_state, marks
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_RANDOM = RandomIdGenerator()
_SHARED_BITS = 64
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
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
        self._every = same_trace
        self._own_service = own_service
        self._resolved: Any = None

    def open(
        self,
        run: Run,
        span_id: str,
        scorer_id: str,
        start_time: int,
        judged: Context,
        marked: Marks | None = None,
    ) -> EvaluationSpan:
        """Start the span of an evaluation at a time in nanoseconds; `judged` has the judged span."""
        marked = marked or marks()

        def start(tracer: Any, context: Context, links: list[Link]) -> Span:
            span: Span = tracer.start_span(
                f"evaluate {scorer_id}",
                context=context,
                links=links,
                attributes=records.opening_attributes(run, scorer_id),
                start_time=start_time,
            )
            return span

        def start_linked(tracer: Any) -> Span:
            return start(tracer, marked_context(), judged_links(run, span_id))

        if not self._same_trace:
            return self._in_own_trace(judged, marked, start_linked)
        try:
            links = judged_links(run, span_id)[:-1]  # the last is its parent
            span = start(self._given, mark(judged), links)
        except Exception as error:
            return self._in_own_trace_after(error, judged, marked, start_linked)
        return EvaluationSpan(span.get_span_context(), lambda: span, needed=True)

    def _in_own_trace_after(
        self, error: Exception, judged: Context, marked: Marks, start: Callable[[Any], Span]
    ) -> EvaluationSpan:
        """Start a trace, because a span processor refuses spans below one that has ended."""
        own = self._in_own_trace(judged, marked, start)
        own.recorded.is_recording()  # starts it: where that fails too, it is not because of the trace
        self._same_trace = False
        kind = type(error).__name__
        _logger.warning(
            "evaluation spans have traces of their own: a span processor refused one below the judged span,"
            " which has ended (%s)",
            kind,
        )
        return own

    def _in_own_trace(self, judged: Context, marked: Marks, start: Callable[[Any], Span]) -> EvaluationSpan:
        generator = getattr(self._tracer, "id_generator", None)
        trace_id, _, _, flags, state, _ = get_current_span(judged).get_span_context()
        own = _own_context(trace_id, flags, state, generator, marked)

        def start_own() -> Span:
            return start(self._tracer if generator is None else _prepared(self._tracer, own, mark(judged)))

        return EvaluationSpan(own, start_own, needed=self._every)

    def end(self, span: ScorerSpan, evaluation: Evaluation) -> None:
        """End a span with its evaluation's outcome, if it is needed."""
        asked_a_judge = any(step.model is not None for step in getattr(evaluation.outcome, "steps", ()))
        if isinstance(span, EvaluationSpan) and (span.needed or asked_a_judge):
            tracer = self._given if self._same_trace else self._tracer
            if self._proposed:
                span.recorded.set_attribute(semconv.GEN_AI_OPERATION_NAME, semconv.OPERATION_EVALUATION)
                span.recorded.set_attributes(records.proposed_attributes(evaluation))
            records.end_span(tracer, span.recorded, evaluation, may_fail=not self._same_trace)

    def abandon(self, span: ScorerSpan, outcome: str, reason: str = "", end_time: int | None = None) -> None:
        """End a needed span whose evaluation is attempted again."""
        if isinstance(span, EvaluationSpan) and span.needed:
            span.recorded.set_attribute(semconv.EVALUATION_OUTCOME, outcome)
            if reason:
                span.recorded.set_attribute(semconv.EVALUATION_REASON, reason)
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


def begin(
    spans: EvaluationSpans | None, run: Run, span_id: str, scorer_id: str, start_time: int
) -> tuple[Context | None, ScorerSpan, Context]:
    """Open an evaluation's span, recorded or not. Never raises.

    Returns:
        The judged context, the span, and a context in which every span is marked.
    """
    marked = marks()
    if spans is None:
        return None, ScorerSpan(unrecorded_context(run, marked)), marked.context
    judged = judged_context(run, span_id)
    try:
        return judged, spans.open(run, span_id, scorer_id, start_time, judged, marked), marked.context
    except BaseException as error:  # a span processor of the application
        log_error(_logger, "no evaluation span for %s", scorer_id, error=error, level=logging.WARNING)
        return judged, ScorerSpan(unrecorded_context(run, marked)), marked.context


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
        trace_flags=_SAMPLED if run.trace_flags == 1 else TraceFlags(run.trace_flags),
        trace_state=TraceState.from_header([run.trace_state]) if run.trace_state else DEFAULT_TRACE_STATE,
    )


def judged_links(run: Run, span_id: str) -> list[Link]:
    """Return links to the roots of a conversation's runs; the judged span is last."""
    earlier = [_span_context(turn, turn.root_span_id) for turn in run.turns[:-1]]
    return [Link(context) for context in (*earlier, _span_context(run, span_id))]


def unrecorded_context(run: Run, marked: Marks) -> SpanContext:
    """Return the marked ids of an evaluation span that is not recorded, nor anything below it."""
    try:
        trace_id = int(run.trace_id, 16)
    except ValueError:  # ids of odd files
        trace_id = 0
    state = TraceState.from_header([run.trace_state]) if run.trace_state else None
    return _own_context(trace_id, run.trace_flags, state, None, marked)


def _own_context(
    trace_id: int, flags: int, state: TraceState | None, generator: IdGenerator | None, marked: Marks
) -> SpanContext:
    """Return the marked ids of an evaluation span in a new trace.

    The trace id has the low 64 bits of the judged trace's: samplers by trace id keep both or neither.
    Without a generator, the span does not exist, and spans below it must not be recorded.
    """
    if generator is None:
        generator, flags = _RANDOM, flags & ~TraceFlags.SAMPLED
    return SpanContext(
        generator.generate_trace_id() >> _SHARED_BITS << _SHARED_BITS | trace_id & _LOW_BITS,
        generator.generate_span_id(),
        False,
        TraceFlags(flags),
        marked_state(state) if state else marked.state,
    )


def _prepared(tracer: Any, own: SpanContext, judged: Context) -> Any:
    tracer = copy.copy(tracer)
    tracer.id_generator = _Given(own)
    tracer.sampler = _AsBelow(tracer.sampler, judged)
    return tracer


class EvaluationSpan(ScorerSpan):
    """The current span while a scorer runs; it is started when something is written on it."""

    def __init__(self, context: SpanContext, start: Callable[[], Span], *, needed: bool = False) -> None:
        super().__init__(context)
        self.needed = needed
        self._start = start
        self._recorded: Span | None = None
        self._lock = threading.Lock()

    @property
    def recorded(self) -> Span:
        """The recorded span, started now if it was not before."""
        with self._lock:
            if self._recorded is None:
                self._recorded = self._start()
            return self._recorded

    def is_recording(self) -> bool:
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


class _AsBelow(Sampler):
    """Samples an evaluation span as if it were below the judged span.

    That one was sampled, so parent-based samplers, and those by trace id, keep both or neither.
    """

    def __init__(self, sampler: Sampler, judged: Context) -> None:
        self._sampler = sampler
        self._judged = judged

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        judged = get_current_span(self._judged).get_span_context()
        result = self._sampler.should_sample(self._judged, judged.trace_id, name, kind, attributes, links)
        return SamplingResult(result.decision, result.attributes, marked_state(result.trace_state))

    def get_description(self) -> str:
        return self._sampler.get_description()


class _Given(IdGenerator):
    def __init__(self, context: SpanContext) -> None:
        self._context = context

    def generate_trace_id(self) -> int:
        return self._context.trace_id

    def generate_span_id(self) -> int:
        return self._context.span_id

    def is_trace_id_random(self) -> bool:
        return bool(self._context.trace_flags & 0x02)
