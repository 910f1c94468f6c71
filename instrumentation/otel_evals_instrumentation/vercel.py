"""Vercel AI SDK 3 to 6: `ai.*`. From version 7 on it writes OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.parts import tool_call
from otel_evals_instrumentation.values import parse

__all__ = ["vercel"]

_METADATA = "ai.telemetry.metadata."


def vercel() -> Dialect:
    """The dialect of the AI SDK's experimental telemetry."""
    return Convention(
        name="vercel_ai",
        markers=("ai.operationId", "ai.model.id", "ai.toolCall.name"),
        names=Names(
            input=("ai.prompt.messages", "ai.prompt", "ai.values", "ai.value"),
            answer=("ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"),
            tool_name=("ai.toolCall.name",),
            tool_id=("ai.toolCall.id",),
            arguments=("ai.toolCall.args", "ai.toolCall.input"),
            result=("ai.toolCall.result", "ai.toolCall.output"),
            definitions=("ai.prompt.tools",),
            provider=("gen_ai.system", "ai.model.provider"),
            request_model=("gen_ai.request.model", "ai.model.id"),
            response_model=("gen_ai.response.model", "ai.response.model"),
            response_id=("gen_ai.response.id", "ai.response.id"),
            finish=("gen_ai.response.finish_reasons", "ai.response.finishReason", "ai.finishReason"),
            input_tokens=("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
            output_tokens=(
                "gen_ai.usage.output_tokens",
                "ai.usage.outputTokens",
                "ai.usage.completionTokens",
            ),
            cache_tokens=("ai.usage.cachedInputTokens", "ai.usage.inputTokenDetails.cacheReadTokens"),
            reasoning_tokens=("ai.usage.reasoningTokens", "ai.usage.outputTokenDetails.reasoningTokens"),
            conversation_id=(
                _METADATA + "sessionId",
                _METADATA + "session.id",
                _METADATA + "threadId",
                _METADATA + "conversationId",
                _METADATA + "chatId",
            ),
            user_id=(_METADATA + "userId", _METADATA + "user.id"),
            agent_name=("ai.telemetry.functionId", "resource.name"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    operation = span.attributes.get("ai.operationId")
    if not isinstance(operation, str):
        return None
    if operation == "ai.toolCall":
        return OperationKind.TOOL
    if operation.startswith("ai.embed"):
        return OperationKind.EMBEDDING
    if ".do" in operation:
        return OperationKind.INFERENCE
    return OperationKind.AGENT if operation.startswith(("ai.generate", "ai.stream")) else OperationKind.OTHER


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    """Tool calls of a response stand in an attribute of their own; embedded values are JSON twice."""
    calls = parse(
        reading.attributes.get("ai.response.toolCalls", reading.attributes.get("ai.result.toolCalls"))
    )
    if kind is OperationKind.INFERENCE and isinstance(calls, (list, tuple)):
        parts = tuple(tool_call(call) for call in calls if isinstance(call, dict))
        if parts:
            text = reading.fields.get("output_messages") or ()
            said = tuple(part for message in text for part in message.parts)
            reading.fields["output_messages"] = (Message(role="assistant", parts=said + parts),)
            reading.note("output", "ai.response.toolCalls")
    return kind
