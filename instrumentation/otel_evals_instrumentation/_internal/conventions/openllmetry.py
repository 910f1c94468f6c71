"""OpenLLMetry (Traceloop): `traceloop.*`, entity inputs and outputs, both forms of `gen_ai.*`."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.conventions import openllmetry_llamaindex
from otel_evals_instrumentation._internal.conventions.openllmetry_langchain import read_documents
from otel_evals_instrumentation._internal.conventions.openllmetry_rerank import is_rerank, read_rerank
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import LIBRARY, Convention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_parts import result_value, unwrapped_value
from otel_evals_instrumentation._internal.readers.values import unquoted

_KINDS = {
    "workflow": OperationKind.WORKFLOW,
    "agent": OperationKind.AGENT,
    "tool": OperationKind.TOOL,
    "llm": OperationKind.INFERENCE,
    "task": OperationKind.OTHER,
}
_LIBRARIES = (
    "openai.v",
    "agno",
    "alephalpha",
    "anthropic",
    "bedrock",
    "cohere",
    "crewai",
    "google_generativeai",
    "groq",
    "haystack",
    "langchain",
    "llamaindex",
    "mistralai",
    "ollama",
    "replicate",
    "sagemaker",
    "together",
    "transformers",
    "watsonx",
    "writer",
)
"""Libraries that nobody else instruments under such a scope."""

_MCP = "opentelemetry.instrumentation.mcp"
"""Wraps results in `{"result": ...}`."""

_PROPERTIES = "traceloop.association.properties."


def openllmetry() -> Dialect:
    """The dialect of Traceloop's instrumentations and decorators."""
    return Convention(
        name="openllmetry",
        order=LIBRARY,
        scopes=("traceloop.", *("opentelemetry.instrumentation." + library for library in _LIBRARIES)),
        markers=(
            "traceloop.span.kind",
            "traceloop.entity.name",
            "traceloop.workflow.name",
            "llm.request.type",
        ),
        names=AttributeNames(
            input=(
                "gen_ai.input.messages",
                "gen_ai.prompt.*",
                "traceloop.entity.input",
                "crewai.task.description",
            ),
            output=("gen_ai.output.messages", "gen_ai.completion.*", "traceloop.entity.output"),
            answer=("crewai.crew.result",),
            tool_name=("gen_ai.tool.name", "gen_ai.completion.tool.name", "traceloop.entity.name"),
            arguments=("gen_ai.tool.call.arguments", "tool.arguments", "traceloop.entity.input"),
            result=("gen_ai.tool.call.result", "traceloop.entity.output"),
            documents=("traceloop.entity.output",),
            query=("traceloop.entity.input",),
            conversation_id=(
                _PROPERTIES + "session_id",
                _PROPERTIES + "thread_id",
                _PROPERTIES + "conversation_id",
            ),
            user_id=(_PROPERTIES + "user_id",),
            finish=("gen_ai.response.finish_reasons", "gen_ai.completion.0.finish_reason"),
            agent_name=("gen_ai.agent.name", "agno.team.name"),
            name=("traceloop.workflow.name", "traceloop.entity.name"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """CrewAI's conversation stands in the repr of its tasks' outputs; LlamaIndex' steps are JSON twice."""
    if reader.span.scope_name == openllmetry_llamaindex.SCOPE:
        openllmetry_llamaindex.read_step(reader)
    if kind is OperationKind.OTHER:
        read_documents(reader)
    if kind is OperationKind.WORKFLOW and reader.span.parent_span_id is None:
        reader.fields["stands_alone"] = reader.attributes.get("traceloop.span.kind") == "workflow"
    if is_rerank(reader):
        read_rerank(reader)
    call = reader.fields.get("tool_call")
    if call is not None and reader.span.scope_name.startswith(_MCP):
        reader.fields["tool_call"] = replace(call, result=result_value(unwrapped_value(call.result)))
    if reader.span.scope_name.endswith(".agno"):
        _read_agno(reader)
    tasks = reader.attributes.get("crewai.crew.tasks_output")
    if isinstance(tasks, str):
        answer = reader.fields.get("output_messages", ())
        told = [m for m in read_messages(tasks, "assistant") if m.role in ("assistant", "tool")]
        if told:
            reader.fields["output_messages"] = (*told, *answer)
    return kind


def _read_agno(reader: SpanReader) -> None:
    """A call whose output was recorded and whose input was not had no arguments."""
    call = reader.fields.get("tool_call")
    silent = "traceloop.entity.input" not in reader.attributes
    if (
        call is not None
        and call.arguments is None
        and silent
        and "traceloop.entity.output" in reader.attributes
    ):
        reader.fields["tool_call"] = replace(call, arguments={})


def _kind(span: SpanRecord) -> OperationKind | None:
    if span.scope_name == openllmetry_llamaindex.SCOPE:
        return openllmetry_llamaindex.kind_of_step(span)
    if "gen_ai.operation.name" in span.attributes and span.name != "crewai.workflow":
        return None
    if span.name == "crewai.workflow" or "crewai.task.description" in span.attributes:
        return OperationKind.WORKFLOW
    kind = unquoted(span.attributes.get("traceloop.span.kind"))
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None
