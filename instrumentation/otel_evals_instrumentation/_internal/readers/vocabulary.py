"""Lists of words: for kinds of operations, and for token counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import OperationKind, SpanRecord, Usage
from otel_evals_instrumentation._internal.readers.values import first_text, literal, parse, unquoted


def kinds(**words: str) -> dict[str, OperationKind]:
    """Return a table of the kind of each word: `kinds(tool="tool function", inference="llm")`."""
    return {word: OperationKind[kind.upper()] for kind, listed in words.items() for word in listed.split()}


KINDS = kinds(
    agent="agent agent_run agent_call user_prompt chat_client interaction session_task.turn",
    workflow="workflow chain flow entry pipeline executor workflow_run",
    inference="""llm chat_model chatmodel generation model background-model chat completion cached llm_call
    llm_request handle_responses model_inference model_generation model_step llm_generation""",
    tool="""tool tool.v2 tool_call mcp_tool_call client_tool_call provider_tool_call tool_execution
    tool.execution tools/call""",
    retrieval="retriever reranker rag retrieval vector_store rag_vector_operation",
    embedding="embedding embedder rag_embedding",
)
"""Words that frameworks and platforms have in common."""


def kind_named(word: Any, known: Mapping[str, OperationKind] = KINDS) -> OperationKind | None:
    """Return the kind that a word names, in any case; OTHER for an unknown word, None without a word."""
    word = unquoted(word)
    return known.get(word.lower(), OperationKind.OTHER) if isinstance(word, str) else None


def kind_by_start(name: str, starts: Mapping[str, OperationKind]) -> OperationKind | None:
    """Return the kind of the first of these beginnings that a name has."""
    return next((kind for start, kind in starts.items() if name.startswith(start)), None)


def kind_of_function(span: SpanRecord) -> OperationKind:
    """Return the kind of an application's function: the outermost one is the workflow."""
    return OperationKind.WORKFLOW if span.parent_span_id is None else OperationKind.OTHER


def words(listed: str, *prefixes: str) -> tuple[str, ...]:
    """Return the words of a list, each with each of the prefixes."""
    return tuple(prefix + word for word in listed.split() for prefix in prefixes or ("",))


OPERATIONS = kinds(
    inference="""chat text text_completion completion generate_content generate responses response message
    call_llm""",
    agent="agent invoke_agent handle_conversation_turn start_thread_run process_thread_run",
    workflow="workflow",
    tool="execute_tool tool",
    # LiteLLM's asynchronous calls have an `a` before their names.
    retrieval="retrieval retrieve vector_db_retrieve vector_search rerank arerank search_memory",
    embedding="embeddings embedding aembedding",
    # Speech synthesis and transcription ask no model.
    other="speech aspeech text_to_speech tts transcription atranscription speech_to_text stt",
)


_TOOL = frozenset((*words("name call.id call.arguments call.result", "gen_ai.tool."), "tool.mode"))
"""Attributes of tool calls only; the last one is Ax's."""
_OLD_TOOL = {"tool_name", "tool_args"}


_MESSAGES = frozenset(
    words(
        """gen_ai.input.messages gen_ai.output.messages gen_ai.prompt gen_ai.prompt.content
        gen_ai.prompt.0.role gen_ai.prompt.0.content gen_ai.prompt.0.tool_calls.0.name gen_ai.completion
        gen_ai.completion.content gen_ai.completion.0.role gen_ai.completion.0.content
        gen_ai.completion.0.tool_calls.0.name"""
    )
)


_RETRIEVALS = frozenset(("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"))


_COUNTS = frozenset(words("input_tokens output_tokens prompt_tokens completion_tokens", "gen_ai.usage."))


_EVENTS = frozenset(words("user.message choice content.prompt content.completion", "gen_ai."))


_MODELS = frozenset(words("request.model response.model request_model response_model", "gen_ai."))


_OF_SDKS = words(
    """judgment.span_kind confident.span.type netra.span.type honeyhive_metadata.event_type ag.type.node
    mirascope.type span_type"""
)
"""Kinds of platforms' decorators, whose contents are in attributes of their own."""


_REPEATED = words("model_call subtask llm_invocation orchestrate_tools")
"""Kinds of AG2's and Embabel's spans, and the name of .NET's, that repeat the tokens of other spans."""


