"""LiteLLM's OpenTelemetry callback: OpenTelemetry's names, and the raw request as Python reprs below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import literal, parse

_BARE = "SpanAttributes."
"""Older versions wrote down the names of their constants in place of the attributes' names."""


def litellm() -> Dialect:
    """The dialect of LiteLLM's callback."""
    return Convention(
        name="litellm",
        scopes=("litellm",),
        markers=("litellm.call_id", "litellm.provider.model"),
        names=AttributeNames(
            input=("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.prompt.*", _BARE + "LLM_PROMPTS.*"),
            output=(
                "gen_ai.output.messages",
                "gen_ai.completion",
                "gen_ai.completion.*",
                _BARE + "LLM_COMPLETIONS.*",
            ),
            request_model=("gen_ai.request.model", _BARE + "LLM_REQUEST_MODEL"),
            response_model=("gen_ai.response.model", _BARE + "LLM_RESPONSE_MODEL"),
            provider=("gen_ai.provider.name", "gen_ai.system", _BARE + "LLM_SYSTEM"),
            input_tokens=("gen_ai.usage.input_tokens", _BARE + "LLM_USAGE_PROMPT_TOKENS"),
            output_tokens=("gen_ai.usage.output_tokens", _BARE + "LLM_USAGE_COMPLETION_TOKENS"),
            conversation_id=(
                "metadata.session_id",
                "metadata.requester_metadata.session_id",
                "litellm.trace_id",
            ),
            user_id=("llm.user", "metadata.user_id", "metadata.user_api_key_end_user_id"),
            agent_name=("metadata.agent_name",),
            finish=("gen_ai.response.finish_reasons",),
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
    """The key `llm.<provider>.<name>` of a raw request."""
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
        if key is not None and field_name not in fields and isinstance(attributes[key], str):
            fields[field_name] = attributes[key]
    _read_usage(reader)
    return kind


def _read_usage(reader: SpanReader) -> None:
    key = _raw(reader.attributes, "usage")
    usage = _value(reader.attributes[key]) if key is not None else None
    counts = usage_in(usage)
    if counts is not None:
        reader.fields.setdefault("usage", counts)


def _value(value: Any) -> Any:
    """A raw value, which is JSON or a Python literal; None where one was cut off."""
    parsed = parse(value)
    found = literal(value) if parsed is value else parsed
    return None if isinstance(found, str) and found.startswith(("[{", "{'")) else found
