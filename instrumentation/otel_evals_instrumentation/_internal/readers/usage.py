"""Token counts in one object, under any provider's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Usage
from otel_evals_instrumentation._internal.readers.values import literal, parse
from otel_evals_instrumentation._internal.readers.vocabulary import words

_INPUT = words(
    "input_tokens inputTokens prompt_tokens promptTokens prompt_token_count promptTokenCount input prompt"
)
_OUTPUT = words(
    """output_tokens outputTokens completion_tokens completionTokens
    candidates_token_count candidatesTokenCount output completion"""
)
_CACHE = words(
    """cache_read_input_tokens cached_input input_cache_read input_cached_tokens cached_input_tokens
    cachedInputTokens cached_content_token_count cachedContentTokenCount cachedContentTokens
    prompt_cached_tokens cached_prompt_tokens"""
)
_CACHE_WRITE = words(
    """cache_creation_input_tokens cache_write_input_tokens cacheWriteInputTokens cache_write_tokens
    cache_creation_tokens input_cache_creation input_cache_write"""
)
_REASONING = words(
    """reasoning_tokens reasoningTokens thoughts_token_count thoughtsTokenCount thoughtsTokens
    completion_reasoning_tokens output_reasoning"""
)


def usage_in(value: Any) -> Usage | None:
    """Return the token counts of an object, its JSON or its Python literal; None if it has none."""
    counts = literal(parse(value))
    if not isinstance(counts, Mapping):
        return None
    names = (_INPUT, _OUTPUT, _CACHE, _CACHE_WRITE, _REASONING)
    usage = make_usage(*(first_count(counts, keys) for keys in names))
    return usage if usage is None or "total" not in counts else _with_parts(usage, counts)


def _with_parts(usage: Usage, counts: Mapping[str, Any]) -> Usage:
    """Add cached and reasoning tokens to input and output if the total shows that these exclude them.

    Langfuse counts such tokens under `input_*` and `output_*`, apart from `input` and `output`.
    """
    given, said = (
        sum(first_count(counts, (key,)) or 0 for key in counts if key.startswith(side))
        for side in ("input_", "output_")
    )
    if first_count(counts, ("total",)) != usage.total_tokens + given + said:
        return usage
    return replace(usage, input_tokens=usage.input_tokens + given, output_tokens=usage.output_tokens + said)


def make_usage(
    given: int | None, said: int | None, cached: int | None, written: int | None, reasoning: int | None
) -> Usage | None:
    """Return a usage, with 0 for unknown counts; None if input and output tokens are unknown."""
    if given is None and said is None:
        return None
    return Usage(
        input_tokens=given or 0,
        output_tokens=said or 0,
        cache_read_tokens=cached or 0,
        cache_write_tokens=written or 0,
        reasoning_tokens=reasoning or 0,
    )


def first_count(counts: Mapping[str, Any], keys: Iterable[str]) -> int | None:
    """Return the first of these keys that is a natural number; None if there is none."""
    for key in keys:
        value = counts.get(key)
        if type(value) is str and value.isascii() and value.isdigit() and len(value) < 16:
            return int(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15:
            return int(value)
    return None
