"""Content beside the messages: system instructions, definitions of tools, documents; and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from otel_evals.model import Availability, Document, Message
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts, text_message
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader, has_dropped
from otel_evals_instrumentation._internal.readers.values import (
    MAX_DEPTH,
    first_present,
    first_text,
    is_masked,
    listed,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

_LONGEST_CACHED = 50_000
"""Do not cache longer definitions."""
_RECORDED = (Availability.PRESENT, Availability.TRUNCATED)
_CALLS = ("tool_call", "tool_result")


def read_system(reader: SpanReader, inputs: tuple[Message, ...], outputs: tuple[Message, ...] = ()) -> None:
    """Read the system instructions from attributes of their own, or else from messages.

    Some agents have them only in their output, with the whole conversation.
    """
    for _, key in reader.found_at.get("system", ()):
        if _set_system(reader, read_messages(reader.attributes[key], "system")):
            reader.note("system", key)
            return
    for side, messages in (("input", inputs), ("output", outputs)):
        if "system" in [message.role for message in messages] and _set_system(reader, messages):
            reader.noted["system"] = reader.noted[side]
            return


def _set_system(reader: SpanReader, messages: Iterable[Message]) -> bool:
    # A list is built without a call for each message.
    text = "\n\n".join([m.text for m in messages if m.role == "system" and m.text])
    if text:
        reader.fields["system_instructions"] = text
    return bool(text)


def read_definitions(reader: SpanReader) -> None:
    """Read the definitions of the tools that a model may call."""
    for _, key in reader.found_at.get("definitions", ()):
        value = reader.attributes[key]
        cached = type(value) is str and len(value) <= _LONGEST_CACHED
        definitions = _cached_definitions(value) if cached else _definitions(value)
        if definitions:
            reader.fields["tool_definitions"] = definitions
            return


def _definitions(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(filter(None, map(mapping, listed(value))))


_cached_definitions = lru_cache(maxsize=64)(_definitions)
"""Cached, because an application's model calls repeat the same tools."""


def take_answer(reader: SpanReader) -> None:
    """Move the assistant's messages at the end of an agent's input to its output."""
    given = reader.fields["input_messages"]
    end = len(given)
    while end and given[end - 1].role == "assistant":
        end -= 1
    if end < len(given) and not reader.fields["output_messages"]:
        reader.fields["input_messages"], reader.fields["output_messages"] = given[:end], given[end:]
        reader.note("output", reader.source_of("input") or "events")


def unwrap_state(reader: SpanReader) -> None:
    """Replace a workflow's state in a user's message by the messages in it."""
    messages = reader.fields["input_messages"]
    text = messages[0].text if len(messages) == 1 else ""
    # The text of a whole attribute is one that has no messages.
    if text[:1] == "{" and not any(value is text for value in reader.attributes.values()):
        reader.fields["input_messages"] = read_messages(text) or messages


def availability_of(reader: SpanReader, expected: Iterable[str]) -> dict[str, Availability]:
    """Return the availability of content: a message without content is empty if the other side has some.

    Without any on both sides, content capture is off. Content that may have been dropped with attributes
    counts as truncated.
    """
    found: dict[str, Availability] = {}
    for name, (_, availability) in reader.noted.items():
        found[name] = availability
    for side, other in (("input", "output"), ("output", "input")):
        if found.get(side) is Availability.EMPTY:
            calls = any(p.kind in _CALLS for m in reader.fields.get(f"{side}_messages", ()) for p in m.parts)
            is_on = found.get(other) in _RECORDED
            without = Availability.PRESENT if calls else Availability.EMPTY
            found[side] = without if is_on else Availability.CAPTURED_OFF
    missing = [name for name in expected if found.get(name) not in _RECORDED]
    if missing and has_dropped(reader.span):
        found |= dict.fromkeys(missing, Availability.TRUNCATED)
    return found


# --- retrieved documents, under any library's or instrumentation's names ---


_CONTAINERS = words(
    """documents outputs output results result retrievalResults source_nodes nodes matches hits contexts
    chunks passages"""
)
"""Keys of the list of documents in libraries' responses."""
_TEXTS = ("content", "page_content", "text", "pageContent", "body", "document")


def read_retrieval(reader: SpanReader) -> None:
    """Read a retriever's span: the query and the documents."""
    query = reader.text("query")
    messages = read_messages(query)
    asked = messages[0].text if messages else query
    if asked:
        reader.fields["input_messages"] = (text_message("user", asked),)
    for key, value in reader.with_lists("documents"):
        documents = documents_of(value, asked, reader.span.span_id)
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
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        content = content["text"]
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
        score=float(score) if type(score) in (int, float) else None,
        metadata={k: v for k, v in metadata.items() if not is_masked(v)},
        query=query,
        span_id=span_id,
    )
