"""Vector stores as Traceloop instruments them: each document that was found is a span event."""

from __future__ import annotations

from typing import Any

from otel_evals.dialects import Dialect
from otel_evals.model import Document, OperationKind, SpanEvent, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.documents import text_among
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

_STORES = ("chromadb", "pinecone", "qdrant", "milvus", "marqo", "weaviate", "lancedb")
_EVENTS = ("db.query.result", "db.search.result")


def openllmetry_vector_stores() -> Dialect:
    """The dialect of Traceloop's instrumentations of vector stores."""
    return Convention(
        name="openllmetry_vector_stores",
        scopes=tuple("opentelemetry.instrumentation." + store for store in _STORES),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Queries are told by their name or by what they found; writes are no part of an agent's work."""
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
    told: dict[str, Any] = {key.rpartition(".")[2]: value for key, value in event.attributes.items()}
    metadata = parse(told.get("metadata", told.get("entity")))
    metadata = metadata if isinstance(metadata, dict) else {}
    content = text_among({"document": told.get("document")}) or text_among(metadata)
    score = told.get("score")
    identity = told.get("id")
    return Document(
        content=content,
        id=None if identity is None else str(identity),
        score=float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None,
        metadata=metadata,
        span_id=span.span_id,
    )
