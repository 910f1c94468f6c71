"""VoltAgent: `entity.*`, `agent.messages`, `llm.messages`, plain `input` and `output`."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, words


def voltagent() -> Convention:
    """Return the dialect of VoltAgent's own tracing."""
    return Convention(
        name="voltagent",
        scopes=("@voltagent/",),
        markers=words(
            """voltagent.operation_id voltagent.conversation_id agent.messages llm.messages
            entity.type"""
        ),
        names=AttributeNames(
            input=("agent.messages", "llm.messages", "input"),
            output=("output",),
            system=("agent.instructions",),
            tool_name=("tool.name",),
            tool_id=("tool.call.id",),
            arguments=("input", "tool.arguments"),
            result=("output", "tool.result"),
            documents=("output",),
            query=("input",),
            provider=("llm.provider", "ai.model.provider"),
            request_model=("llm.model", "ai.model.name"),
            finish=("llm.finish_reason", "ai.response.finish_reason"),
            input_tokens=("usage.prompt_tokens", "llm.usage.prompt_tokens"),
            output_tokens=("usage.completion_tokens", "llm.usage.completion_tokens"),
            cache_tokens=("usage.cached_tokens", "llm.usage.cached_tokens"),
            reasoning_tokens=("usage.reasoning_tokens", "llm.usage.reasoning_tokens"),
            conversation_id=("conversation.id", "voltagent.conversation_id"),
            agent_name=("subagent.name", "entity.name"),
            name=("entity.name",),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the span's own type; inside an agent, the entity is always the agent."""
    own = span.attributes.get("span.type")
    return kind_named(own if isinstance(own, str) else span.attributes.get("entity.type"))
