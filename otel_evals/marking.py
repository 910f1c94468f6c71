"""The mark on everything that happens inside a scorer, by which capture knows what it must never score."""

from __future__ import annotations

from opentelemetry import baggage
from opentelemetry import context as context_api
from opentelemetry.context import Context

from otel_evals import semconv

__all__ = ["is_marked", "mark"]

_KEY = context_api.create_key(semconv.MARK)


def mark(context: Context | None = None) -> Context:
    """A context in which every span is known to be ours; the mark travels in baggage to other services."""
    marked = context_api.set_value(_KEY, True, context)
    return baggage.set_baggage(semconv.MARK, "1", marked)


def is_marked(context: Context | None) -> bool:
    """Whether a span that starts in this context is ours, or caused by us from another service."""
    if context_api.get_value(_KEY, context):
        return True
    return baggage.get_baggage(semconv.MARK, context) is not None
