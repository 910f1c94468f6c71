"""Langfuse: `langfuse.observation.*`, recorded by its SDK since version 3 or by applications."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import (
    PLATFORM,
    AttributeNames,
    SpanConvention,
    SpanReader,
    kind_of,
)
from otel_evals_instrumentation._internal.readers.span_reader import CHECKPOINTS, agent_around
from otel_evals_instrumentation._internal.readers.values import unquoted
from otel_evals_instrumentation._internal.readers.vocabulary import (
    kind_named,
    kind_of_function,
    usage_in,
    words,
)

_OF_MODELS = frozenset(("langfuse.observation.model.name", "langfuse.observation.usage_details"))


def langfuse() -> SpanConvention:
    """Return the convention of Langfuse's decorators and wrappers."""
    return SpanConvention(
        name="langfuse",
        content="on unless `capture_input` or `capture_output` is false",
        scopes=("langfuse-sdk", "langfuse"),
        order=PLATFORM,
        markers=words(
            """langfuse.observation.type langfuse.observation.input langfuse.observation.output
            langfuse.observation.model.name langfuse.trace.input langfuse.trace.output"""
        ),
        names=AttributeNames(
            input="langfuse.observation.input langfuse.trace.input",
            output="langfuse.observation.output langfuse.trace.output",
            system="langfuse.observation.metadata.instructions",
            arguments="langfuse.observation.input",
            result="langfuse.observation.output",
            documents="langfuse.observation.output",
            query="langfuse.observation.input",
            request_model="langfuse.observation.model.name",
            conversation_id="""
                session.id langfuse.trace.metadata.thread_id langfuse.observation.metadata.thread_id
            """,
            agent_name="langfuse.observation.metadata.lc_agent_name",
            error="langfuse.observation.status_message",
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = unquoted(span.attributes.get("langfuse.observation.type", "span"))
    if kind != "span":
        return kind_named(kind)
    if "gen_ai.operation.name" in span.attributes:
        return None  # on spans of Strands' own agents
    if not _OF_MODELS.isdisjoint(span.attributes):
        return OperationKind.INFERENCE  # generations of versions up to 3.3
    known = kind_of(span)
    return kind_of_function(span) if known in (None, OperationKind.OTHER) else known


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read names from the span's name, tokens from one JSON object, and errors from a level."""
    fields, attributes = reader.fields, reader.attributes
    reader.offer_metadata(attributes.get("langfuse.trace.metadata"))
    reader.offer("agent_name", agent_around(attributes.get("langfuse.observation.metadata." + CHECKPOINTS)))
    usage = usage_in(attributes.get("langfuse.observation.usage_details"))
    if usage is not None:
        fields["usage"] = usage
    is_graph = (
        attributes.get("langfuse.observation.metadata.ls_integration") == "langgraph"
        and reader.span.name != "LangGraph"
        and reader.span.parent_span_id is None
    )
    if kind is OperationKind.AGENT or is_graph:
        reader.offer("agent_name", reader.span.name)
    if attributes.get("langfuse.observation.level") == "ERROR":
        error = fields.setdefault("error", reader.text("error") or "error")
        if kind is OperationKind.TOOL:
            reader.change_call(status="error", error=fields["tool_call"].error or error)
    return kind
