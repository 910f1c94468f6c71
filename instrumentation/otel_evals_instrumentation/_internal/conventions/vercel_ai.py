"""Vercel AI SDK 3 to 6: `ai.*`. From version 7 on it writes OpenTelemetry's names."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.parts import text_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_parts import tool_call
from otel_evals_instrumentation._internal.readers.usage import first_count, usage_in
from otel_evals_instrumentation._internal.readers.values import parse, unquoted

_METADATA = "ai.telemetry.metadata."


def _early(name: str) -> tuple[str, ...]:
    """An attribute's names in the first versions of Mastra, which put the function before them."""
    functions = ("stream", "generateText", "streamText", "streamObject", "generateObject")
    return tuple(f"{function}.{name}" for function in functions)


_OF_MODELS = frozenset(
    ("ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.response.object", "aisdk.model.id")
)
"""A call of a model whose operation is not told; Mastra 0.2x wrote such."""
_OBJECTS = ("ai.model", "ai.response", "ai.usage")
"""What early versions wrote as one object each."""
_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls", *_early("response.toolCalls"))


def vercel_ai() -> Dialect:
    """The dialect of the AI SDK's experimental telemetry."""
    return Convention(
        name="vercel_ai",
        markers=(
            "ai.operationId",
            "ai.model.id",
            "ai.toolCall.name",
            "ai.toolCall.args",
            "ai.prompt",
            "ai.prompt.messages",
            "ai.response.text",
            "ai.response.object",
            "ai.response.providerMetadata",
            "aisdk.model.id",
            "ai.model",
            "ai.response",
            "ai.usage.inputTokens",
            "ai.usage.promptTokens",
            "ai.usage.cachedInputTokens",
        ),
        names=AttributeNames(
            input=(
                "ai.prompt.messages",
                "ai.prompt",
                *_early("prompt.messages"),
                "ai.values",
                "ai.value",
            ),
            answer=(
                "ai.response.text",
                "ai.result.text",
                *_early("response.text"),
                "ai.response.object",
                "ai.result.object",
                *_early("response.object"),
            ),
            tool_name=("ai.toolCall.name",),
            tool_id=("ai.toolCall.id",),
            arguments=("ai.toolCall.args", "ai.toolCall.input"),
            result=("ai.toolCall.result", "ai.toolCall.output"),
            definitions=("ai.prompt.tools",),
            provider=("gen_ai.system", "ai.model.provider", "aisdk.model.provider"),
            request_model=("gen_ai.request.model", "ai.model.id", "aisdk.model.id"),
            response_model=("gen_ai.response.model", "ai.response.model"),
            response_id=("gen_ai.response.id", "ai.response.id"),
            finish=("gen_ai.response.finish_reasons", "ai.response.finishReason", "ai.finishReason"),
            input_tokens=(
                "gen_ai.usage.input_tokens",
                "ai.usage.inputTokens",
                "ai.usage.promptTokens",
                *_early("usage.inputTokens"),
            ),
            output_tokens=(
                "gen_ai.usage.output_tokens",
                "ai.usage.outputTokens",
                "ai.usage.completionTokens",
                *_early("usage.outputTokens"),
            ),
            cache_tokens=(
                "ai.usage.cachedInputTokens",
                "ai.usage.inputTokenDetails.cacheReadTokens",
                *_early("usage.cachedInputTokens"),
                *_early("usage.inputTokenDetails.cacheReadTokens"),
            ),
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
    attributes = span.attributes
    told = unquoted(attributes.get("ai.operationId", attributes.get("operation.name", span.name)))
    operation = (
        told.partition(" ")[0] if isinstance(told, str) else ""
    )  # older versions add the function's id
    if operation == "ai.toolCall" or "ai.toolCall.name" in attributes or "ai.toolCall.args" in attributes:
        return OperationKind.TOOL
    if not operation.startswith("ai."):
        if "gen_ai.operation.name" in attributes:
            return None
        known = not _OF_MODELS.isdisjoint(attributes)
        return OperationKind.INFERENCE if known else None
    if operation.startswith("ai.embed"):
        return OperationKind.EMBEDDING
    if ".do" in operation:
        return OperationKind.INFERENCE
    return OperationKind.AGENT if operation.startswith(("ai.generate", "ai.stream")) else OperationKind.OTHER


def _read_objects(reader: SpanReader) -> None:
    """Model, response and tokens where each is one object."""
    fields = reader.fields
    model, response, usage = (parse(reader.attributes.get(key)) for key in _OBJECTS)
    if isinstance(model, dict) and isinstance(model.get("id"), str):
        fields.setdefault("request_model", model["id"])
    if isinstance(response, dict) and not fields.get("output_messages"):
        said = response.get("text") or response.get("object")
        if said:
            fields["output_messages"] = (
                Message(role="assistant", parts=(Part(kind="text", text=text_of(said)),)),
            )
            reader.note("output", "ai.response")
    counts = usage_in(usage)
    if counts is not None:
        fields.setdefault("usage", counts)


def _read_provider(reader: SpanReader) -> None:
    """Cached and reasoning tokens, which some versions leave among the words of the provider."""
    usage = reader.fields.get("usage")
    told = parse(reader.attributes.get("ai.response.providerMetadata"))
    if usage is None or not isinstance(told, dict):
        return
    for words in told.values():
        counts = words.get("usage", words) if isinstance(words, dict) else None
        if isinstance(counts, dict):
            cached = first_count(
                counts, ("cachedPromptTokens", "cache_read_input_tokens", "cacheReadInputTokens")
            )
            thought = first_count(counts, ("reasoningTokens",))
            usage = replace(
                usage,
                cache_read_tokens=usage.cache_read_tokens or cached or 0,
                reasoning_tokens=usage.reasoning_tokens or thought or 0,
            )
    reader.fields["usage"] = usage


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Tool calls of a response stand in an attribute of their own; embedded values are JSON twice."""
    if not reader.attributes.keys().isdisjoint(_OBJECTS):
        _read_objects(reader)
    if kind is OperationKind.INFERENCE:
        _read_provider(reader)
    key = next((k for k in _CALLS if k in reader.attributes), _CALLS[0])
    calls = parse(reader.attributes.get(key))
    if kind in (OperationKind.INFERENCE, OperationKind.AGENT) and isinstance(calls, (list, tuple)):
        parts = tuple(tool_call(call) for call in calls if isinstance(call, dict))
        if parts:
            text = reader.fields.get("output_messages") or ()
            said = tuple(part for message in text for part in message.parts)
            reader.fields["output_messages"] = (Message(role="assistant", parts=said + parts),)
            reader.note("output", key)
    return kind
