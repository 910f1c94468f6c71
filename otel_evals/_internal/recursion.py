"""The mark on everything that happens inside a scorer; capture does not score it.

Within the process it is a context value. Other services receive it in baggage and in tracestate, since either
may be stripped on the way. It is signed there, because any sender can write these headers; an unsigned mark
is ignored. The signature covers the hour, not the trace, whose id changes if only baggage is passed on.
"""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Literal, NamedTuple

from opentelemetry import baggage, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState

from otel_evals import semconv
from otel_evals._internal.trust import SECONDS, is_signature, signature

Marking = Literal["", "here", "signed", "unsigned"]
"""Origin of a mark: none, this process, a sender with the key, or any sender."""

_KEY = context_api.create_key(semconv.MARK)
_MOST_MEMBERS = 32  # of a tracestate, by W3C's Trace Context


class ScorerSpan(NonRecordingSpan):
    """The current span while a scorer runs; recorded only if it is needed."""

    needed = False
    """True once a judge was called, or a span started below this one."""


def need_span(context: Context | None = None) -> None:
    """Record the evaluation span if it is the current one in a context; does nothing elsewhere."""
    span = trace.get_current_span(context)
    if isinstance(span, ScorerSpan):
        span.needed = True


def mark(context: Context | None = None) -> Context:
    """Return a context in which every span is marked, in this process and in the services called from it."""
    marked = context_api.set_value(_KEY, True, context)
    return baggage.set_baggage(semconv.MARK, signature(), _with_marked_state(marked))


class Marks(NamedTuple):
    """The mark of this hour."""

    context: Context
    """Every span in it is marked."""
    state: TraceState
    """A tracestate with nothing but the mark."""


def marks() -> Marks:
    return _marks(int(time.time()) // SECONDS)


def marked_context() -> Context:
    return marks().context


@lru_cache(maxsize=2)
def _marks(_hour: int) -> Marks:
    return Marks(mark(Context()), TraceState([(semconv.MARK_IN_TRACE_STATE, signature())]))


def marked_state(state: TraceState | None) -> TraceState:
    if not state:
        return TraceState([(semconv.MARK_IN_TRACE_STATE, signature())])
    if semconv.MARK_IN_TRACE_STATE in state:
        return state.update(semconv.MARK_IN_TRACE_STATE, signature())
    if len(state) >= _MOST_MEMBERS:
        state = state.delete(list(state)[-1])  # the oldest; a full tracestate takes no more
    return state.add(semconv.MARK_IN_TRACE_STATE, signature())


def is_marked(context: Context | None, parent: SpanContext | None = None) -> bool:
    """Return True if a span that starts in this context, with this parent, has a mark that counts."""
    return marking(context, parent) in ("here", "signed")


def marking(context: Context | None, parent: SpanContext | None = None) -> Marking:
    """Return the origin of the mark of a span that starts in this context, with this parent."""
    current = context_api.get_current() if context is None else context
    if current and _KEY in current:
        return "here"
    in_state = parent.trace_state.get(semconv.MARK_IN_TRACE_STATE) if parent is not None else None
    in_baggage = baggage.get_baggage(semconv.MARK, current) if current else None
    if in_state is None and in_baggage is None:
        return ""
    if not (is_signature(in_state) or is_signature(in_baggage)):
        return "unsigned"
    return "signed" if parent is None or parent.is_remote else "here"


def state_marking(trace_state: str) -> Marking:
    """Return the origin of the mark in a tracestate."""
    prefix = f"{semconv.MARK_IN_TRACE_STATE}="
    found = [m.strip().removeprefix(prefix) for m in trace_state.split(",") if m.strip().startswith(prefix)]
    return "" if not found else "signed" if any(map(is_signature, found)) else "unsigned"


def _with_marked_state(context: Context) -> Context:
    """Add the mark to the tracestate of a context's span, for the spans below to inherit.

    A recording span cannot be changed; evaluation spans have the mark from their start.
    """
    span = trace.get_current_span(context)
    own = span.get_span_context()
    if span.is_recording() or not own.is_valid or is_marked(Context(), own):
        return context
    marked = SpanContext(
        own.trace_id, own.span_id, own.is_remote, own.trace_flags, marked_state(own.trace_state)
    )
    return trace.set_span_in_context(NonRecordingSpan(marked), context)
