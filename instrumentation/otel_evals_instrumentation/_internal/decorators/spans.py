"""Open spans by kind, and the provider's replies that they record.

Content is recorded only if content capture is enabled. Recording never raises, and does nothing on a span
that is not recorded.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from opentelemetry.trace import SpanKind

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators import serialization
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan
from otel_evals_instrumentation._internal.decorators.serialization import first, get

_logger = logging.getLogger(__name__)


class ToolSpan(OpenSpan):
    """An open span of a tool call."""

    _name_key = semconv.GEN_AI_TOOL_NAME

    def set_arguments(self, arguments: Any) -> None:
        """Record the arguments: a mapping by name, or the model's JSON text."""
        self._write(semconv.GEN_AI_TOOL_CALL_ARGUMENTS, serialization.plain_text, arguments)

    def set_result(self, result: Any) -> None:
        """Record the tool's result."""
        self._said = True
        self._write(semconv.GEN_AI_TOOL_CALL_RESULT, serialization.attribute_value, result)

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments."""
        self.set_arguments(arguments)

    _set_output = set_result


class RetrievalSpan(OpenSpan):
    """An open span of a search for documents."""

    _name_key = semconv.GEN_AI_DATA_SOURCE_ID
    _kind = SpanKind.CLIENT
    _named_by_function = False

    def set_query(self, query: Any) -> None:
        """Record the query."""
        self._write(semconv.GEN_AI_RETRIEVAL_QUERY_TEXT, serialization.plain_text, query)

    def set_documents(self, documents: Iterable[Any]) -> None:
        """Record found documents: texts, mappings (`content`, `id`, `score`), or a vector store's objects."""
        self._said = True
        self._write(semconv.GEN_AI_RETRIEVAL_DOCUMENTS, serialization.documents, documents)

    _set_input, _set_output = set_query, set_documents


class MessagesSpan(OpenSpan):
    """An open span with input and output messages."""

    def set_input(self, messages: Any) -> None:
        """Record the input: the user's words, or messages in OpenTelemetry's or a provider's form."""
        self._write(semconv.GEN_AI_INPUT_MESSAGES, lambda m: serialization.messages(m, "user"), messages)

    def set_output(self, messages: Any) -> None:
        """Record the output: a text, messages, or a value that is written as JSON."""
        self._said = True
        key = semconv.GEN_AI_OUTPUT_MESSAGES
        self._write(key, lambda value: serialization.answers(value, finish_reason(value)), messages)

    def set_conversation(self, conversation_id: str) -> None:
        """Set the conversation of this span; model calls and agents opened below inherit it."""
        self.conversation_id = conversation_id
        self.span.set_attribute(semconv.GEN_AI_CONVERSATION_ID, conversation_id)

    _set_input, _set_output = set_input, set_output

    def _note_first_chunk(self, seconds: float) -> None:
        self.span.set_attribute(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, seconds)

    def _joined(self, chunks: list[Any]) -> Any:
        texts = [chunk_text(chunk) for chunk in chunks]
        return "".join(text for text in texts if text) if any(texts) else chunks


class WorkflowSpan(MessagesSpan):
    """An open span of a group of steps or agents."""

    _name_key = semconv.GEN_AI_WORKFLOW_NAME


class ModelSpan(MessagesSpan):
    """An open span with instructions and tools of a model."""

    def set_system(self, instructions: Any) -> None:
        """Record the system instructions: a text, or a list of parts."""
        self._write(semconv.GEN_AI_SYSTEM_INSTRUCTIONS, serialization.instructions, instructions)

    def set_tools(self, definitions: Iterable[Any]) -> None:
        """Record the available tools, in OpenTelemetry's, OpenAI's or Anthropic's form."""
        self._write(semconv.GEN_AI_TOOL_DEFINITIONS, serialization.definitions, definitions)


class AgentSpan(ModelSpan):
    """An open span of an invocation of an agent."""

    _name_key = semconv.GEN_AI_AGENT_NAME


