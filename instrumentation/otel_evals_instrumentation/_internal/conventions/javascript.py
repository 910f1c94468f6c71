"""Frameworks for JavaScript: Flue and VoltAgent."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, kinds, words

# --- Flue: OpenTelemetry's names for models, `flue.*` for the rest ---


_BY_KEY = kinds(
    tool="flue.tool.name flue.tool.call_id",
    inference="flue.turn.input",
    workflow="flue.workflow.name",
    agent="flue.task.agent flue.task.prompt",
)
"""Kinds by attribute, the first one of a span counts."""


def flue() -> SpanConvention:
    """Return the convention of Flue's OpenTelemetry adapter."""
    return SpanConvention(
        name="flue",
        content="`content: { enabled: true }` of the adapter",
        scopes=("@flue/",),
        markers=words("flue.turn.input flue.tool.name flue.task.id flue.operation.kind flue.workflow.name"),
        names=AttributeNames(
            input="flue.turn.input flue.task.prompt flue.workflow.payload",
            output="flue.turn.output flue.task.result flue.operation.result flue.workflow.result",
            tool_name="flue.tool.name",
            tool_id="flue.tool.call_id",
            arguments="flue.tool.arguments",
            result="flue.tool.result",
            agent_name="flue.task.agent gen_ai.agent.name flue.agent.name",
            conversation_id="gen_ai.conversation.id flue.session.name flue.session.id",
            name="flue.workflow.name",
        ),
        kind_of=_flue_kind,
        records_turns=True,
    )


def _flue_kind(span: SpanRecord) -> OperationKind | None:
    if "gen_ai.operation.name" in span.attributes:
        return None
    kind = next((kind for key, kind in _BY_KEY.items() if key in span.attributes), None)
    if kind is None and span.name.startswith("flue.operation"):
        return OperationKind.WORKFLOW if "flue.operation.result" in span.attributes else OperationKind.OTHER
    return kind or OperationKind.OTHER


# --- VoltAgent: `entity.*`, `agent.messages`, `llm.messages`, plain `input` and `output` ---


def voltagent() -> SpanConvention:
    """Return the convention of VoltAgent's own tracing."""
    return SpanConvention(
        name="voltagent",
        content="always on",
        scopes=("@voltagent/",),
        markers=words(
            """voltagent.operation_id voltagent.conversation_id agent.messages llm.messages
            entity.type"""
        ),
        names=AttributeNames(
            input="agent.messages llm.messages input",
            output="output",
            system="agent.instructions",
            tool_name="tool.name",
            tool_id="tool.call.id",
            arguments="input tool.arguments",
            result="output tool.result",
            documents="output",
            query="input",
            provider="llm.provider ai.model.provider",
            request_model="llm.model ai.model.name",
            finish="llm.finish_reason ai.response.finish_reason",
            input_tokens="usage.prompt_tokens llm.usage.prompt_tokens",
            output_tokens="usage.completion_tokens llm.usage.completion_tokens",
            cache_tokens="usage.cached_tokens llm.usage.cached_tokens",
            reasoning_tokens="usage.reasoning_tokens llm.usage.reasoning_tokens",
            conversation_id="conversation.id voltagent.conversation_id",
            agent_name="subagent.name entity.name",
            name="entity.name",
        ),
        kind_of=_voltagent_kind,
    )


def _voltagent_kind(span: SpanRecord) -> OperationKind | None:
    """Return the span's own type; inside an agent, the entity is always the agent."""
    own = span.attributes.get("span.type")
    return kind_named(own if isinstance(own, str) else span.attributes.get("entity.type"))
