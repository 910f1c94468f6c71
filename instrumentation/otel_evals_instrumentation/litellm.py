"""LiteLLM's OpenTelemetry callback: OpenTelemetry's names, and the raw request as Python reprs below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord, Usage
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.messages import read_messages
from otel_evals_instrumentation.values import literal, parse

__all__ = ["litellm"]

_BARE = "SpanAttributes."
"""Older versions wrote down the names of their constants in place of the attributes' names."""


def litellm() -> Dialect:
    """The dialect of LiteLLM's callback."""
    return Convention(
        name="litellm",
        scopes=("litellm",),
        markers=("litellm.call_id", "litellm.provider.model"),
        names=Names(
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


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    attributes, fields = reading.attributes, reading.fields
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
            reading.note(side, key)
    for field_name, name in (("response_id", "id"), ("response_model", "model")):
        key = _raw(attributes, name)
        if key is not None and field_name not in fields and isinstance(attributes[key], str):
            fields[field_name] = attributes[key]
    _read_usage(reading)
    return kind


def _read_usage(reading: Reading) -> None:
    key = _raw(reading.attributes, "usage")
    usage = _value(reading.attributes[key]) if key is not None else None
    if isinstance(usage, dict) and "usage" not in reading.fields:
        given, said = (
            usage.get("prompt_tokens", usage.get("input_tokens")),
            usage.get("completion_tokens", usage.get("output_tokens")),
        )
        if isinstance(given, int) and isinstance(said, int):
            reading.fields["usage"] = Usage(input_tokens=given, output_tokens=said)


def _value(value: Any) -> Any:
    parsed = parse(value)
    return literal(value) if parsed is value else parsed
