"""Which attribute holds what: a convention's table of names, and OpenTelemetry's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import itemgetter

_MOST_SHAPES = 1_000
_MOST_NAMES = 64
"""Attributes of a span whose names are worth remembering together."""


class FieldsByAttribute:
    """The table turned round: which fields a span's attributes may hold.

    The spans of an instrumentation have few different sets of attributes, so the answers are remembered.
    """

    __slots__ = ("_fields", "known")

    def __init__(self, fields: Mapping[str, tuple[tuple[str, int], ...]]) -> None:
        self._fields = fields
        self.known: dict[tuple[str, ...], dict[str, tuple[tuple[int, str], ...]]] = {}
        """By the names of a span's attributes: what `find` gave for them."""

    def find(self, names: tuple[str, ...]) -> dict[str, tuple[tuple[int, str], ...]]:
        """By field: those of these attributes that may hold it, as (rank, name), most trusted first."""
        made = self._made(names)
        if len(names) <= _MOST_NAMES:
            if len(self.known) >= _MOST_SHAPES:
                self.known.clear()
            self.known[names] = made
        return made

    def _made(self, names: tuple[str, ...]) -> dict[str, tuple[tuple[int, str], ...]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for name in names:
            for field, rank in self._fields.get(name, ()):
                found.setdefault(field, []).append((rank, name))
        return {field: tuple(sorted(hits, key=itemgetter(0))) for field, hits in found.items()}


@dataclass(frozen=True)
class AttributeNames:
    """Attribute names by field, most trusted first.

    A name that ends in `.*` stands for a list that is spelled out in keys: `gen_ai.prompt.*` is the list of
    `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`, `gen_ai.prompt.1.role` and so on.
    """

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    """Final answers: kept as the text they are, even where it is JSON."""
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
    """All counts as one object."""
    conversation_id: tuple[str, ...] = ()
    user_id: tuple[str, ...] = ()
    agent_name: tuple[str, ...] = ()
    agent_version: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    """Name of the workflow or retriever."""
    error: tuple[str, ...] = ()
    error_type: tuple[str, ...] = ()
    new_messages_from: tuple[str, ...] = ()

    def __add__(self, other: AttributeNames) -> AttributeNames:
        """These names before the others."""
        merged = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return AttributeNames(**{name: tuple(dict.fromkeys(keys)) for name, keys in merged.items()})


def fields_by_attribute(names: AttributeNames) -> FieldsByAttribute:
    """The table turned round."""
    index: dict[str, list[tuple[str, int]]] = {}
    for field in fields(names):
        for rank, key in enumerate(getattr(names, field.name)):
            if not key.endswith(".*"):
                index.setdefault(key, []).append((field.name, rank))
    return FieldsByAttribute({key: tuple(hits) for key, hits in index.items()})


def _in_metadata(*words: str) -> tuple[str, ...]:
    """Attributes in which applications say who asked, in the namespaces that libraries leave to them."""
    namespaces = (
        "ai.telemetry.metadata.",
        "traceloop.association.properties.",
        "lmnr.association.properties.",
        "langsmith.metadata.",
        "mastra.metadata.",
        "metadata.",
    )
    return tuple(namespace + word for namespace in namespaces for word in words)


GEN_AI = AttributeNames(
    # Last the bare words, which Pipecat, Logfire and others write beside OpenTelemetry's names.
    # After these, what OpenInference and platforms add to the spans of others.
    input=(
        "gen_ai.input.messages",
        "gen_ai.prompt",
        "gen_ai.prompt.*",
        "gen_ai.prompt.content",
        "input",
        "events",
        "llm.input_messages.*",
        "input.value",
        "langfuse.observation.input",
        "mlflow.spanInputs",
    ),
    output=(
        "gen_ai.output.messages",
        "gen_ai.completion",
        "gen_ai.completion.*",
        "gen_ai.completion.content",
        "output",
        "events",
        "llm.output_messages.*",
        "output.value",
        "langfuse.observation.output",
        "mlflow.spanOutputs",
    ),
    system=(
        "gen_ai.system_instructions",
        "gen_ai.system.instructions",
        "gen_ai.agent.system_prompt",
        "system_prompt",
    ),
    tool_name=("gen_ai.tool.name", "tool_name"),
    tool_id=("gen_ai.tool.call.id",),
    arguments=(
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.arguments",
        "gen_ai.tool.input",
        "tool_arguments",
        "tool_args",
        "input",
        "input.value",
        "mlflow.spanInputs",
    ),
    result=(
        "gen_ai.tool.call.result",
        "gen_ai.tool.result",
        "gen_ai.tool.output",
        "tool_response",
        "code.function.return.value",
        "output",
        "output.value",
        "mlflow.spanOutputs",
    ),
    documents=("gen_ai.retrieval.documents", "gen_ai.memory.records"),
    query=("gen_ai.retrieval.query.text", "gen_ai.retrieval.query", "gen_ai.memory.query.text"),
    definitions=("gen_ai.tool.definitions",),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    request_model=("gen_ai.request.model", "gen_ai.request_model", "llm.model_name", "model"),
    response_model=("gen_ai.response.model", "gen_ai.response_model", "mlflow.llm.model"),
    response_id=("gen_ai.response.id",),
    finish=("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
    input_tokens=(
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "gen_ai.response.prompt_tokens",
        "llm.token_count.prompt",
    ),
    output_tokens=(
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "gen_ai.response.completion_tokens",
        "llm.token_count.completion",
    ),
    cache_tokens=(
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.cache_read_tokens",
        "gen_ai.usage.cached_input_tokens",
        "gen_ai.usage.input_cached_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.details.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    cache_write_tokens=(
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_tokens",
        "gen_ai.usage.details.cache_write_tokens",
        "gen_ai.usage.details.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    reasoning_tokens=(
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
        "llm.token_count.completion_details.reasoning",
    ),
    usage=("gen_ai.usage.details", "gen_ai.usage"),
    conversation_id=(
        # Platforms' SDKs put theirs on anybody's spans; an application set Langfuse's itself.
        "langfuse.session.id",
        "gen_ai.conversation.id",
        "session.id",
        "gen_ai.thread.id",
        "langwatch.thread.id",
        "langfuse.trace.metadata.langfuse_session_id",
        "langfuse.observation.metadata.langfuse_session_id",
        *_in_metadata("session_id", "sessionId", "session.id", "thread_id", "threadId"),
        *_in_metadata("conversation_id", "conversationId", "chat_id", "chatId"),
        "gen_ai.session.id",
        "conversation.id",
        "session_id",
        "thread_id",
        "conversation_id",
        "langwatch.thread_id",
        "mlflow.trace.session",
    ),
    user_id=(
        "user.id",
        "enduser.id",
        "langfuse.user.id",
        "langwatch.user.id",
        "langfuse.trace.metadata.langfuse_user_id",
        "langfuse.observation.metadata.langfuse_user_id",
        *_in_metadata("user_id", "userId", "user.id"),
        "gen_ai.user.id",
        "user_id",
        "langwatch.user_id",
        "mlflow.trace.user",
        # What a model's provider was told of who asked.
        "llm.user",
        "gen_ai.request.user",
        "enduser.pseudo.id",
    ),
    agent_name=("gen_ai.agent.name", "gen_ai.agent", "agent.name"),
    agent_version=("gen_ai.agent.version",),
    name=("gen_ai.workflow.name", "gen_ai.data_source.id"),
    error=("error.message", "exception.message", "span.error.message"),
    error_type=("error.type", "exception.type"),
)
"""OpenTelemetry's own names, current and old. Every table ends with them: many write both."""
