"""Langfuse's SDK, version 3 on: `langfuse.observation.*`."""

from __future__ import annotations

from dataclasses import replace

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord, Usage
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.values import parse

__all__ = ["langfuse"]

_KINDS = {
    "generation": OperationKind.INFERENCE,
    "agent": OperationKind.AGENT,
    "tool": OperationKind.TOOL,
    "chain": OperationKind.WORKFLOW,
    "retriever": OperationKind.RETRIEVAL,
    "embedding": OperationKind.EMBEDDING,
}
_OWN = "langfuse.observation."


def langfuse() -> Dialect:
    """The dialect of Langfuse's decorators and wrappers."""
    return Convention(
        name="langfuse",
        scopes=("langfuse-sdk", "langfuse"),
        markers=(_OWN + "type",),
        names=Names(
            input=(_OWN + "input", "langfuse.trace.input"),
            output=(_OWN + "output", "langfuse.trace.output"),
            arguments=(_OWN + "input",),
            result=(_OWN + "output",),
            documents=(_OWN + "output",),
            query=(_OWN + "input",),
            request_model=(_OWN + "model.name",),
            conversation_id=("session.id", "langfuse.session.id"),
            user_id=("user.id", "langfuse.user.id"),
            error=(_OWN + "status_message",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get(_OWN + "type")
    if kind == "span" and span.parent_span_id is None:
        return OperationKind.WORKFLOW
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    """Names stand in the span's name, tokens in one JSON object, errors in a level."""
    fields, attributes = reading.fields, reading.attributes
    usage = parse(attributes.get(_OWN + "usage_details"))
    if isinstance(usage, dict) and all(isinstance(usage.get(k), int) for k in ("input", "output")):
        fields["usage"] = Usage(input_tokens=usage["input"], output_tokens=usage["output"])
    if kind is OperationKind.AGENT:
        fields["agent_name"] = fields.get("agent_name") or reading.span.name
    call = fields.get("tool_call")
    if call is not None and attributes.get(_OWN + "level") == "ERROR":
        fields["tool_call"] = replace(call, status="error", error=call.error or reading.text("error"))
    return kind
