"""What a provider's reply, or a piece of a streamed one, tells besides its messages."""

from __future__ import annotations

from typing import Any

from otel_evals_instrumentation._internal.decorators.serialization import first, get


def chunk_text(chunk: Any) -> str | None:
    """The text in a piece of a stream: a text itself, or OpenAI's or Anthropic's delta."""
    if isinstance(chunk, str):
        return chunk
    choice = first(chunk, "choices")
    delta = get(chunk, "delta") if choice is None else get(choice, "delta")
    if isinstance(delta, str):
        return delta if str(get(chunk, "type")).endswith("output_text.delta") else None
    text = get(delta, "content") or get(delta, "text")
    return text if isinstance(text, str) else None


def reply_in(chunk: Any) -> Any:
    """The reply that a piece of a stream carries, whole or so far; else the piece itself."""
    return get(chunk, "response") or get(chunk, "message") or chunk


def finish_reason(reply: Any) -> Any:
    """Why a reply ended, as its provider says it."""
    said = get(first(reply, "choices"), "finish_reason") or get(reply, "stop_reason")
    return said or get(get(reply, "delta"), "stop_reason")


def usage_of(reply: Any) -> dict[str, Any]:
    """A reply's token counts as OpenTelemetry counts them, whatever its provider calls them."""
    usage = get(reply, "usage")
    given, said = get(usage, "input_tokens"), get(usage, "output_tokens")
    details = get(usage, "prompt_tokens_details") or get(usage, "input_tokens_details")
    thoughts = get(usage, "completion_tokens_details") or get(usage, "output_tokens_details")
    cached = get(details, "cached_tokens")
    if isinstance(read := get(usage, "cache_read_input_tokens"), int) and isinstance(given, int):
        # Anthropic counts cached tokens apart.
        given, cached = given + read + (get(usage, "cache_creation_input_tokens") or 0), read
    return {
        "input_tokens": get(usage, "prompt_tokens") if given is None else given,
        "output_tokens": get(usage, "completion_tokens") if said is None else said,
        "cache_read_tokens": cached,
        "reasoning_tokens": get(thoughts, "reasoning_tokens"),
    }
