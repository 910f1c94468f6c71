"""Braintrust's OpenTelemetry SDKs (Go, Java, .NET, Ruby): `braintrust.*`, all of it JSON."""

from __future__ import annotations

from typing import Any

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import PLATFORM, Convention
from otel_evals_instrumentation._internal.readers.metadata import read_metadata
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import parse

_OWN = "braintrust."
_KINDS = {
    "llm": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "function": OperationKind.OTHER,
    "task": OperationKind.WORKFLOW,
    "eval": OperationKind.OTHER,
    "score": OperationKind.OTHER,
}


def braintrust() -> Dialect:
    """The dialect of spans that Braintrust's SDKs write."""
    return Convention(
        name="braintrust",
        scopes=("braintrust",),
        order=PLATFORM,
        markers=(
            _OWN + "span_attributes",
            _OWN + "input_json",
            _OWN + "output_json",
            _OWN + "input",
            _OWN + "output",
        ),
        names=AttributeNames(
            input=(_OWN + "input_json", _OWN + "input"),
            output=(_OWN + "output_json", _OWN + "output"),
            arguments=("gen_ai.tool.call.arguments", _OWN + "input_json", _OWN + "input"),
            result=("gen_ai.tool.call.result", _OWN + "output_json", _OWN + "output"),
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _type(span: SpanRecord) -> str | None:
    told = parse(span.attributes.get(_OWN + "span_attributes"))
    kind = told.get("type") if isinstance(told, dict) else None
    return kind if isinstance(kind, str) else None


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = _type(span)
    if kind is not None:
        return _KINDS.get(kind, OperationKind.OTHER)
    if "gen_ai.operation.name" in span.attributes or "gen_ai.tool.name" in span.attributes:
        return None
    return OperationKind.WORKFLOW if span.parent_span_id is None else OperationKind.OTHER


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Model, provider, user and tokens stand in two JSON objects."""
    fields = reader.fields
    metadata: Any = parse(reader.attributes.get(_OWN + "metadata"))
    read_metadata(reader, metadata)
    if isinstance(metadata, dict):
        for field, key in (("request_model", "model"), ("provider", "provider")):
            if isinstance(metadata.get(key), str) and metadata[key]:
                fields.setdefault(field, metadata[key])
    usage = usage_in(reader.attributes.get(_OWN + "metrics"))
    if usage is not None:
        fields.setdefault("usage", usage)
    return kind
