"""Genkit's tracer: `genkit:*`, inputs and outputs as JSON."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named

_FLOW = "genkit:metadata:flow:"


def genkit() -> Convention:
    """Return the dialect of Genkit."""
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
    """Read a model's tokens from its output, and drop the names of other actions, which are no models."""
    if kind not in (OperationKind.INFERENCE, OperationKind.EMBEDDING):
        reader.fields.pop("request_model", None)
    usage = usage_in(reader.mapping("genkit:output").get("usage"))
    if kind is OperationKind.INFERENCE and usage is not None:
        reader.fields["usage"] = usage
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    if _FLOW + "name" in span.attributes and _FLOW + "stepName" not in span.attributes:
        return OperationKind.WORKFLOW
    kind = span.attributes.get("genkit:metadata:subtype", span.attributes.get("genkit:type"))
    return kind_named(kind) or OperationKind.OTHER
