"""Frameworks for Python: Haystack and LiteLLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import literal, parse
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

# --- Haystack's own tracer: pipelines, components and agents as `haystack.*` tags, their content as JSON ---


_OWN = "haystack."
_NAMES = kinds(
    workflow="haystack.pipeline.run haystack.async_pipeline.run",
    agent="haystack.agent.run",
    inference="haystack.agent.step.llm",
    tool="haystack.agent.step.tool haystack.tool.run",
)
_COMPONENTS = kinds(retrieval="Retriever Ranker", embedding="Embedder", inference="Generator", agent="Agent")


def haystack() -> SpanConvention:
    """Return the convention of Haystack's OpenTelemetry tracer."""
    return SpanConvention(
        name="haystack",
        content="`HAYSTACK_CONTENT_TRACING_ENABLED=true`",
        markers=words(
            """haystack.component.name haystack.pipeline.input_data haystack.pipeline.metadata
            haystack.agent.max_steps haystack.tool.name"""
        ),
        names=AttributeNames(
            input="""
                haystack.agent.input haystack.agent.step.llm.input haystack.component.input
                haystack.pipeline.input_data
            """,
            output="""
                haystack.agent.output haystack.agent.step.llm.output haystack.component.output
                haystack.pipeline.output_data
            """,
            tool_name="haystack.tool.name haystack.component.name",
            tool_id="haystack.tool.call.id",
            arguments="haystack.tool.input haystack.tool.arguments haystack.component.input",
            result="haystack.tool.output haystack.tool.result haystack.component.output",
            documents="haystack.component.output",
            query="haystack.component.input",
            name="haystack.component.name",
        ),
        kind_of=_haystack_kind,
    )


def _haystack_kind(span: SpanRecord) -> OperationKind | None:
    if span.name in _NAMES:
        return _NAMES[span.name]
    component = str(span.attributes.get(_OWN + "component.type", ""))
    return next((kind for end, kind in _COMPONENTS.items() if component.endswith(end)), OperationKind.OTHER)


# --- LiteLLM's OpenTelemetry callback: OpenTelemetry's names, and the raw request as Python reprs ---


_BARE = "SpanAttributes."
"""Prefix of attributes in older versions, which recorded the names of constants."""


def litellm() -> SpanConvention:
    """Return the convention of LiteLLM's callback."""
    return SpanConvention(
        name="litellm",
        content="on unless `litellm.turn_off_message_logging`",
        scopes=("litellm",),
        markers=("litellm.call_id", "litellm.provider.model"),
        names=AttributeNames(
            input="gen_ai.input.messages gen_ai.prompt gen_ai.prompt.* SpanAttributes.LLM_PROMPTS.*",
            output="""
                gen_ai.output.messages gen_ai.completion gen_ai.completion.*
                SpanAttributes.LLM_COMPLETIONS.*
            """,
            request_model="gen_ai.request.model SpanAttributes.LLM_REQUEST_MODEL",
            response_model="gen_ai.response.model SpanAttributes.LLM_RESPONSE_MODEL",
            provider="gen_ai.provider.name gen_ai.system SpanAttributes.LLM_SYSTEM",
            input_tokens="gen_ai.usage.input_tokens SpanAttributes.LLM_USAGE_PROMPT_TOKENS",
            output_tokens="gen_ai.usage.output_tokens SpanAttributes.LLM_USAGE_COMPLETION_TOKENS",
            conversation_id="metadata.session_id metadata.requester_metadata.session_id litellm.trace_id",
            user_id="llm.user metadata.user_id metadata.user_api_key_end_user_id",
            agent_name="metadata.agent_name",
        ),
        kind_of=_litellm_kind,
        refine=_refine,
    )


def _litellm_kind(span: SpanRecord) -> OperationKind | None:
    if _BARE + "LLM_REQUEST_TYPE" in span.attributes or _BARE + "LLM_REQUEST_MODEL" in span.attributes:
        return OperationKind.INFERENCE
    if _raw(span.attributes, "messages") is not None or _raw(span.attributes, "choices") is not None:
        return OperationKind.INFERENCE
    return None


def _raw(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the key `llm.<provider>.<name>` of a raw request."""
    end = "." + name
    return next((k for k in attributes if k[:4] == "llm." and k.endswith(end) and k.count(".") == 2), None)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    attributes, fields = reader.attributes, reader.fields
    for field_name, side, names, role in (
        ("input_messages", "input", ("messages", "contents", "prompt"), "user"),
        ("output_messages", "output", ("choices", "content", "candidates"), "assistant"),
    ):
        key = next(filter(None, (_raw(attributes, name) for name in names)), None)
        if key is None or fields.get(field_name):
            continue
        messages = read_messages(_value(attributes[key]), role)
        if messages:
            fields[field_name] = messages
            reader.note(side, key)
    for field_name, name in (("response_id", "id"), ("response_model", "model")):
        key = _raw(attributes, name)
        if key is not None:
            reader.offer(field_name, attributes[key])
    key = _raw(attributes, "usage")
    if key is not None:
        reader.offer_usage(_value(attributes[key]))
    return kind


def _value(value: Any) -> Any:
    """Decode a raw value, which is JSON or a Python literal; None if it is truncated."""
    parsed = parse(value)
    found = literal(value) if parsed is value else parsed
    return None if isinstance(found, str) and found.startswith(("[{", "{'")) else found
