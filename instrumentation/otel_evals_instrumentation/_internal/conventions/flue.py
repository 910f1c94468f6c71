"""Flue: OpenTelemetry's names for models, `flue.*` for what is around them."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention

_BY_KEY = (
    ("flue.tool.name", OperationKind.TOOL),
    ("flue.tool.call_id", OperationKind.TOOL),
    ("flue.turn.input", OperationKind.INFERENCE),
    ("flue.workflow.name", OperationKind.WORKFLOW),
    ("flue.task.agent", OperationKind.AGENT),
    ("flue.task.prompt", OperationKind.AGENT),
)


def flue() -> Dialect:
    """The dialect of Flue's OpenTelemetry adapter."""
    return Convention(
        name="flue",
        scopes=("@flue/",),
        markers=(
            "flue.turn.input",
            "flue.tool.name",
            "flue.task.id",
            "flue.operation.kind",
            "flue.workflow.name",
        ),
        names=AttributeNames(
            input=("flue.turn.input", "flue.task.prompt", "flue.workflow.payload", "gen_ai.input.messages"),
            output=(
                "flue.turn.output",
                "flue.task.result",
                "flue.operation.result",
                "flue.workflow.result",
                "gen_ai.output.messages",
            ),
            tool_name=("flue.tool.name", "gen_ai.tool.name"),
            tool_id=("flue.tool.call_id", "gen_ai.tool.call.id"),
            arguments=("flue.tool.arguments", "gen_ai.tool.call.arguments"),
            result=("flue.tool.result", "gen_ai.tool.call.result"),
            agent_name=("flue.task.agent", "gen_ai.agent.name", "flue.agent.name"),
            conversation_id=("gen_ai.conversation.id", "flue.session.name", "flue.session.id"),
            name=("flue.workflow.name",),
        ),
        kind_of=_kind,
        records_turns=True,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    if "gen_ai.operation.name" in span.attributes:
        return None
    kind = next((kind for key, kind in _BY_KEY if key in span.attributes), None)
    if kind is None and span.name.startswith("flue.operation"):
        return OperationKind.WORKFLOW if "flue.operation.result" in span.attributes else OperationKind.OTHER
    return kind or OperationKind.OTHER
