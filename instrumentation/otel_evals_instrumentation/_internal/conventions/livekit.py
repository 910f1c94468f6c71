"""LiveKit Agents: `lk.*`, and personal content under `lk.pii.*`."""

from __future__ import annotations

from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import tool_call
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

_KINDS = kinds(agent="agent_turn", tool="function_tool", inference="llm_node llm_request")
_REDACTED = "exception details redacted"
"""Replaces every error's text if personal data is not recorded."""
_OF_TOOLS = frozenset(("lk.function_tool.name", "lk.function_tool.id"))


def _both(names: str) -> tuple[str, ...]:
    return words(names, "lk.pii.", "lk.")


def livekit() -> SpanConvention:
    """Return the convention of LiveKit's voice agents."""
    return SpanConvention(
        name="livekit",
        content="always on; marked as personal in `lk.pii.*`",
        scopes=("livekit-agents",),
        markers=words(
            """lk.speech_id lk.generation_id lk.function_tool.name lk.function_tool.id lk.agent_name
            lk.agent_label lk.job_id lk.retry_count lk.pii.chat_ctx lk.chat_ctx lk.pii.room_name
            lk.room_name lk.pii.participant_identity lk.participant_identity lk.pii.user_input
            lk.user_input lk.pii.response.text lk.response.text lk.pii.input_text lk.input_text
            lk.pii.user_transcript lk.user_transcript lk.pii.instructions lk.instructions
            lk.pii.function_tool.output lk.function_tool.output"""
        ),
        names=AttributeNames(
            input="""
                lk.pii.user_input lk.user_input lk.pii.input_text lk.input_text lk.pii.user_transcript
                lk.user_transcript lk.pii.chat_ctx lk.chat_ctx
            """,
            answer="lk.pii.response.text lk.response.text",
            system="lk.pii.instructions lk.instructions",
            tool_name="lk.function_tool.name",
            tool_id="lk.function_tool.id",
            arguments="""
                lk.pii.function_tool.arguments lk.function_tool.arguments lk.pii.function_tool.args
                lk.function_tool.args
            """,
            result="lk.pii.function_tool.output lk.function_tool.output",
            conversation_id="lk.pii.room_name lk.room_name",
            user_id="lk.pii.participant_identity lk.participant_identity",
            agent_name="lk.agent_label lk.agent_name",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a turn, a model call or a tool; sessions and speech are others."""
    if span.attributes.get("gen_ai.operation.name") == "judge":
        return OperationKind.OTHER  # a test's verdict, with the attributes of a tool
    if span.name == "agent_session":
        return OperationKind.OTHER  # a workflow in some versions, yet each turn is a run
    kind = _KINDS.get(span.name)
    if kind is None and not _OF_TOOLS.isdisjoint(span.attributes):
        return OperationKind.TOOL
    if kind is None and "gen_ai.operation.name" in span.attributes:
        return None
    return kind or OperationKind.OTHER


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Add the calls of a response, which have their own attribute, and read the error flag of tools."""
    call = reader.fields.get("tool_call")
    if reader.fields.get("error") == _REDACTED:
        error = reader.fields["error"] = reader.fields.get("error_type") or "error"
        if call is not None:
            call = reader.change_call(error=error)
    if call is not None and reader.attributes.get("lk.function_tool.is_error") is True:
        text = call.result if isinstance(call.result, str) else None
        reader.change_call(status="error", error=call.error or text)
    key = next((k for k in _both("response.function_calls") if k in reader.attributes), None)
    asked = parse(reader.attributes[key]) if key is not None else None
    if kind is OperationKind.INFERENCE and key is not None and isinstance(asked, list) and asked:
        calls = tuple(tool_call(item) for item in asked if isinstance(item, dict))
        said = [part for m in reader.fields.get("output_messages", ()) for part in m.parts]
        texts = tuple(
            part for part in said if part.kind != "tool_call" and (part.text or part.data or part.media)
        )
        reader.set_messages("output", (Message(role="assistant", parts=(*texts, *calls)),), key)
    return kind