class InferenceSpan(ModelSpan):
    """An open span of a call of a model."""

    _name_key = semconv.GEN_AI_REQUEST_MODEL
    _kind = SpanKind.CLIENT
    _named_by_function = False

    def set_usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Record used tokens; input includes cached tokens, output includes reasoning tokens."""
        for key, count in (
            (semconv.GEN_AI_USAGE_INPUT_TOKENS, input_tokens),
            (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, output_tokens),
            (semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cache_read_tokens),
            (semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, reasoning_tokens),
        ):
            if isinstance(count, int):
                self.span.set_attribute(key, count)

    def set_response(
        self, *, model: str | None = None, id: str | None = None, finish_reasons: Iterable[str] = ()
    ) -> None:
        """Record the model that answered, the answer's id, and its finish reasons."""
        for key, value in (
            (semconv.GEN_AI_RESPONSE_MODEL, model),
            (semconv.GEN_AI_RESPONSE_ID, id),
            (semconv.GEN_AI_RESPONSE_FINISH_REASONS, [r for r in finish_reasons if isinstance(r, str)]),
        ):
            if value and isinstance(value, str | list):
                self.span.set_attribute(key, value)

    def set_reply(self, reply: Any) -> None:
        """Record the messages, model, id, finish reasons and tokens of a provider's reply.

        Accepts OpenAI's chat completions and responses, Anthropic's messages and replies of the same form,
        such as LiteLLM's, as objects or as mappings.
        """
        self._note_reply(reply)
        self.set_output(reply)

    def take_output(self, result: Any) -> None:
        """Record a function's return value: a provider's reply, or the answer."""
        if not isinstance(result, str) and self.span.is_recording():
            self._note_reply(result, only_whole=True)
        super().take_output(result)

    def add_chunk(self, chunk: Any) -> None:
        """Record a piece of a streamed answer: a text, or a provider's chunk."""
        # Asked first, because the base class creates the list.
        if self._chunks is None:
            self.span.set_attribute(semconv.GEN_AI_REQUEST_STREAM, True)
        super().add_chunk(chunk)
        if not isinstance(chunk, str):
            self._note_reply(chunk, streamed=True)

    def _note_reply(self, reply: Any, only_whole: bool = False, streamed: bool = False) -> None:
        try:
            if only_whole and not serialization.is_reply(reply):
                return
            if streamed:  # a chunk may contain the reply so far
                reply = get(reply, "response") or get(reply, "message") or reply
            reasons = [finish_reason(reply)]
            self.set_response(model=get(reply, "model"), id=get(reply, "id"), finish_reasons=reasons)
            self.set_usage(**usage_of(reply))
        except Exception:
            _logger.debug("could not read a reply", exc_info=True)


# --- replies of providers ---


def chunk_text(chunk: Any) -> str | None:
    """Return the text in a piece of a stream: a text itself, or OpenAI's or Anthropic's delta."""
    if isinstance(chunk, str):
        return chunk
    choice = first(chunk, "choices")
    delta = get(chunk, "delta") if choice is None else get(choice, "delta")
    if isinstance(delta, str):
        # OpenAI streams other deltas too, such as the arguments of calls.
        return delta if str(get(chunk, "type")).endswith("output_text.delta") else None
    text = get(delta, "content", "text")
    return text if isinstance(text, str) else None


def finish_reason(reply: Any) -> Any:
    """Return the provider's finish reason of a reply."""
    reason = get(first(reply, "choices"), "finish_reason") or get(reply, "stop_reason")
    return reason or get(get(reply, "delta"), "stop_reason")


def usage_of(reply: Any) -> dict[str, Any]:
    """Return a reply's token counts in OpenTelemetry's terms."""
    usage = get(reply, "usage")
    used = get(usage, "input_tokens")
    cached = get(get(usage, "prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    thoughts = get(usage, "completion_tokens_details", "output_tokens_details")
    if isinstance(read := get(usage, "cache_read_input_tokens"), int) and isinstance(used, int):
        # Anthropic does not include cached tokens in its input tokens.
        used, cached = used + read + (get(usage, "cache_creation_input_tokens") or 0), read
    return {
        "input_tokens": get(usage, "prompt_tokens") if used is None else used,
        "output_tokens": get(usage, "output_tokens", "completion_tokens"),
        "cache_read_tokens": cached,
        "reasoning_tokens": get(thoughts, "reasoning_tokens"),
    }
