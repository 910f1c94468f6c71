"""Braintrust's OpenTelemetry SDKs (Go, Java, .NET, Ruby): `braintrust.*`, all of it JSON."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import (
    PLATFORM,
    AttributeNames,
    Convention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import kind_of_function, kinds, words

_OWN = "braintrust."
_INPUT, _OUTPUT = words("input_json input", _OWN), words("output_json output", _OWN)
_KINDS = kinds(inference="llm", tool="tool", workflow="task")


def braintrust() -> Convention:
    """Return the dialect of Braintrust's SDKs."""
    return Convention(
        name="braintrust",
        scopes=("braintrust",),
        order=PLATFORM,
        markers=(_OWN + "span_attributes", *_INPUT, *_OUTPUT),
        names=AttributeNames(
            input=_INPUT,
            output=_OUTPUT,
            arguments=("gen_ai.tool.call.arguments", *_INPUT),
            result=("gen_ai.tool.call.result", *_OUTPUT),
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    recorded = parse(span.attributes.get(_OWN + "span_attributes"))
    kind = recorded.get("type") if isinstance(recorded, dict) else None
    if isinstance(kind, str):
        return _KINDS.get(kind, OperationKind.OTHER)
    if "gen_ai.operation.name" in span.attributes or "gen_ai.tool.name" in span.attributes:
        return None
    return kind_of_function(span)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read model, provider, user and tokens from two JSON objects."""
    metadata = reader.mapping(_OWN + "metadata")
    reader.offer_metadata(metadata)
    reader.offer("request_model", metadata.get("model"))
    reader.offer("provider", metadata.get("provider"))
    reader.offer_usage(reader.attributes.get(_OWN + "metrics"))
    return kind
