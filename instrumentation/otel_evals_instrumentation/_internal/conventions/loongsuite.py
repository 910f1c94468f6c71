"""LoongSuite, ARMS, Dify and traceAI: `gen_ai.span.kind` next to OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import (
    LIBRARY,
    AttributeNames,
    Convention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.vocabulary import KINDS, kind_named, words

_KIND = "gen_ai.span.kind"
_KINDS = {**KINDS, "entry": OperationKind.WORKFLOW}


def loongsuite() -> Convention:
    """Return the dialect of spans with a kind next to OpenTelemetry's."""
    return Convention(
        name="loongsuite",
        order=LIBRARY,
        markers=(_KIND,),
        names=AttributeNames(
            input=words("gen_ai.input.messages gen_ai.input.messages.* gen_ai.prompt input.value"),
            output=words("gen_ai.output.messages gen_ai.output.messages.* gen_ai.completion output.value"),
            documents=words("retrieval.documents retrieval.documents.* retrieval.document output.value"),
            query=("retrieval.query", "input.value"),
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read the model from the call's parameters, where streamed and failed calls of traceAI have it."""
    if kind is OperationKind.INFERENCE and "response_model" not in reader.fields:
        reader.offer("request_model", reader.mapping("gen_ai.request.parameters").get("model"))
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    return kind_named(span.attributes.get(_KIND), _KINDS)
