"""Mastra's exporter: `mastra.<span type>.input` and `.output` next to OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, kinds, words

_RUNS = "agent_run workflow_run"
_TOOLS = "tool_call mcp_tool_call client_tool_call provider_tool_call"
_MODELS = "model_inference model_generation model_step llm_generation"
_KINDS = kinds(
    agent="agent_run",
    workflow="workflow_run",
    inference=_MODELS,
    tool=_TOOLS,
    retrieval="rag_vector_operation",
    embedding="rag_embedding",
)
_SESSIONS = "threadId sessionId"
_METADATA = "mastra.metadata."


def _of(types: str, side: str) -> tuple[str, ...]:
    return tuple(f"{name}.{side}" for name in words(types, "mastra."))


def mastra() -> SpanConvention:
    """Return the convention of Mastra's OpenTelemetry exporter."""
    return SpanConvention(
        name="mastra",
        content="always on",
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
        _read_object(reader, kind)
    if kind is OperationKind.INFERENCE and not {"request_model", "response_model"} & reader.fields.keys():
        body = reader.mapping("mastra.model_step.input").get("body")
        reader.offer("request_model", body.get("model") if isinstance(body, dict) else None)
        reader.offer("request_model", reader.mapping(_METADATA + "modelMetadata").get("modelId"))
    return kind


def _read_object(reader: SpanReader, kind: OperationKind) -> None:
    """Read a structured answer, which is next to an empty text."""
    if kind not in (OperationKind.AGENT, OperationKind.INFERENCE):
        return
    for _, key in reader.found_at.get("output", ()):
        gave = reader.mapping(key)
        if gave.get("text") == "" and isinstance(gave.get("object"), (dict, list)):
            reader.set_messages("output", (text_message("assistant", text_of(gave["object"])),), key)
            return


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind; a step whose input is not its request only wraps its model call."""
    kind = span.attributes.get("mastra.span.type")
    given = span.attributes.get("mastra.model_step.input", '"body"')
    is_wrapper = kind == "model_step" and '"body"' not in str(given)[:20]
    return OperationKind.OTHER if is_wrapper else kind_named(kind, _KINDS)
