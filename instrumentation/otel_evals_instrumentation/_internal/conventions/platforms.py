"""Platforms whose SDKs add attributes to any span: Braintrust, Laminar, LangSmith, MLflow."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import (
    PLATFORM,
    AttributeNames,
    SpanConvention,
    SpanReader,
    kind_of,
)
from otel_evals_instrumentation._internal.readers.values import mapping, unquoted
from otel_evals_instrumentation._internal.readers.vocabulary import (
    KINDS,
    kind_named,
    kind_of_function,
    kinds,
    words,
)

# --- Braintrust's OpenTelemetry SDKs (Go, Java, .NET, Ruby): `braintrust.*`, all of it JSON ---


_GEN_AI = frozenset(words("operation.name tool.name", "gen_ai."))
_BRAINTRUST_KINDS = kinds(inference="llm", tool="tool", workflow="task")


def braintrust() -> SpanConvention:
    """Return the convention of Braintrust's SDKs."""
    return SpanConvention(
        name="braintrust",
        scopes=("braintrust",),
        order=PLATFORM,
        markers=words(
            """braintrust.span_attributes braintrust.input_json braintrust.input braintrust.output_json
            braintrust.output"""
        ),
        names=AttributeNames(
            input="braintrust.input_json braintrust.input",
            output="braintrust.output_json braintrust.output",
            arguments="gen_ai.tool.call.arguments braintrust.input_json braintrust.input",
            result="gen_ai.tool.call.result braintrust.output_json braintrust.output",
            usage="braintrust.metrics",
        ),
        kind_of=_braintrust_kind,
        records_turns=True,
        refine=_refine,
    )


def _braintrust_kind(span: SpanRecord) -> OperationKind | None:
    kind = mapping(span.attributes.get("braintrust.span_attributes")).get("type")
    if isinstance(kind, str):
        return _BRAINTRUST_KINDS.get(kind, OperationKind.OTHER)
    return kind_of_function(span) if _GEN_AI.isdisjoint(span.attributes) else None


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read model, provider and user from a JSON object."""
    metadata = reader.mapping("braintrust.metadata")
    reader.offer_metadata(metadata)
    reader.offer("request_model", metadata.get("model"))
    reader.offer("provider", metadata.get("provider"))
    return kind


# --- Laminar: `lmnr.span.*` for functions and tools, OpenTelemetry's old and new names for models ---


def laminar() -> SpanConvention:
    """Return the convention of Laminar's SDKs."""
    return SpanConvention(
        name="laminar",
        content="on unless `ignore_input` or `ignore_output` is set",
        scopes=("lmnr",),
        order=PLATFORM,
        markers=words("lmnr.span.type lmnr.span.input lmnr.span.output"),
        names=AttributeNames(
            input="gen_ai.input.messages gen_ai.prompt.* lmnr.span.input",
            output="gen_ai.output.messages gen_ai.completion.* lmnr.span.output",
            arguments="gen_ai.tool.call.arguments lmnr.span.input",
            result="gen_ai.tool.call.result lmnr.span.output",
        ),
        kind_of=_laminar_kind,
        records_turns=True,
    )


def _laminar_kind(span: SpanRecord) -> OperationKind | None:
    kind = str(span.attributes.get("lmnr.span.type", "SPAN"))
    if kind in ("DEFAULT", "SPAN") and "gen_ai.operation.name" not in span.attributes:
        return kind_of_function(span)
    return KINDS.get(kind.lower())


# --- LangSmith's OpenTelemetry export: inputs and outputs as JSON in `gen_ai.prompt`, `gen_ai.completion` ---


def langsmith() -> SpanConvention:
    """Return the convention of LangSmith's exporter."""
    return SpanConvention(
        name="langsmith",
        content="on unless `LANGSMITH_HIDE_INPUTS` or `LANGSMITH_HIDE_OUTPUTS` is true",
        scopes=("langsmith",),
        markers=("langsmith.span.kind", "langsmith.trace.name"),
        names=AttributeNames(
            tool_name="gen_ai.tool.name langsmith.trace.name",
            arguments="gen_ai.prompt",
            result="gen_ai.completion",
            documents="gen_ai.completion",
            query="gen_ai.prompt",
            conversation_id="""
                langsmith.trace.session_id langsmith.metadata.session_id langsmith.metadata.thread_id
                langsmith.metadata.conversation_id
            """,
            agent_name="langsmith.metadata.lc_agent_name",
            usage="langsmith.usage_metadata",
            name="langsmith.trace.name",
        ),
        kind_of=lambda span: kind_named(span.attributes.get("langsmith.span.kind")),
    )


# --- MLflow's OTLP export: every value is JSON, texts included ---


_MLFLOW_INPUT, _MLFLOW_OUTPUT = "mlflow.spanInputs", "mlflow.spanOutputs"

_STREAM = "{'_all_messages': "
"""Beginning of the result of a stream of pydantic-ai's: its fields instead of the answer."""


def mlflow() -> SpanConvention:
    """Return the convention of MLflow's tracing."""
    return SpanConvention(
        name="mlflow",
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
            provider="mlflow.llm.provider",
            usage="mlflow.chat.tokenUsage",
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_mlflow_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    own = span.attributes.get("mlflow.spanType")
    known = kind_named(own) if own != "null" else None  # null on spans of other libraries
    return known or kind_of(span) or kind_of_function(span)


def _mlflow_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read models and the agent's name."""
    fields = reader.fields
    if kind is OperationKind.INFERENCE:
        reader.offer("request_model", reader.mapping(_MLFLOW_INPUT).get("model"))
        reader.offer("response_model", reader.mapping(_MLFLOW_OUTPUT).get("model"))
    if kind is OperationKind.AGENT:
        reader.offer("agent_name", unquoted(reader.attributes.get("name")))
        reader.offer("agent_name", reader.span.name)
        if fields["output_messages"] and fields["output_messages"][-1].text.startswith(_STREAM):
            fields["output_messages"] = ()
            reader.noted.pop("output", None)
    return kind
