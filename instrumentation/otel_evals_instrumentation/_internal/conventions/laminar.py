"""Laminar: `lmnr.span.*` for functions and tools, OpenTelemetry's old and new names for models."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import PLATFORM, AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kind_of_function, kinds

_KINDS = kinds(inference="LLM CACHED", tool="TOOL", workflow="PIPELINE EXECUTOR")
_PROPERTIES = "lmnr.association.properties."


def laminar() -> Convention:
    """Return the dialect of Laminar's SDKs."""
    return Convention(
        name="laminar",
        scopes=("lmnr",),
        order=PLATFORM,
        markers=("lmnr.span.type", "lmnr.span.input", "lmnr.span.output"),
        names=AttributeNames(
            input=("gen_ai.input.messages", "gen_ai.prompt.*", "lmnr.span.input"),
            output=("gen_ai.output.messages", "gen_ai.completion.*", "lmnr.span.output"),
            arguments=("gen_ai.tool.call.arguments", "lmnr.span.input"),
            result=("gen_ai.tool.call.result", "lmnr.span.output"),
            conversation_id=(_PROPERTIES + "session_id",),
            user_id=(_PROPERTIES + "user_id",),
        ),
        kind_of=_kind,
        records_turns=True,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get("lmnr.span.type")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None and "gen_ai.operation.name" not in span.attributes and kind in (None, "DEFAULT", "SPAN"):
        if "gen_ai.request.model" in span.attributes or "gen_ai.system" in span.attributes:
            return OperationKind.INFERENCE
        return kind_of_function(span)
    return known
