"""LangSmith's OpenTelemetry export: inputs and outputs as JSON in `gen_ai.prompt`, `gen_ai.completion`."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, words

_METADATA = "langsmith.metadata."


def langsmith() -> Convention:
    """Return the dialect of LangSmith's exporter."""
    return Convention(
        name="langsmith",
        scopes=("langsmith",),
        markers=("langsmith.span.kind", "langsmith.trace.name"),
        names=AttributeNames(
            tool_name=("gen_ai.tool.name", "langsmith.trace.name"),
            arguments=("gen_ai.prompt",),
            result=("gen_ai.completion",),
            documents=("gen_ai.completion",),
            query=("gen_ai.prompt",),
            conversation_id=(
                "langsmith.trace.session_id",
                *words("session_id thread_id conversation_id", _METADATA),
            ),
            user_id=(_METADATA + "user_id",),
            agent_name=(_METADATA + "lc_agent_name",),
            name=("langsmith.trace.name",),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    return kind_named(span.attributes.get("langsmith.span.kind"))
