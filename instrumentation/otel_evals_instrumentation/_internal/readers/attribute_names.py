"""Tables of attribute names by field: a convention's, and OpenTelemetry's."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from operator import itemgetter

from otel_evals.conventions import BoundedCache
from otel_evals_instrumentation._internal.readers.vocabulary import words

_INDEX = re.compile(r"\.[0-9]+(?:\.|$)")
_MOST_SHAPES = 1_000
_MOST_NAMES = 64
"""Do not cache the names of spans with more attributes."""


class FieldsByAttribute:
    """Finds the fields that a span's attributes may contain.

    The spans of an instrumentation have few different sets of attributes, so results are cached.
    """

    __slots__ = ("_fields", "_lists", "known")

    def __init__(self, names: AttributeNames) -> None:
        # Tuples: the collector would walk a list for each of thousands of names.
        self._fields: dict[str, tuple[tuple[str, int], ...]] = {}
        self._lists: dict[str, tuple[tuple[str, int], ...]] = {}
        for field in fields(names):
            for rank, key in enumerate(getattr(names, field.name)):
                known = self._lists if key.endswith(".*") else self._fields
                known[key] = (*known.get(key, ()), (field.name, rank))
        self.known: BoundedCache[tuple[str, ...], dict[str, tuple[tuple[int, str], ...]]] = BoundedCache(
            _MOST_SHAPES
        )
        """Results of `find` by the names of a span's attributes."""

    def find(self, names: tuple[str, ...]) -> dict[str, tuple[tuple[int, str], ...]]:
        """Return the attributes for each field as (rank, name), most trusted first."""
        found: dict[str, list[tuple[int, str]]] = {}
        for name in names:
            for field, rank in self._fields.get(name, ()):
                found.setdefault(field, []).append((rank, name))
        ends = [(name, _INDEX.search(name)) for name in names]
        for name in dict.fromkeys(name[: end.start()] + ".*" for name, end in ends if end is not None):
            for field, rank in self._lists.get(name, ()):
                found.setdefault(field + ".*", found.get(field, []).copy()).append((rank, name))
        by_field = {field: tuple(sorted(hits, key=itemgetter(0))) for field, hits in found.items()}
        if len(names) <= _MOST_NAMES:
            self.known[names] = by_field
        return by_field


@dataclass(frozen=True)
class AttributeNames:
    """Attribute names by field, most trusted first.

    A name that ends in `.*` is a list with indexed keys: `gen_ai.prompt.*` is the list of
    `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`, `gen_ai.prompt.1.role` and so on.
    """

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    """Final answers, kept as text even if it is JSON."""
    system: tuple[str, ...] = ()
    tool_name: tuple[str, ...] = ()
    tool_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    request_model: tuple[str, ...] = ()
    response_model: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    cache_tokens: tuple[str, ...] = ()
    cache_write_tokens: tuple[str, ...] = ()
    reasoning_tokens: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    """Objects with all token counts."""
    conversation_id: tuple[str, ...] = ()
    user_id: tuple[str, ...] = ()
    agent_name: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    """Name of the workflow or retriever."""
    error: tuple[str, ...] = ()
    error_type: tuple[str, ...] = ()
    new_messages_from: tuple[str, ...] = ()

    def __add__(self, other: AttributeNames) -> AttributeNames:
        """Return a table with these names before the others."""
        merged = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return AttributeNames(**{name: tuple(dict.fromkeys(keys)) for name, keys in merged.items()})


def _in_metadata(listed: str) -> tuple[str, ...]:
    """Return the attributes that applications name themselves, in the namespaces reserved for them."""
    namespaces = words(
        """ai.telemetry.metadata. traceloop.association.properties. lmnr.association.properties.
        langsmith.metadata. mastra.metadata. metadata."""
    )
    return tuple(namespace + word for namespace in namespaces for word in words(listed))


