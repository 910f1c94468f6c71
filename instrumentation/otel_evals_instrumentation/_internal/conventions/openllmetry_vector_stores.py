"""Vector stores as Traceloop instruments them: each retrieved document is a span event."""

from __future__ import annotations

from typing import Any

from otel_evals.model import Document, OperationKind, SpanEvent, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import Convention, SpanReader
from otel_evals_instrumentation._internal.readers.documents import make_document, text_among
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import words

_EVENTS = ("db.query.result", "db.search.result")


def openllmetry_vector_stores() -> Convention:
    """Return the dialect of Traceloop's instrumentations of vector stores."""
    return Convention(
        name="openllmetry_vector_stores",
        scopes=words(
            "chromadb pinecone qdrant milvus marqo weaviate lancedb", "opentelemetry.instrumentation."
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a query, recognised by its name or its results; None for writes."""
    if any(event.name in _EVENTS for event in span.events):
        return OperationKind.RETRIEVAL
    words = span.name.lower().replace("_", ".").split(".")
    return OperationKind.RETRIEVAL if "query" in words or "search" in words else None


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    found = [_document(event, reader.span) for event in reader.span.events if event.name in _EVENTS]
    documents = tuple(document for document in found if document.content or document.id or document.metadata)
    if documents:
        reader.fields["documents"] = documents
        reader.note("documents", _EVENTS[0])
    return kind


def _document(event: SpanEvent, span: SpanRecord) -> Document:
    attributes: dict[str, Any] = {key.rpartition(".")[2]: value for key, value in event.attributes.items()}
    metadata = parse(attributes.get("metadata", attributes.get("entity")))
    text = text_among({"document": attributes.get("document")})
    return make_document(text, attributes.get("id"), attributes.get("score"), metadata, span.span_id)
