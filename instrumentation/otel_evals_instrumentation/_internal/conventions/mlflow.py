"""MLflow's OTLP export: every value is JSON, texts included."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import PLATFORM, SpanConvention, kind_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import (
    kind_named,
    kind_of_function,
    usage_in,
    words,
)

_INPUT, _OUTPUT = "mlflow.spanInputs", "mlflow.spanOutputs"

_STREAM = "{'_all_messages': "
"""Beginning of the result of a stream of pydantic-ai's: its fields instead of the answer."""


def mlflow() -> SpanConvention:
    """Return the convention of MLflow's tracing."""
    return SpanConvention(
        name="mlflow",
        content="always on",
        scopes=("mlflow",),
        order=PLATFORM,
        markers=words("mlflow.spanType mlflow.spanInputs mlflow.spanOutputs"),
        names=AttributeNames(
            input="mlflow.spanInputs",
            output="mlflow.spanOutputs",
            arguments="mlflow.spanInputs",
            result="mlflow.spanOutputs",
            documents="mlflow.spanOutputs",
            query="mlflow.spanInputs",
            definitions="mlflow.chat.tools",
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    own = span.attributes.get("mlflow.spanType")
    known = kind_named(own) if own != "null" else None  # null on spans of other libraries
    return known or kind_of(span) or kind_of_function(span)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read names and numbers that are JSON too."""
    fields, attributes = reader.fields, reader.attributes
    for field_name, key in (
        ("response_model", "mlflow.llm.model"),
        ("request_model", "model"),
        ("provider", "mlflow.llm.provider"),
        ("conversation_id", "mlflow.trace.session"),
        ("user_id", "mlflow.trace.user"),
    ):
        value = parse(attributes.get(key))
        if isinstance(value, str) and value:
            fields[field_name] = value
    if kind is OperationKind.INFERENCE:
        reader.offer("request_model", reader.mapping(_INPUT).get("model"))
        reader.offer("response_model", reader.mapping(_OUTPUT).get("model"))
    usage = usage_in(attributes.get("mlflow.chat.tokenUsage"))
    if usage is not None:
        fields["usage"] = usage
    if kind is OperationKind.AGENT:
        name = parse(attributes.get("name"))
        fields["agent_name"] = (
            fields.get("agent_name") or (isinstance(name, str) and name) or reader.span.name
        )
        if fields["output_messages"] and fields["output_messages"][-1].text.startswith(_STREAM):
            fields["output_messages"] = ()
            reader.noted.pop("output", None)
    return kind
