"""Genkit's tracer: `genkit:*`, inputs and outputs as JSON."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import result_value
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named

_FLOW = "genkit:metadata:flow:"
_SUBTYPE = "genkit:metadata:subtype"


def genkit() -> SpanConvention:
    """Return the convention of Genkit."""
    return SpanConvention(
        name="genkit",
        content="always on",
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
            request_model="genkit:name",
            conversation_id="genkit:sessionId genkit:metadata:sessionId",
            name="genkit:name",
            error="genkit:error",
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read a model's tokens from its output, and drop the names of other actions, which are no models."""
    if kind not in (OperationKind.INFERENCE, OperationKind.EMBEDDING):
        reader.fields.pop("request_model", None)
    gave = reader.mapping("genkit:output")
    if kind is OperationKind.INFERENCE:
        reader.offer_usage(gave.get("usage"))
        reason = gave.get("finishReason")
        if isinstance(reason, str) and reason:
            reader.fields["finish_reasons"] = (reason,)
    if kind is OperationKind.TOOL and reader.attributes.get(_SUBTYPE) == "tool.v2" and "output" in gave:
        reader.change_call(result=result_value(gave["output"]))
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind by the action's type; Genkit for Go writes the flow's name on every action in it."""
    attributes = span.attributes
    kind = attributes.get(_SUBTYPE)
    if kind is None and _FLOW + "name" in attributes and _FLOW + "stepName" not in attributes:
        return OperationKind.WORKFLOW
    return kind_named(attributes.get("genkit:type") if kind is None else kind) or OperationKind.OTHER
