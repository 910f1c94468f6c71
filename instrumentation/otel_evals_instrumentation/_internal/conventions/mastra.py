"""Mastra's exporter: `mastra.<span type>.input` and `.output` beside OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.parts import text_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

_KINDS = {
    "agent_run": OperationKind.AGENT,
    "workflow_run": OperationKind.WORKFLOW,
    "model_inference": OperationKind.INFERENCE,
    "model_generation": OperationKind.INFERENCE,
    "model_step": OperationKind.INFERENCE,
    "tool_call": OperationKind.TOOL,
    "mcp_tool_call": OperationKind.TOOL,
    "client_tool_call": OperationKind.TOOL,
    "provider_tool_call": OperationKind.TOOL,
    "llm_generation": OperationKind.INFERENCE,
    "rag_vector_operation": OperationKind.RETRIEVAL,
    "rag_embedding": OperationKind.EMBEDDING,
}
_TOOLS = ("tool_call", "mcp_tool_call", "client_tool_call", "provider_tool_call")
_METADATA = "mastra.metadata."


def mastra() -> Dialect:
    """The dialect of Mastra's OpenTelemetry exporter."""
    return Convention(
        name="mastra",
        scopes=("@mastra/",),
        markers=("mastra.span.type",),
        names=AttributeNames(
            input=(
                "mastra.agent_run.input",
                "mastra.workflow_run.input",
                "gen_ai.input.messages",
                "mastra.model_inference.input",
                "mastra.model_generation.input",
                "mastra.model_step.input",
                "mastra.llm_generation.input",
                "input",
            ),
            output=(
                "mastra.agent_run.output",
                "mastra.workflow_run.output",
                "gen_ai.output.messages",
                "mastra.model_inference.output",
                "mastra.model_generation.output",
                "mastra.model_step.output",
                "mastra.llm_generation.output",
                "output",
            ),
            arguments=("gen_ai.tool.call.arguments", *(f"mastra.{tool}.input" for tool in _TOOLS)),
            result=("gen_ai.tool.call.result", *(f"mastra.{tool}.output" for tool in _TOOLS)),
            documents=("mastra.rag_vector_operation.output",),
            query=("mastra.rag_vector_operation.input",),
            tool_name=("gen_ai.tool.name", "tool.name"),
            system=("gen_ai.system_instructions", "mastra.agent.instructions"),
            # The first versions wrote metadata without a namespace.
            conversation_id=(
                "gen_ai.conversation.id",
                *(prefix + name for prefix in (_METADATA, "") for name in ("threadId", "sessionId")),
            ),
            user_id=tuple(prefix + name for prefix in (_METADATA, "") for name in ("userId", "resourceId")),
            agent_name=("gen_ai.agent.name", "mastra.agent.id", "agent.id", "gen_ai.agent.id"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """A step's model stands in the request that it sent, or in the metadata; objects beside empty texts."""
    if not any(message.text for message in reader.fields.get("output_messages", ())):
        _read_object(reader, kind)
    if kind is OperationKind.INFERENCE and not {"request_model", "response_model"} & reader.fields.keys():
        given = parse(reader.attributes.get("mastra.model_step.input"))
        body = given.get("body") if isinstance(given, dict) else None
        metadata = parse(reader.attributes.get(_METADATA + "modelMetadata"))
        for told, key in ((body, "model"), (metadata, "modelId")):
            if isinstance(told, dict) and isinstance(told.get(key), str) and told[key]:
                reader.fields.setdefault("request_model", told[key])
    return kind


def _read_object(reader: SpanReader, kind: OperationKind) -> None:
    """A structured answer, which stands beside a text that is empty."""
    if kind not in (OperationKind.AGENT, OperationKind.INFERENCE):
        return
    for _, key in reader.found_at.get("output", ()):
        gave = parse(reader.attributes[key])
        if isinstance(gave, dict) and gave.get("text") == "" and isinstance(gave.get("object"), (dict, list)):
            said = Part(kind="text", text=text_of(gave["object"]))
            reader.fields["output_messages"] = (Message(role="assistant", parts=(said,)),)
            reader.note("output", key)
            return


def _is_request(given: object) -> bool:
    """Whether a step's input is the request that was sent, as where no spans below it tell the same."""
    return isinstance(given, str) and '"body"' in given[:20]


def _kind(span: SpanRecord) -> OperationKind | None:
    """A generation may wrap the inferences of several steps; the steps themselves only wrap them."""
    kind = span.attributes.get("mastra.span.type")
    if kind == "model_step" and not _is_request(span.attributes.get("mastra.model_step.input", '{"body"')):
        return OperationKind.OTHER
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None
