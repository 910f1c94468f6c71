"""Lists of words, and the words for kinds of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.values import unquoted


def kinds(**words: str) -> dict[str, OperationKind]:
    """Return a table of the kind of each word: `kinds(tool="tool function", inference="llm")`."""
    return {word: OperationKind[kind.upper()] for kind, listed in words.items() for word in listed.split()}


KINDS = kinds(
    agent="agent",
    workflow="workflow chain flow",
    inference="llm chat_model generation model background-model",
    tool="tool tool.v2",
    retrieval="retriever reranker rag",
    embedding="embedding embedder",
)
"""Words that frameworks and platforms have in common."""


def kind_named(word: Any, known: Mapping[str, OperationKind] = KINDS) -> OperationKind | None:
    """Return the kind that a word names, in any case; OTHER for an unknown word, None without a word."""
    word = unquoted(word)
    return known.get(word.lower(), OperationKind.OTHER) if isinstance(word, str) else None


def kind_of_function(span: SpanRecord) -> OperationKind:
    """Return the kind of an application's function: the outermost one is the workflow."""
    return OperationKind.WORKFLOW if span.parent_span_id is None else OperationKind.OTHER


def words(listed: str, *prefixes: str) -> tuple[str, ...]:
    """Return the words of a list, each with each of the prefixes."""
    return tuple(prefix + word for word in listed.split() for prefix in prefixes or ("",))
