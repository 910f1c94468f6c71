"""LoongSuite, ARMS and Dify: `gen_ai.span.kind` beside OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import LIBRARY, Convention
from otel_evals_instrumentation._internal.readers.values import unquoted

_KIND = "gen_ai.span.kind"
_KINDS = {
    "entry": OperationKind.WORKFLOW,
    "chain": OperationKind.WORKFLOW,
    "workflow": OperationKind.WORKFLOW,
    "agent": OperationKind.AGENT,
    "llm": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "retriever": OperationKind.RETRIEVAL,
    "reranker": OperationKind.RETRIEVAL,
    "embedding": OperationKind.EMBEDDING,
}


def loongsuite() -> Dialect:
    """The dialect of spans that tell their kind in an attribute next to OpenTelemetry's."""
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
    """Steps and tasks only wrap what an agent does; what is neither told nor known is OpenTelemetry's."""
    kind = unquoted(span.attributes.get(_KIND))
    return _KINDS.get(kind.lower(), OperationKind.OTHER) if isinstance(kind, str) else None
