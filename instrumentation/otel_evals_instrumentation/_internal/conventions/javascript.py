"""Frameworks for JavaScript: Flue, VoltAgent, Mastra, Genkit."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.tool_values import result_value
from otel_evals_instrumentation._internal.readers.values import mapping
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
    return next((kind for key, kind in _BY_KEY.items() if key in span.attributes), OperationKind.OTHER)


# --- VoltAgent: `entity.*`, `agent.messages`, `llm.messages`, plain `input` and `output` ---


def voltagent() -> SpanConvention:
    """Return the convention of VoltAgent's own tracing."""
    return SpanConvention(
        name="voltagent",
        scopes=("@voltagent/",),
        markers=words(
            """voltagent.operation_id voltagent.conversation_id agent.messages llm.messages
            entity.type"""
        ),
        names=AttributeNames(
            input="agent.messages llm.messages input",
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
            cache_read_tokens="usage.cached_tokens llm.usage.cached_tokens",
            reasoning_tokens="usage.reasoning_tokens llm.usage.reasoning_tokens",
            conversation_id="conversation.id voltagent.conversation_id",
            agent_name="subagent.name entity.name",
            name="entity.name",
        ),
        # Inside an agent, the entity is always the agent.
        kind_of=lambda span: kind_named(span.attributes.get("span.type", span.attributes.get("entity.type"))),
    )


# --- Mastra's exporter: `mastra.<span type>.input` and `.output` next to OpenTelemetry's names ---


def mastra() -> SpanConvention:
    """Return the convention of Mastra's OpenTelemetry exporter."""
    return SpanConvention(
        name="mastra",
        scopes=("@mastra/",),
        markers=("mastra.span.type",),
        names=AttributeNames(
            input="""
                mastra.agent_run.input mastra.workflow_run.input gen_ai.input.messages
                mastra.model_inference.input mastra.model_generation.input mastra.model_step.input
                mastra.llm_generation.input input
            """,
            output="""
                mastra.agent_run.output mastra.workflow_run.output gen_ai.output.messages
                mastra.model_inference.output mastra.model_generation.output mastra.model_step.output
                mastra.llm_generation.output output
            """,
            arguments="""
                gen_ai.tool.call.arguments mastra.tool_call.input mastra.mcp_tool_call.input
                mastra.client_tool_call.input mastra.provider_tool_call.input
            """,
            result="""
                gen_ai.tool.call.result mastra.tool_call.output mastra.mcp_tool_call.output
                mastra.client_tool_call.output mastra.provider_tool_call.output
            """,
            documents="mastra.rag_vector_operation.output",
            query="mastra.rag_vector_operation.input",
            tool_name="gen_ai.tool.name tool.name",
            system="gen_ai.system_instructions mastra.agent.instructions",
            conversation_id="""
                gen_ai.conversation.id mastra.metadata.threadId mastra.metadata.sessionId threadId sessionId
            """,
            user_id="mastra.metadata.userId mastra.metadata.resourceId userId resourceId",
            agent_name="gen_ai.agent.name mastra.agent.id agent.id gen_ai.agent.id",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read structured answers, and a step's model from its request or from the metadata."""
    if not any(message.text for message in reader.fields.get("output_messages", ())):
        _read_object(reader)
    if kind is OperationKind.INFERENCE and not {"request_model", "response_model"} & reader.fields.keys():
        body = mapping(reader.mapping("mastra.model_step.input").get("body"))
        reader.offer("request_model", body.get("model"))
        reader.offer("request_model", reader.mapping("mastra.metadata.modelMetadata").get("modelId"))
    return kind


def _read_object(reader: SpanReader) -> None:
    """Read a structured answer, which is next to an empty text."""
    for key in reader.found_at.get("output", ()):
        gave = reader.mapping(key)
        if gave.get("text") == "" and isinstance(gave.get("object"), (dict, list)):
            reader.set_messages("output", (text_message("assistant", text_of(gave["object"])),), key)
            return


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind; a step whose input is not its request only wraps its model call."""
    kind = span.attributes.get("mastra.span.type")
    # A step whose input was not recorded counts as the call.
    given = span.attributes.get("mastra.model_step.input", '"body"')
    is_wrapper = kind == "model_step" and '"body"' not in str(given)[:20]
    return OperationKind.OTHER if is_wrapper else kind_named(kind)


# --- Genkit's tracer: `genkit:*`, inputs and outputs as JSON ---


_SUBTYPE = "genkit:metadata:subtype"


def genkit() -> SpanConvention:
    """Return the convention of Genkit."""
    return SpanConvention(
        name="genkit",
        scopes=("genkit",),
        markers=("genkit:type", "genkit:name"),
        names=AttributeNames(
            input="genkit:input",
            output="genkit:output",
            tool_name="genkit:name",
            arguments="genkit:input",
            result="genkit:output",
            documents="genkit:output",
            query="genkit:input",
            error="genkit:error",
        ),
        kind_of=_genkit_kind,
        records_turns=True,
        refine=_genkit_refine,
    )


def _genkit_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read an action's name as what it names, unless it is Genkit's own, and a model's tokens."""
    if reader.attributes.get("genkit:type") != "util":
        is_model = kind in (OperationKind.INFERENCE, OperationKind.EMBEDDING)
        reader.offer("request_model" if is_model else "name", reader.text("tool_name"))
    gave = reader.mapping("genkit:output")
    if kind is OperationKind.INFERENCE:
        reader.offer_usage(gave.get("usage"))
        reader.offer_finish(gave.get("finishReason"))
    if reader.attributes.get(_SUBTYPE) == "tool.v2" and "output" in gave:
        reader.change_call(result=result_value(gave["output"]))
    return kind


def _genkit_kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind by the action's type; a `util` is Genkit's own span around a model and its tools."""
    kind = span.attributes.get(_SUBTYPE) or span.attributes.get("genkit:type")
    return OperationKind.WORKFLOW if kind == "util" else kind_named(kind) or OperationKind.OTHER
