"""LoongSuite, ARMS and Dify: `gen_ai.span.kind` next to OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import LIBRARY, AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import KINDS, kind_named

_KIND = "gen_ai.span.kind"
_KINDS = {**KINDS, "entry": OperationKind.WORKFLOW}


def loongsuite() -> Convention:
    """Return the dialect of spans with a kind next to OpenTelemetry's."""
    return Convention(
        name="loongsuite",
        order=LIBRARY,
        markers=(_KIND,),
        names=AttributeNames(
            input=("gen_ai.input.messages", "gen_ai.prompt", "input.value"),
            output=("gen_ai.output.messages", "gen_ai.completion", "output.value"),
            documents=("retrieval.documents", "retrieval.document", "output.value"),
            query=("retrieval.query", "input.value"),
        ),
        kind_of=_kind,
        records_turns=True,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    return kind_named(span.attributes.get(_KIND), _KINDS)
