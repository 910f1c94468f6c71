"""Genkit's tracer: `genkit:*`, inputs and outputs as JSON."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import parse

_KINDS = {
    "flow": OperationKind.WORKFLOW,
    "model": OperationKind.INFERENCE,
    "background-model": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "tool.v2": OperationKind.TOOL,
    "retriever": OperationKind.RETRIEVAL,
    "reranker": OperationKind.RETRIEVAL,
    "embedder": OperationKind.EMBEDDING,
    "agent": OperationKind.AGENT,
}


def genkit() -> Dialect:
    """The dialect of Genkit."""
    return Convention(
        name="genkit",
        scopes=("genkit",),
        markers=("genkit:type", "genkit:name"),
        names=AttributeNames(
            input=("genkit:input",),
            output=("genkit:output",),
            tool_name=("genkit:name",),
            arguments=("genkit:input",),
            result=("genkit:output",),
            documents=("genkit:output",),
            query=("genkit:input",),
            request_model=("genkit:name",),
            conversation_id=("genkit:sessionId", "genkit:metadata:sessionId"),
            name=("genkit:name",),
            error=("genkit:error",),
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """A model's tokens stand in its output; what other actions are called is no model."""
    if kind not in (OperationKind.INFERENCE, OperationKind.EMBEDDING):
        reader.fields.pop("request_model", None)
    output = parse(reader.attributes.get("genkit:output")) if kind is OperationKind.INFERENCE else None
    usage = usage_in(output.get("usage")) if isinstance(output, dict) else None
    if usage is not None:
        reader.fields["usage"] = usage
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    if (
        "genkit:metadata:flow:name" in span.attributes
        and "genkit:metadata:flow:stepName" not in span.attributes
    ):
        return OperationKind.WORKFLOW
    kind = span.attributes.get("genkit:metadata:subtype", span.attributes.get("genkit:type"))
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else OperationKind.OTHER
