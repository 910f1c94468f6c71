"""Spans whose attributes a backend stored as JSON, texts included, before they came here: MLflow does so."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from otel_evals.model import SpanRecord
from otel_evals_instrumentation._internal.readers.values import parse

_WORDS = (
    "gen_ai.operation.name",
    "ai.operationId",
    "openinference.span.kind",
    "traceloop.span.kind",
    "span.type",
    "llm.request.type",
)
"""Attributes that are one word wherever they were recorded: in quotes, they were stored as JSON."""


def as_recorded(span: SpanRecord) -> SpanRecord:
    """The span with its attributes as they were recorded; most spans come back as they are."""
    attributes = span.attributes
    for word in _WORDS:
        value = attributes.get(word)
        if value is not None:
            if type(value) is str and value[:1] == '"':
                return replace(span, attributes={key: _decoded(v) for key, v in attributes.items()})
            return span
    return span


def _decoded(value: Any) -> Any:
    """A text or a number out of its JSON; objects and lists are left for their readers."""
    if type(value) is not str:
        return value
    if value[:1] == '"':
        return parse(value)
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else value
