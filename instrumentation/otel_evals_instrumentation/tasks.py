"""Documents that LangChain's steps hand on, as Traceloop's older instrumentations record them."""

from __future__ import annotations

from typing import Any

from otel_evals_instrumentation.reading import Reading
from otel_evals_instrumentation.unwrap import documents_of
from otel_evals_instrumentation.values import parse

__all__ = ["read_documents"]

_KEYS = (("traceloop.entity.output", "outputs"), ("traceloop.entity.input", "inputs"))


def read_documents(reading: Reading) -> None:
    """Read the documents of a task: where retrievers have no spans, the step that takes theirs tells them."""
    for key, inside in _KEYS:
        value = reading.attributes.get(key)
        if not isinstance(value, str) or '"Document"]' not in value:
            continue
        envelope = parse(value)
        items = envelope.get(inside) if isinstance(envelope, dict) else None
        if isinstance(items, list) and items and all(map(_is_document, items)):
            reading.fields["documents"] = documents_of(items, span_id=reading.span.span_id)
            reading.note("documents", key)
            return


def _is_document(item: Any) -> bool:
    """Whether an item is a document as LangChain serialises it."""
    path = item.get("id") if isinstance(item, dict) else None
    return isinstance(path, list) and path[-1:] == ["Document"]
