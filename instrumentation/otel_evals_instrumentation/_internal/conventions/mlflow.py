"""MLflow's OTLP export: every value is JSON, texts included."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import PLATFORM, Convention, kind_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import parse

_KINDS = {
    "AGENT": OperationKind.AGENT,
    "LLM": OperationKind.INFERENCE,
    "CHAT_MODEL": OperationKind.INFERENCE,
    "CHAIN": OperationKind.WORKFLOW,
    "WORKFLOW": OperationKind.WORKFLOW,
    "TOOL": OperationKind.TOOL,
    "RETRIEVER": OperationKind.RETRIEVAL,
    "RERANKER": OperationKind.RETRIEVAL,
    "EMBEDDING": OperationKind.EMBEDDING,
}


def mlflow() -> Dialect:
    """The dialect of MLflow's tracing."""
    return Convention(
        name="mlflow",
        scopes=("mlflow",),
        order=PLATFORM,
        markers=("mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs"),
        names=AttributeNames(
            input=("mlflow.spanInputs",),
            output=("mlflow.spanOutputs",),
            arguments=("mlflow.spanInputs",),
            result=("mlflow.spanOutputs",),
            documents=("mlflow.spanOutputs",),
            query=("mlflow.spanInputs",),
            definitions=("mlflow.chat.tools",),
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = parse(span.attributes.get("mlflow.spanType"))
    if isinstance(kind, str):
        return _KINDS.get(kind.upper(), OperationKind.OTHER)
    return kind_of(span) or (OperationKind.WORKFLOW if span.parent_span_id is None else OperationKind.OTHER)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """AttributeNames and numbers are JSON too."""
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
    for field_name, key in (("request_model", "mlflow.spanInputs"), ("response_model", "mlflow.spanOutputs")):
        body = parse(attributes.get(key))
        model = body.get("model") if isinstance(body, dict) else None
        if isinstance(model, str) and model and kind is OperationKind.INFERENCE:
            fields.setdefault(field_name, model)
    usage = usage_in(attributes.get("mlflow.chat.tokenUsage"))
    if usage is not None:
        fields["usage"] = usage
    if kind is OperationKind.AGENT:
        fields["agent_name"] = fields.get("agent_name") or reader.span.name
    return kind
