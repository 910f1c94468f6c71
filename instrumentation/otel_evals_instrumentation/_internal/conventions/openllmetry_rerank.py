"""Rerankers as Traceloop instruments Cohere: documents and query stand in the prompts, ranks in texts."""

from __future__ import annotations

import re
from typing import Any

from otel_evals.model import Document, Message, Part
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import unflatten, unmasked

_RANK = re.compile(r"Doc (\d+), Score: ([-+.\deE]+)(?:\n(.*))?", re.DOTALL)


def is_rerank(reader: SpanReader) -> bool:
    """Whether a span is a reranker's."""
    return reader.attributes.get("llm.request.type") == "rerank"


def read_rerank(reader: SpanReader) -> None:
    """Read the documents in their new order; the text `Doc 1, Score: 0.98` is an index and a score."""
    prompts = unflatten(reader.attributes, "gen_ai.prompt")
    given = [_content(p) for p in prompts if isinstance(p, dict) and p.get("role") == "system"]
    query = next((_content(p) for p in prompts if isinstance(p, dict) and p.get("role") == "user"), None)
    found = []
    for rank in unflatten(reader.attributes, "gen_ai.completion"):
        told = _RANK.fullmatch(_content(rank) or "")
        if told is not None:
            index, text = int(told[1]), told[3]
            content = text or (given[index] if index < len(given) else None)
            score = _number(told[2])
            found.append(
                Document(content=content, id=told[1], score=score, query=query, span_id=reader.span.span_id)
            )
    if query:
        reader.fields["input_messages"] = (Message(role="user", parts=(Part(kind="text", text=query),)),)
    if found:
        reader.fields["documents"] = tuple(found)
        reader.note("documents", "gen_ai.completion.*")


def _content(item: Any) -> str | None:
    content = item.get("content") if isinstance(item, dict) else None
    return unmasked(content) if isinstance(content, str) else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
