"""Documents of retrieval spans, under any library's or instrumentation's names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from otel_evals.model import Document
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts, text_message
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import (
    MAX_DEPTH,
    first_present,
    first_text,
    is_masked,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

_CONTAINERS = words(
    """documents outputs output results result retrievalResults source_nodes nodes matches hits contexts
    chunks passages search_results"""
)
"""Keys of the list of documents in libraries' responses."""
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?").fullmatch
_TEXTS = ("content", "page_content", "text", "pageContent", "body", "document")


def read_retrieval(reader: SpanReader) -> None:
    """Read a retriever's span: the query and the documents."""
    query = reader.text("query")
    messages = read_messages(query)
    asked = messages[0].text if messages else query
    if asked:
        reader.fields["input_messages"] = (text_message("user", asked),)
    for key in reader.found_at.get("documents", ()):
        documents = documents_of(reader.value(key), asked, reader.span.span_id)
        if documents:
            reader.fields["documents"] = documents
            reader.note("documents", key)
            return


def documents_of(value: Any, query: str | None = None, span_id: str | None = None) -> tuple[Document, ...]:
    """Return the documents in a retriever's output."""
    found = (_document(item, query, span_id) for item in _items(parse(value), 0))
    return tuple(d for d in found if d.content is not None or d.id is not None or d.metadata)


def _items(value: Any, depth: int) -> Iterator[Any]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, (list, tuple)):
        # Bounds the work for lists that a sender writes.
        for item in value[:10_000]:
            item = parse(item) if isinstance(item, str) and item[:1] == "{" else item
            if isinstance(item, (list, tuple)):
                yield from _items(item, depth + 1)
            elif item is not None:
                yield item
    elif isinstance(value, dict):
        for key in _CONTAINERS:
            if isinstance(value.get(key), (list, tuple, dict)):
                yield from _items(value[key], depth + 1)
                return
        yield value


def _text(content: Any) -> str | None:
    """Return a document's text, which has parts in Genkit and Bedrock."""
    texts = [part.text for part in read_parts(content) if part.text]
    return "\n\n".join(texts) or None


def _document(item: Any, query: str | None, span_id: str | None) -> Document:
    if not isinstance(item, dict):
        return Document(content=unmasked(str(item)), query=query, span_id=span_id)
    # OpenInference's names inside a list have a prefix.
    outer = item = {key.removeprefix("document."): value for key, value in item.items()}
    for key in ("document", "node", "kwargs"):
        if isinstance(item.get(key), dict):
            item = item[key]
    content = next((_text(item[k]) for k in _TEXTS if item.get(k)), None)
    metadata = mapping(first_present(item, ("metadata", "meta")))
    score = outer.get("score", outer.get("relevance_score", item.get("score")))
    identity = item.get("id", item.get("document_id", item.get("id_", outer.get("id"))))
    return make_document(content, identity, score, metadata, span_id, query)


def make_document(
    content: str | None,
    identity: Any,
    score: Any,
    metadata: dict[str, Any],
    span_id: str | None,
    query: str | None = None,
) -> Document:
    """Return a document from recorded values; the text falls back to one in the metadata."""
    return Document(
        content=first_text(metadata, _TEXTS) if content is None else content,
        id=None if identity is None else str(identity),
        score=float(score) if _NUMBER(str(score)) else None,
        metadata={k: v for k, v in metadata.items() if not is_masked(v)},
        query=query,
        span_id=span_id,
    )
