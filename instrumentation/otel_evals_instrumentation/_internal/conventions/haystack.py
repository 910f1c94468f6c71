"""Haystack's own tracer: pipelines, components and agents as `haystack.*` tags, their content as JSON."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

_OWN = "haystack."
_NAMES = kinds(
    workflow="haystack.pipeline.run haystack.async_pipeline.run",
    agent="haystack.agent.run",
    inference="haystack.agent.step.llm",
    tool="haystack.agent.step.tool haystack.tool.run",
)
_COMPONENTS = kinds(retrieval="Retriever Ranker", embedding="Embedder", inference="Generator", agent="Agent")


def haystack() -> Convention:
    """Return the dialect of Haystack's OpenTelemetry tracer."""
    return Convention(
        name="haystack",
        markers=words("component.name pipeline.input_data pipeline.metadata agent.max_steps tool.name", _OWN),
        names=AttributeNames(
            input=words("agent.input agent.step.llm.input component.input pipeline.input_data", _OWN),
            output=words("agent.output agent.step.llm.output component.output pipeline.output_data", _OWN),
            tool_name=words("tool.name component.name", _OWN),
            tool_id=(_OWN + "tool.call.id",),
            arguments=words("tool.input tool.arguments component.input", _OWN),
            result=words("tool.output tool.result component.output", _OWN),
            documents=(_OWN + "component.output",),
            query=(_OWN + "component.input",),
            name=(_OWN + "component.name",),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    if span.name in _NAMES:
        return _NAMES[span.name]
    component = str(span.attributes.get(_OWN + "component.type", ""))
    return next((kind for end, kind in _COMPONENTS.items() if component.endswith(end)), OperationKind.OTHER)
