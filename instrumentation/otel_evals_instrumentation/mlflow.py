"""MLflow's OTLP export: every value is JSON, texts included."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord, Usage
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.values import parse

__all__ = ["mlflow"]

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
        markers=("mlflow.spanType",),
        names=Names(
            input=("mlflow.spanInputs",),
            output=("mlflow.spanOutputs",),
            arguments=("mlflow.spanInputs",),
            result=("mlflow.spanOutputs",),
            documents=("mlflow.spanOutputs",),
            query=("mlflow.spanInputs",),
            definitions=("mlflow.chat.tools",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = parse(span.attributes.get("mlflow.spanType"))
    return _KINDS.get(kind.upper(), OperationKind.OTHER) if isinstance(kind, str) else OperationKind.OTHER


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    """Names and numbers are JSON too."""
    fields, attributes = reading.fields, reading.attributes
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
    usage = parse(attributes.get("mlflow.chat.tokenUsage"))
    if isinstance(usage, dict):
        numbers = {k: v for k, v in usage.items() if isinstance(v, int)}
        fields["usage"] = Usage(
            input_tokens=numbers.get("input_tokens", 0),
            output_tokens=numbers.get("output_tokens", 0),
            cache_read_tokens=numbers.get("cache_read_input_tokens", 0),
        )
    if kind is OperationKind.AGENT:
        fields["agent_name"] = fields.get("agent_name") or reading.span.name
    return kind
