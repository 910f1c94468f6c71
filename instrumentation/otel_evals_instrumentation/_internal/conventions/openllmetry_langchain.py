"""Documents that LangChain's steps hand on, as Traceloop's older instrumentations record them."""

from __future__ import annotations

from typing import Any

from otel_evals_instrumentation._internal.readers.documents import documents_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

_KEYS = (("traceloop.entity.output", "outputs"), ("traceloop.entity.input", "inputs"))


def read_documents(reader: SpanReader) -> None:
    """Read the documents of a task: where retrievers have no spans, the step that takes theirs tells them."""
    for key, inside in _KEYS:
        value = reader.attributes.get(key)
        if not isinstance(value, str) or '"Document"]' not in value:
            continue
        envelope = parse(value)
        items = envelope.get(inside) if isinstance(envelope, dict) else None
        if isinstance(items, list) and items and all(map(_is_document, items)):
            reader.fields["documents"] = documents_of(items, span_id=reader.span.span_id)
            reader.note("documents", key)
            return


def _is_document(item: Any) -> bool:
    """Whether an item is a document as LangChain serialises it."""
    path = item.get("id") if isinstance(item, dict) else None
    return isinstance(path, list) and path[-1:] == ["Document"]
