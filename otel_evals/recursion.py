"""The mark on everything that happens inside a scorer, by which capture recognises what it must not score.

Within the process it is a context value; to other services it is propagated in baggage and in tracestate,
since either may be stripped on the way.
"""

from __future__ import annotations

from opentelemetry import baggage, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState

from otel_evals import semconv

__all__ = ["is_marked", "mark"]

_KEY = context_api.create_key(semconv.MARK)
_MARKED = TraceState([(semconv.MARK_IN_TRACE_STATE, "1")])


def mark(context: Context | None = None) -> Context:
    """A context in which every span is marked, in this process and in the services called from it."""
    marked = context_api.set_value(_KEY, True, context)
    return baggage.set_baggage(semconv.MARK, "1", _with_marked_state(marked))


def is_marked(context: Context | None, parent: SpanContext | None = None) -> bool:
    """Whether a span that starts in this context, with this parent, is marked, here or by another service."""
    if parent is not None and semconv.MARK_IN_TRACE_STATE in parent.trace_state:
        return True
    current = context_api.get_current() if context is None else context
    if not current:
        return False
    return _KEY in current or baggage.get_baggage(semconv.MARK, current) is not None


def _with_marked_state(context: Context) -> Context:
    """The context with the mark in its span's tracestate, which the spans below inherit.

    A recording span cannot be changed; evaluation spans inherit the mark from their parent.
    """
    span = trace.get_current_span(context)
    own = span.get_span_context()
    if span.is_recording() or not own.is_valid or semconv.MARK_IN_TRACE_STATE in own.trace_state:
        return context
    state = own.trace_state.add(semconv.MARK_IN_TRACE_STATE, "1") if own.trace_state else _MARKED
    marked = SpanContext(own.trace_id, own.span_id, own.is_remote, own.trace_flags, state)
    return trace.set_span_in_context(NonRecordingSpan(marked), context)
