"""Langfuse: `langfuse.observation.*` of its SDK, version 3 on, and of whoever sets these on own spans."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import PLATFORM, Convention, kind_of
from otel_evals_instrumentation._internal.readers.metadata import read_metadata
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import unquoted

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
        order=PLATFORM,
        markers=(
            _OWN + "type",
            _OWN + "input",
            _OWN + "output",
            _OWN + "model.name",
            "langfuse.trace.input",
            "langfuse.trace.output",
        ),
        names=AttributeNames(
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
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = unquoted(span.attributes.get(_OWN + "type", "span"))
    if kind != "span":
        return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None
    if "gen_ai.operation.name" in span.attributes:
        return None  # Strands says so on spans of its own agents
    if _OWN + "model.name" in span.attributes or _OWN + "usage_details" in span.attributes:
        return OperationKind.INFERENCE  # what versions up to 3.3 wrote for generations
    told = kind_of(span)
    if told not in (None, OperationKind.OTHER):
        return told
    return OperationKind.WORKFLOW if span.parent_span_id is None else OperationKind.OTHER


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """AttributeNames stand in the span's name, tokens in one JSON object, errors in a level."""
    fields, attributes = reader.fields, reader.attributes
    read_metadata(reader, attributes.get("langfuse.trace.metadata"))
    usage = usage_in(attributes.get(_OWN + "usage_details"))
    if usage is not None:
        fields["usage"] = usage
    if kind is OperationKind.AGENT:
        fields["agent_name"] = fields.get("agent_name") or reader.span.name
    call = fields.get("tool_call")
    if attributes.get(_OWN + "level") == "ERROR":
        error = fields.setdefault("error", reader.text("error") or "error")
        if call is not None:
            fields["tool_call"] = replace(call, status="error", error=call.error or error)
    return kind
