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


OPERATIONS = kinds(
    inference="chat text text_completion completion generate_content generate responses response message",
    agent="invoke_agent handle_conversation_turn start_thread_run process_thread_run",
    tool="execute_tool tool",
    retrieval="retrieval retrieve vector_db_retrieve vector_search rerank search_memory",
    embedding="embeddings embedding",
    # Speech synthesis and transcription ask no model.
    other="speech text_to_speech tts transcription speech_to_text stt",
)


_TOOL = frozenset(words("name call.id call.arguments call.result", "gen_ai.tool."))
"""Attributes of tool calls only."""


_MESSAGES = frozenset(("gen_ai.input.messages", "gen_ai.output.messages"))


_OLD_MESSAGES = frozenset(
    f"gen_ai.{side}{item}"
    for side in ("prompt", "completion")
    for item in ("", ".content", ".0.role", ".0.content", ".0.tool_calls.0.name")
)


_RETRIEVALS = frozenset(("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"))


_COUNTS = frozenset(words("input_tokens output_tokens prompt_tokens completion_tokens", "gen_ai.usage."))


_EVENTS = frozenset(words("user.message choice content.prompt content.completion", "gen_ai."))


_REQUESTS = kinds(embedding="embedding", retrieval="rerank", agent="agent", workflow="workflow", tool="tool")
"""Values of `llm.request.type` other than model calls."""


_MODELS = frozenset(words("request.model response.model request_model response_model", "gen_ai."))


_REPEATED = ("model_call", "subtask")
"""Kinds of AG2's spans that repeat the tokens of other spans."""


MERGED = "(merged tools)"
"""Name under which ADK repeats parallel calls in a span without a tool."""


def kind_of(span: SpanRecord) -> OperationKind | None:
    """Return the kind by OpenTelemetry's names; None for a span that is no part of an agent."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        operation = operation if operation in OPERATIONS else str(unquoted(operation))
        if attributes.get("gen_ai.tool.name") == MERGED:
            return OperationKind.OTHER
        known = OPERATIONS.get(operation) or OPERATIONS.get(operation.partition(".")[0])
        if known is not None:
            return known
        if operation.startswith("invoke_"):
            return _request_kind(attributes) or OperationKind.WORKFLOW
        asks_model = not _MODELS.isdisjoint(attributes) and _has_messages(span)
        return _request_kind(attributes) or (OperationKind.INFERENCE if asks_model else OperationKind.OTHER)
    if attributes.get("ag2.usage.kind") in _REPEATED:
        return None
    if not _TOOL.isdisjoint(attributes) or ("tool_name" in attributes and "tool_args" in attributes):
        return OperationKind.TOOL
    kind = _request_kind(attributes)
    if kind is not None:
        return kind
    if not _RETRIEVALS.isdisjoint(attributes):
        return OperationKind.RETRIEVAL
    has_agent = "gen_ai.agent.name" in attributes
    if not _MODELS.isdisjoint(attributes) or not (has_agent or _COUNTS.isdisjoint(attributes)):
        return OperationKind.INFERENCE
    if not _MESSAGES.isdisjoint(attributes):
        return OperationKind.AGENT if has_agent else OperationKind.INFERENCE
    if _has_messages(span):
        return OperationKind.INFERENCE
    return OperationKind.OTHER if any(key.startswith("gen_ai.") for key in attributes) else None


def _has_messages(span: SpanRecord) -> bool:
    attributes = span.attributes
    if not _MESSAGES.isdisjoint(attributes) or not _OLD_MESSAGES.isdisjoint(attributes):
        return True
    return any(event.name in _EVENTS for event in (*span.events, *span.logs))


def _request_kind(attributes: Mapping[str, Any]) -> OperationKind | None:
    kind = attributes.get("llm.request.type")
    return _REQUESTS.get(kind, OperationKind.INFERENCE) if isinstance(kind, str) else None
