"""Google's Agent Development Kit: OpenTelemetry's names since version 2, `gcp.vertex.agent.*` before."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names, Reading

__all__ = ["google_adk"]

_OWN = "gcp.vertex.agent."


def google_adk() -> Dialect:
    """The dialect of spans that ADK writes."""
    return Convention(
        name="google_adk",
        scopes=("gcp.vertex.agent",),
        markers=(_OWN + "invocation_id", _OWN + "event_id", _OWN + "llm_request", _OWN + "tool_call_args"),
        names=Names(
            input=("gen_ai.input.messages", _OWN + "llm_request"),
            output=("gen_ai.output.messages", _OWN + "llm_response"),
            arguments=("gen_ai.tool.call.arguments", _OWN + "tool_call_args"),
            result=("gen_ai.tool.call.result", _OWN + "tool_response"),
            conversation_id=("gen_ai.conversation.id", _OWN + "session_id"),
            user_id=("user.id", _OWN + "user_id"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    """The first versions name the agent in the span's name only: `agent_run [weather]`."""
    name = reading.span.name
    if kind is OperationKind.AGENT and "agent_name" not in reading.fields and name.endswith("]"):
        reading.fields["agent_name"] = name[name.find("[") + 1 : -1]
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    attributes, name = span.attributes, span.name
    if attributes.get("openinference.span.kind") is not None:  # OpenInference writes onto ADK's own spans
        return None
    if "(merged" in name or "(merged tools)" in str(attributes.get("gen_ai.tool.name")):
        return OperationKind.OTHER
    if name == "call_llm":
        return OperationKind.INFERENCE
    if name.startswith("execute_tool") or _OWN + "tool_call_args" in attributes:
        return OperationKind.TOOL
    if "gen_ai.operation.name" not in attributes:
        if name.startswith(("agent_run", "invoke_agent")):
            return OperationKind.AGENT
        return OperationKind.WORKFLOW if name.startswith("invocation") else OperationKind.OTHER
    return None
