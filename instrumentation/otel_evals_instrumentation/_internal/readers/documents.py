"""Retrieved documents, whatever the library or instrumentation called their fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_evals.model import Document, Message, Part
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import MAX_DEPTH, is_masked, parse, unmasked

_CONTAINERS = (
    "documents",
    "outputs",
    "output",
    "results",
    "retrievalResults",
    "source_nodes",
    "nodes",
    "matches",
    "hits",
    "contexts",
    "chunks",
    "passages",
)
"""Keys under which replies of libraries hold the documents that were found."""


_TEXTS = ("content", "page_content", "text", "pageContent", "body", "document")


def text_among(metadata: Mapping[str, Any]) -> str | None:
    """A document's text among its metadata, where vector stores that keep no texts have it."""
    texts = (metadata.get(key) for key in _TEXTS)
    return next((text for text in texts if isinstance(text, str) and text and not is_masked(text)), None)


def read_retrieval(reader: SpanReader) -> None:
    """Read a retriever's span: the documents it brought, and for which query."""
    query = reader.text("query")
    asked = _query(query)
    if asked:
        reader.fields["input_messages"] = (Message(role="user", parts=(Part(kind="text", text=asked),)),)
    for _, key, value in reader.with_lists("documents"):
        documents: tuple[Document, ...] = documents_of(value, asked, reader.span.span_id)
        if documents:
            reader.fields["documents"] = documents
            reader.note("documents", key)
            return


def _query(text: str | None) -> str | None:
    messages = read_messages(text) if text else ()
    return messages[0].text if messages else text


def documents_of(value: Any, query: str | None = None, span_id: str | None = None) -> tuple[Document, ...]:
    """The documents that a retriever's output holds, whatever the library called their fields."""
    found = (_document(item, query, span_id) for item in _items(parse(value), 0))
    return tuple(d for d in found if d.content is not None or d.id is not None or d.metadata)


def _items(value: Any, depth: int) -> Iterator[Any]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, (list, tuple)):
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
        if value.keys() & {"content", "page_content", "text", "document", "id", "document.content"}:
            yield value


def _text(content: Any) -> str | None:
    """A document's text, which may stand in parts, as Genkit's and Bedrock's does."""
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        content = content["text"]
    texts = [part.text for part in read_parts(content) if part.kind == "text" and part.text]
    return "\n\n".join(texts) or None


def _document(item: Any, query: str | None, span_id: str | None) -> Document:
    if not isinstance(item, dict):
        return Document(
            content=unmasked(item) if isinstance(item, str) else str(item), query=query, span_id=span_id
        )
    if "document.content" in item:  # OpenInference's names inside a list
        item = {key.removeprefix("document."): value for key, value in item.items()}
    outer = item
    for key in ("document", "node", "kwargs"):
        if isinstance(item.get(key), dict):
            item = item[key]
    content = next((_text(item[k]) for k in _TEXTS if item.get(k)), None)
    metadata = parse(item.get("metadata") if item.get("metadata") is not None else item.get("meta"))
    if content is None and isinstance(metadata, dict):
        content = text_among(metadata)
    score = outer.get("score", outer.get("relevance_score", item.get("score")))
    identity = item.get("id", item.get("document_id", item.get("id_", outer.get("id"))))
    return Document(
        content=content,
        id=None if identity is None else str(identity),
        score=float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None,
        metadata={k: v for k, v in metadata.items() if not is_masked(v)}
        if isinstance(metadata, dict)
        else {},
        query=query,
        span_id=span_id,
    )
