"""Vercel AI SDK 3 to 6: `ai.*`. Version 7 and later use OpenTelemetry's names."""

from __future__ import annotations

from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.inputs_outputs import add_calls
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.values import listed, mapping, unquoted
from otel_evals_instrumentation._internal.readers.vocabulary import words

_OF_MODELS = words("ai.prompt ai.prompt.messages ai.response.text ai.response.object aisdk.model.id")
"""Attributes of model calls, in Mastra 0.2x without an operation."""
_OBJECTS = ("ai.model", "ai.response", "ai.usage")
"""Attributes of early versions that are one object each."""
# Early versions of Mastra have names that begin with the function.
_EARLY = words(
    "response.toolCalls", "stream.", "generateText.", "streamText.", "streamObject.", "generateObject."
)
_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls", *_EARLY)


def vercel_ai() -> SpanConvention:
    """Return the convention of the AI SDK's experimental telemetry."""
    return SpanConvention(
        name="vercel_ai",
        content="on with `experimental_telemetry` unless `recordInputs` or `recordOutputs` is false",
        markers=words(
            """ai.operationId ai.model.id ai.toolCall.name ai.toolCall.args ai.prompt ai.prompt.messages
            ai.response.text ai.response.object aisdk.model.id ai.response.providerMetadata ai.model
            ai.response ai.usage.inputTokens ai.usage.promptTokens ai.usage.cachedInputTokens"""
        ),
        names=AttributeNames(
            input="""
                ai.prompt.messages ai.prompt stream.prompt.messages generateText.prompt.messages
                streamText.prompt.messages streamObject.prompt.messages generateObject.prompt.messages
                ai.values ai.value
            """,
            answer="""
                ai.response.text ai.result.text stream.response.text generateText.response.text
                streamText.response.text streamObject.response.text generateObject.response.text
                ai.response.object ai.result.object stream.response.object generateText.response.object
                streamText.response.object streamObject.response.object generateObject.response.object
            """,
            tool_name="ai.toolCall.name",
            tool_id="ai.toolCall.id",
            arguments="ai.toolCall.args ai.toolCall.input",
            result="ai.toolCall.result ai.toolCall.output",
            definitions="ai.prompt.tools",
            provider="gen_ai.system ai.model.provider aisdk.model.provider",
            request_model="gen_ai.request.model ai.model.id aisdk.model.id",
            response_model="gen_ai.response.model ai.response.model",
            response_id="gen_ai.response.id ai.response.id",
            finish="gen_ai.response.finish_reasons ai.response.finishReason ai.finishReason",
            input_tokens="""
                gen_ai.usage.input_tokens ai.usage.inputTokens ai.usage.promptTokens ai.usage.tokens
                stream.usage.inputTokens generateText.usage.inputTokens streamText.usage.inputTokens
                streamObject.usage.inputTokens generateObject.usage.inputTokens
            """,
            output_tokens="""
                gen_ai.usage.output_tokens ai.usage.outputTokens ai.usage.completionTokens
                stream.usage.outputTokens generateText.usage.outputTokens streamText.usage.outputTokens
                streamObject.usage.outputTokens generateObject.usage.outputTokens
            """,
            cache_read_tokens="""
                ai.usage.cachedInputTokens ai.usage.inputTokenDetails.cacheReadTokens
                stream.usage.cachedInputTokens generateText.usage.cachedInputTokens
                streamText.usage.cachedInputTokens streamObject.usage.cachedInputTokens
                generateObject.usage.cachedInputTokens stream.usage.inputTokenDetails.cacheReadTokens
                generateText.usage.inputTokenDetails.cacheReadTokens
                streamText.usage.inputTokenDetails.cacheReadTokens
                streamObject.usage.inputTokenDetails.cacheReadTokens
                generateObject.usage.inputTokenDetails.cacheReadTokens
            """,
            reasoning_tokens="ai.usage.reasoningTokens ai.usage.outputTokenDetails.reasoningTokens",
            agent_name="ai.telemetry.functionId resource.name",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    attributes = span.attributes
    named = unquoted(attributes.get("ai.operationId", attributes.get("operation.name", span.name)))
    # Older versions add the function's id.
    operation = str(named).partition(" ")[0]
    if operation == "ai.toolCall" or "ai.toolCall.name" in attributes:
        return OperationKind.TOOL
    if not operation.startswith("ai."):
        return None if attributes.keys().isdisjoint(_OF_MODELS) else OperationKind.INFERENCE
    if operation.startswith("ai.embed"):
        return OperationKind.EMBEDDING
    # `ai.generateText.doGenerate` is the model call inside of `ai.generateText`.
    if operation.endswith((".doGenerate", ".doStream")):
        return OperationKind.INFERENCE
    return OperationKind.AGENT if operation.startswith(("ai.generate", "ai.stream")) else OperationKind.OTHER


def _read_objects(reader: SpanReader) -> None:
    """Read model, response and tokens from one object each."""
    model, response, usage = map(reader.mapping, _OBJECTS)
    reader.offer("request_model", model.get("id"))
    said = response.get("text") or response.get("object")
    if said and not reader.fields.get("output_messages"):
        reader.set_messages("output", (text_message("assistant", text_of(said)),), "ai.response")
    reader.offer_usage(usage)


def _read_provider(reader: SpanReader) -> None:
    """Read cached and reasoning tokens, which some versions have in the provider's metadata."""
    for metadata in reader.mapping("ai.response.providerMetadata").values():
        counts = mapping(metadata)
        reader.fill_usage(counts.get("usage", counts))


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read objects, and the tool calls and files of a response, which have attributes of their own."""
    _read_objects(reader)
    _read_provider(reader)
    add_calls(reader, _CALLS)
    items = listed(reader.attributes.get("ai.response.files"))
    if items:
        files = tuple(read_media(mapping(item)) for item in items)
        said = (*reader.fields.get("output_messages", ()), Message(role="assistant", parts=files))
        reader.set_messages("output", said, "ai.response.files")
    return kind
