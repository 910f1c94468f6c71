"""Mastra's exporter: `mastra.<span type>.input` and `.output` beside OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation.reading.convention import AttributeNames, Convention, SpanReader
from otel_evals_instrumentation.reading.values import parse

__all__ = ["mastra"]

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
            conversation_id=("gen_ai.conversation.id", _METADATA + "threadId", _METADATA + "sessionId"),
            user_id=(_METADATA + "userId", _METADATA + "resourceId"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """A step's model stands in the request that it sent, or in the metadata."""
    if kind is OperationKind.INFERENCE and not {"request_model", "response_model"} & reader.fields.keys():
        given = parse(reader.attributes.get("mastra.model_step.input"))
        body = given.get("body") if isinstance(given, dict) else None
        metadata = parse(reader.attributes.get(_METADATA + "modelMetadata"))
        for told, key in ((body, "model"), (metadata, "modelId")):
            if isinstance(told, dict) and isinstance(told.get(key), str) and told[key]:
                reader.fields.setdefault("request_model", told[key])
    return kind


def _is_request(given: object) -> bool:
    """Whether a step's input is the request that was sent, as where no spans below it tell the same."""
    return isinstance(given, str) and '"body"' in given[:20]


def _kind(span: SpanRecord) -> OperationKind | None:
    """A generation may wrap the inferences of several steps; the steps themselves only wrap them."""
    kind = span.attributes.get("mastra.span.type")
    if kind == "model_step" and not _is_request(span.attributes.get("mastra.model_step.input", '{"body"')):
        return OperationKind.OTHER
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None
