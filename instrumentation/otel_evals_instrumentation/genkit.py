"""Genkit's tracer: `genkit:*`, inputs and outputs as JSON."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names

__all__ = ["genkit"]

_KINDS = {
    "flow": OperationKind.WORKFLOW,
    "model": OperationKind.INFERENCE,
    "background-model": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "tool.v2": OperationKind.TOOL,
    "retriever": OperationKind.RETRIEVAL,
    "reranker": OperationKind.RETRIEVAL,
    "embedder": OperationKind.EMBEDDING,
}


def genkit() -> Dialect:
    """The dialect of Genkit."""
    return Convention(
        name="genkit",
        scopes=("genkit",),
        markers=("genkit:type", "genkit:name"),
        names=Names(
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
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get("genkit:metadata:subtype", span.attributes.get("genkit:type"))
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else OperationKind.OTHER
