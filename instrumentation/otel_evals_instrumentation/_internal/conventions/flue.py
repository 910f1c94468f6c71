"""Flue: OpenTelemetry's names for models, `flue.*` for the rest."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

_BY_KEY = kinds(
    tool="flue.tool.name flue.tool.call_id",
    inference="flue.turn.input",
    workflow="flue.workflow.name",
    agent="flue.task.agent flue.task.prompt",
)
"""Kinds by attribute, the first one of a span counts."""


def flue() -> Convention:
    """Return the dialect of Flue's OpenTelemetry adapter."""
    return Convention(
        name="flue",
        scopes=("@flue/",),
        markers=words("turn.input tool.name task.id operation.kind workflow.name", "flue."),
        names=AttributeNames(
            input=words("turn.input task.prompt workflow.payload", "flue."),
            output=words("turn.output task.result operation.result workflow.result", "flue."),
            tool_name=("flue.tool.name",),
            tool_id=("flue.tool.call_id",),
            arguments=("flue.tool.arguments",),
            result=("flue.tool.result",),
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
    kind = next((kind for key, kind in _BY_KEY.items() if key in span.attributes), None)
    if kind is None and span.name.startswith("flue.operation"):
        return OperationKind.WORKFLOW if "flue.operation.result" in span.attributes else OperationKind.OTHER
    return kind or OperationKind.OTHER
