"""The mark on everything that happens inside a scorer, by which capture recognises what it must not score.

Within the process it is a context value; to other services it is propagated in baggage and in tracestate,
since either may be stripped on the way.
"""

from __future__ import annotations

from typing import Final

from opentelemetry import baggage, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState

from otel_evals import semconv

__all__ = ["MARKED", "ScorerSpan", "is_marked", "mark", "marked_state", "need_span"]

_KEY = context_api.create_key(semconv.MARK)
_MARKED = TraceState([(semconv.MARK_IN_TRACE_STATE, "1")])
_MOST_MEMBERS = 32
"""Of a tracestate, by W3C's Trace Context."""


class ScorerSpan(NonRecordingSpan):
    """The current span while a scorer runs. It is recorded only if something needs it."""

    def __init__(self, context: SpanContext) -> None:
        super().__init__(context)
        self.needed = False
        """Whether a judge was called, or a span started below this one."""


def need_span(context: Context | None = None) -> None:
    """Have the evaluation span recorded if it is the current one; does nothing elsewhere.

    Args:
        context: where to look for it; the current context by default.
    """
    span = trace.get_current_span(context)
    if isinstance(span, ScorerSpan):
        span.needed = True


def mark(context: Context | None = None) -> Context:
    """A context in which every span is marked, in this process and in the services called from it."""
    marked = context_api.set_value(_KEY, True, context)
    return baggage.set_baggage(semconv.MARK, "1", _with_marked_state(marked))


def marked_state(state: TraceState | None) -> TraceState:
    """A tracestate with the mark."""
    if not state:
        return _MARKED
    if semconv.MARK_IN_TRACE_STATE in state:
        return state
    if len(state) >= _MOST_MEMBERS:
        state = state.delete(list(state)[-1])  # the oldest; a full tracestate takes no more
    return state.add(semconv.MARK_IN_TRACE_STATE, "1")


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

    A recording span cannot be changed; evaluation spans have the mark from their start.
    """
    span = trace.get_current_span(context)
    own = span.get_span_context()
    if span.is_recording() or not own.is_valid or semconv.MARK_IN_TRACE_STATE in own.trace_state:
        return context
    marked = SpanContext(
        own.trace_id, own.span_id, own.is_remote, own.trace_flags, marked_state(own.trace_state)
    )
    return trace.set_span_in_context(NonRecordingSpan(marked), context)


MARKED: Final = mark(Context())
"""A context with nothing but the mark."""