# The bare words that Pipecat, Logfire and others use follow OpenTelemetry's names. The names that
# OpenInference and platforms add to the spans of others come last.
GEN_AI = AttributeNames(
    input=words(
        """gen_ai.input.messages gen_ai.input.messages.* gen_ai.prompt gen_ai.prompt.* gen_ai.prompt.content
        input events llm.input_messages.* input.value langfuse.observation.input mlflow.spanInputs"""
    ),
    output=words(
        """gen_ai.output.messages gen_ai.output.messages.* gen_ai.completion gen_ai.completion.*
        gen_ai.completion.content output events llm.output_messages.* output.value
        langfuse.observation.output mlflow.spanOutputs"""
    ),
    system=words(
        """gen_ai.system_instructions gen_ai.system.instructions gen_ai.agent.system_prompt system_prompt
        system_instructions"""
    ),
    tool_name=("gen_ai.tool.name", "tool_name"),
    tool_id=("gen_ai.tool.call.id",),
    arguments=words(
        """gen_ai.tool.call.arguments gen_ai.tool.arguments gen_ai.tool.input tool_arguments tool_args
        input input.value mlflow.spanInputs"""
    ),
    result=words(
        """gen_ai.tool.call.result gen_ai.tool.result gen_ai.tool.output tool_response
        code.function.return.value output output.value mlflow.spanOutputs"""
    ),
    documents=("gen_ai.retrieval.documents", "gen_ai.memory.records"),
    query=("gen_ai.retrieval.query.text", "gen_ai.retrieval.query", "gen_ai.memory.query.text"),
    definitions=("gen_ai.tool.definitions",),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    request_model=("gen_ai.request.model", "gen_ai.request_model", "llm.model_name", "model"),
    response_model=("gen_ai.response.model", "gen_ai.response_model", "mlflow.llm.model"),
    response_id=("gen_ai.response.id",),
    finish=("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
    input_tokens=words(
        """gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens gen_ai.response.prompt_tokens
        llm.token_count.prompt"""
    ),
    output_tokens=words(
        """gen_ai.usage.output_tokens gen_ai.usage.completion_tokens gen_ai.response.completion_tokens
        llm.token_count.completion"""
    ),
    cache_tokens=(
        *words("cache_read.input_tokens cache_read_input_tokens cache_read_tokens", "gen_ai.usage."),
        *words("cached_input_tokens input_cached_tokens", "gen_ai.usage."),
        *words("cache_read_tokens cache_read_input_tokens", "gen_ai.usage.details."),
        "llm.token_count.prompt_details.cache_read",
    ),
    cache_write_tokens=(
        *words("cache_write.input_tokens cache_creation.input_tokens", "gen_ai.usage."),
        *words("cache_creation_input_tokens cache_write_tokens", "gen_ai.usage."),
        *words("cache_write_tokens cache_creation_input_tokens", "gen_ai.usage.details."),
        "llm.token_count.prompt_details.cache_write",
    ),
    reasoning_tokens=(
        *words("reasoning.output_tokens reasoning_tokens details.reasoning_tokens", "gen_ai.usage."),
        "gen_ai.usage.thinking_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
    usage=("gen_ai.usage.details", "gen_ai.usage"),
    conversation_id=(
        # Platforms' SDKs add their ids to any span; an application sets Langfuse's itself.
        *words("langfuse.session.id gen_ai.conversation.id session.id gen_ai.thread.id langwatch.thread.id"),
        *words("langfuse_session_id", "langfuse.trace.metadata.", "langfuse.observation.metadata."),
        *_in_metadata("session_id sessionId session.id thread_id threadId"),
        *_in_metadata("conversation_id conversationId chat_id chatId"),
        *words("gen_ai.session.id conversation.id session_id thread_id conversation_id"),
        *("langwatch.thread_id", "mlflow.trace.session"),
    ),
    user_id=(
        *words("user.id enduser.id langfuse.user.id langwatch.user.id"),
        *words("langfuse_user_id", "langfuse.trace.metadata.", "langfuse.observation.metadata."),
        *_in_metadata("user_id userId user.id"),
        *words("gen_ai.user.id user_id langwatch.user_id mlflow.trace.user"),
        # User ids that are sent to the model's provider.
        *words("llm.user gen_ai.request.user enduser.pseudo.id"),
    ),
    agent_name=("gen_ai.agent.name", "gen_ai.agent", "agent.name"),
    name=("gen_ai.workflow.name", "gen_ai.data_source.id"),
    error=("error.message", "exception.message", "span.error.message"),
    error_type=("error.type", "exception.type", "gen_ai.tool.error.type"),
)
"""OpenTelemetry's current and old names. Every table ends with them, because many spans have both."""