def kind_of(span: SpanRecord) -> OperationKind | None:
    """Return the kind by OpenTelemetry's names; None for a span that is no part of an agent."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if operation and isinstance(operation, str):
        operation = operation.lower()  # Java and Go have enums in capitals
        known = OPERATIONS.get(operation.partition(".")[0]) or _request_kind(attributes)
        if known is not None:
            return known
        if operation.startswith("invoke_"):
            return OperationKind.WORKFLOW
        asks_model = not _MODELS.isdisjoint(attributes) and _has_messages(span)
        return OperationKind.INFERENCE if asks_model else OperationKind.OTHER
    if attributes.get("ag2.usage.kind", attributes.get("embabel.event.type", span.name)) in _REPEATED:
        return None
    # Agent Framework's, in Python and in .NET, and Ax's.
    if span.name in ("workflow.run", "workflow_invoke") or "output_field_count" in attributes:
        return OperationKind.WORKFLOW
    if any(map(attributes.get, _TOOL)) or attributes.keys() >= _OLD_TOOL:
        return OperationKind.TOOL
    kind = _request_kind(attributes) or kind_named(first_text(attributes, _OF_SDKS))
    if kind is not None:
        return kind
    if not _RETRIEVALS.isdisjoint(attributes):
        return OperationKind.RETRIEVAL
    has_agent = "gen_ai.agent.name" in attributes
    if not _MODELS.isdisjoint(attributes) or not (has_agent or _COUNTS.isdisjoint(attributes)):
        return OperationKind.INFERENCE
    if _has_messages(span):
        return OperationKind.AGENT if has_agent else OperationKind.INFERENCE
    return OperationKind.OTHER if any(key.startswith("gen_ai.") for key in attributes) else None


def _has_messages(span: SpanRecord) -> bool:
    recorded = (event.name in _EVENTS for event in (*span.events, *span.logs))
    return not _MESSAGES.isdisjoint(span.attributes) or any(recorded)


def _request_kind(attributes: Mapping[str, Any]) -> OperationKind | None:
    kind = attributes.get("llm.request.type")
    return OPERATIONS.get(kind, OperationKind.INFERENCE) if isinstance(kind, str) else None


# --- token counts in one object, under any provider's names ---


_CACHE = words(
    """cache_read_input_tokens cached_input input_cache_read input_cached_tokens cached_input_tokens
    cachedInputTokens cached_content_token_count cachedContentTokenCount cachedContentTokens
    prompt_cached_tokens cached_token_count cached_prompt_tokens cachedPromptTokens cacheReadInputTokens"""
)
_REASONING = words(
    """reasoning_tokens reasoningTokens thoughts_token_count thoughtsTokenCount thoughtsTokens
    completion_reasoning_tokens reasoning_token_count output_reasoning"""
)
_COUNTED = {
    "input_tokens": words(
        """input_tokens inputTokens prompt_tokens promptTokens prompt_token_count promptTokenCount
        input_token_count input prompt"""
    ),
    "output_tokens": words(
        """output_tokens outputTokens completion_tokens completionTokens
        candidates_token_count candidatesTokenCount output_token_count output completion"""
    ),
    "cache_read_tokens": _CACHE,
    "cache_write_tokens": words(
        """cache_creation_input_tokens cache_write_input_tokens cacheWriteInputTokens cache_write_tokens
        cache_creation_tokens input_cache_creation input_cache_write"""
    ),
    "reasoning_tokens": _REASONING,
}
_COUNT = re.compile("[0-9]{1,15}")


def usage_in(value: Any) -> Usage | None:
    """Return the token counts of an object, its JSON or its Python literal; None if it has none."""
    counts = literal(parse(value))
    if not isinstance(counts, Mapping):
        return None
    usage = make_usage({name: first_count(counts, keys) for name, keys in _COUNTED.items()})
    return usage if usage is None or "total" not in counts else _with_parts(usage, counts)


def _with_parts(usage: Usage, counts: Mapping[str, Any]) -> Usage:
    """Add cached and reasoning tokens to input and output if the total shows that these exclude them.

    Langfuse counts such tokens under `input_*` and `output_*`, apart from `input` and `output`.
    """
    given, said = (
        sum(first_count(counts, (key,)) or 0 for key in counts if key.startswith(side))
        for side in ("input_", "output_")
    )
    if first_count(counts, ("total",)) != usage.total_tokens + given + said:
        return usage
    return replace(usage, input_tokens=usage.input_tokens + given, output_tokens=usage.output_tokens + said)


def make_usage(counts: Mapping[str, int | None]) -> Usage | None:
    """Return a usage from counts by its fields; None if input and output are unknown."""
    known = {name: count for name, count in counts.items() if count is not None}
    return Usage(**known) if known.keys() & {"input_tokens", "output_tokens"} else None


def with_details(usage: Usage, counts: Mapping[str, Any]) -> Usage:
    """Add the cached and reasoning tokens that a usage lacks."""
    return replace(
        usage,
        cache_read_tokens=usage.cache_read_tokens or first_count(counts, _CACHE) or 0,
        reasoning_tokens=usage.reasoning_tokens or first_count(counts, _REASONING) or 0,
    )


def first_count(counts: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """Return the first of these keys that is a natural number; None if there is none."""
    for key in keys:
        value = counts.get(key)
        if type(value) is str and _COUNT.fullmatch(value):
            return int(value)
        # The bounds exclude NaN and infinity, which `int` refuses.
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
            return int(value)
    return None


# --- roles of messages ---


_OTHER_ROLES = {
    "human": "user",
    "developer": "system",
    **dict.fromkeys(words("ai model bot chatbot tool-call tool_call"), "assistant"),
    **dict.fromkeys(words("function tool_response tool-response toolresult"), "tool"),
}
ROLES = ("user", "assistant", "tool", "system")
_ENUM = re.compile(r"^\w*role(?:\.|::|_)")
"""Name of an enum before a role, as in `MessageRole.USER`, `ROLE_USER` and `Role::User`."""
LANGCHAIN = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
}


def role_of(name: Any, default: str = "user") -> str:
    """Return OpenTelemetry's name of a role."""
    if not isinstance(name, str) or not name:
        return default
    role = name.lower()
    role = role if role in ROLES else _ENUM.sub("", role)
    return _OTHER_ROLES.get(role, role)
