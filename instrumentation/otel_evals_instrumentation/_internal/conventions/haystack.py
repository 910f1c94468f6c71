"""Haystack's own tracer: pipelines, components and agents as `haystack.*` tags, their content as JSON."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention

_NAMES = {
    "haystack.pipeline.run": OperationKind.WORKFLOW,
    "haystack.async_pipeline.run": OperationKind.WORKFLOW,
    "haystack.agent.run": OperationKind.AGENT,
    "haystack.agent.step.llm": OperationKind.INFERENCE,
    "haystack.agent.step.tool": OperationKind.TOOL,
    "haystack.tool.run": OperationKind.TOOL,
}
_COMPONENTS = (
    ("Retriever", OperationKind.RETRIEVAL),
    ("Ranker", OperationKind.RETRIEVAL),
    ("Embedder", OperationKind.EMBEDDING),
    ("Generator", OperationKind.INFERENCE),
    ("Agent", OperationKind.AGENT),
)


def haystack() -> Dialect:
    """The dialect of spans that Haystack writes through its OpenTelemetry tracer."""
    own = "haystack."
    return Convention(
        name="haystack",
        markers=(
            own + "component.name",
            own + "pipeline.input_data",
            own + "pipeline.metadata",
            own + "agent.max_steps",
            own + "tool.name",
        ),
        names=AttributeNames(
            input=(
                own + "agent.input",
                own + "agent.step.llm.input",
                own + "component.input",
                own + "pipeline.input_data",
            ),
            output=(
                own + "agent.output",
                own + "agent.step.llm.output",
                own + "component.output",
                own + "pipeline.output_data",
            ),
            tool_name=(own + "tool.name", own + "component.name"),
            tool_id=(own + "tool.call.id",),
            arguments=(own + "tool.input", own + "tool.arguments", own + "component.input"),
            result=(own + "tool.output", own + "tool.result", own + "component.output"),
            documents=(own + "component.output",),
            query=(own + "component.input",),
            name=(own + "component.name",),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = _NAMES.get(span.name)
    if kind is not None:
        return kind
    component = str(span.attributes.get("haystack.component.type", ""))
    return next((kind for end, kind in _COMPONENTS if component.endswith(end)), OperationKind.OTHER)
