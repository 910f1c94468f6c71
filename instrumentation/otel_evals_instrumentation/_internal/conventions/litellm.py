"""LiteLLM's OpenTelemetry callback: OpenTelemetry's names, and the raw request as Python reprs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import literal, parse
from otel_evals_instrumentation._internal.readers.vocabulary import words

_BARE = "SpanAttributes."
"""Prefix of attributes in older versions, which recorded the names of constants."""


def litellm() -> Convention:
    """Return the dialect of LiteLLM's callback."""
    return Convention(
        name="litellm",
        scopes=("litellm",),
        markers=("litellm.call_id", "litellm.provider.model"),
        names=AttributeNames(
            input=("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.prompt.*", _BARE + "LLM_PROMPTS.*"),
            output=(
                *words("output.messages completion completion.*", "gen_ai."),
                _BARE + "LLM_COMPLETIONS.*",
            ),
            request_model=("gen_ai.request.model", _BARE + "LLM_REQUEST_MODEL"),
            response_model=("gen_ai.response.model", _BARE + "LLM_RESPONSE_MODEL"),
            provider=("gen_ai.provider.name", "gen_ai.system", _BARE + "LLM_SYSTEM"),
            input_tokens=("gen_ai.usage.input_tokens", _BARE + "LLM_USAGE_PROMPT_TOKENS"),
            output_tokens=("gen_ai.usage.output_tokens", _BARE + "LLM_USAGE_COMPLETION_TOKENS"),
            conversation_id=words(
                "metadata.session_id metadata.requester_metadata.session_id litellm.trace_id"
            ),
            user_id=("llm.user", "metadata.user_id", "metadata.user_api_key_end_user_id"),
            agent_name=("metadata.agent_name",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
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
