"""Open spans by kind: what can be recorded on an agent's, a model call's, a tool's.

Everything that says what was said or done is content: it is recorded only where content is wanted. Recording
never raises, and on a span that is not recorded it does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators import serialization
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan
from otel_evals_instrumentation._internal.decorators.provider_replies import (
    chunk_text,
    finish_reason,
    reply_in,
    usage_of,
)

_logger = logging.getLogger(__name__)


class ToolSpan(OpenSpan):
    """An open span of one call of a tool."""

    __slots__ = ()

    def set_arguments(self, arguments: Any) -> None:
        """Record the arguments: a mapping by name, or the JSON text that the model wrote."""
        self._write(semconv.GEN_AI_TOOL_CALL_ARGUMENTS, serialization.plain_text, arguments)

    def set_result(self, result: Any) -> None:
        """Record what the tool returned."""
        self._said = True
        self._write(semconv.GEN_AI_TOOL_CALL_RESULT, serialization.attribute_value, result)

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments."""
        self.set_arguments(arguments)

    def take_output(self, result: Any) -> None:
        """Record what a function returned, unless its body said otherwise."""
        if not self._said:
            self.set_result(result)


class RetrievalSpan(OpenSpan):
    """An open span of one search for documents."""

    __slots__ = ()

    def set_query(self, query: Any) -> None:
        """Record what was searched for."""
        self._write(semconv.GEN_AI_RETRIEVAL_QUERY_TEXT, serialization.plain_text, query)

    def set_documents(self, documents: Iterable[Any]) -> None:
        """Record what was found: texts, mappings (`content`, `id`, `score`), or a vector store's objects."""
        self._said = True
        self._write(semconv.GEN_AI_RETRIEVAL_DOCUMENTS, serialization.documents, documents)

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments, `wanted` being the query."""
        self.set_query(_pick(arguments, wanted))

    def take_output(self, result: Any) -> None:
        """Record the documents that a function returned, unless its body said otherwise."""
        if not self._said and result is not None:
            self.set_documents(result)


class MessagesSpan(OpenSpan):
    """An open span that takes messages in and gives messages out."""

    __slots__ = ()

    def set_input(self, messages: Any) -> None:
        """Record what came in: the user's words, or messages in OpenTelemetry's or a provider's form."""
        self._write(
            semconv.GEN_AI_INPUT_MESSAGES, lambda value: serialization.messages(value, "user"), messages
        )

    def set_output(self, messages: Any) -> None:
        """Record what came out: a text, messages, or a value that is written as JSON."""
        self._said = True
        self._write(
            semconv.GEN_AI_OUTPUT_MESSAGES,
            lambda value: serialization.answers(value, finish_reason(value)),
            messages,
        )

    def set_conversation(self, conversation_id: str) -> None:
        """Say which conversation this belongs to; model calls and agents opened below inherit it."""
        self.conversation_id = conversation_id
        self.span.set_attribute(semconv.GEN_AI_CONVERSATION_ID, conversation_id)

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments, `wanted` being the one that is the input."""
        self.set_input(_pick(arguments, wanted))

    def take_output(self, result: Any) -> None:
        """Record what a function returned, unless its body said otherwise."""
        if not self._said:
            self.set_output(result)

    def _note_first_chunk(self, seconds: float) -> None:
        self.span.set_attribute(semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, seconds)

    def _joined(self, chunks: list[Any]) -> Any:
        texts = [chunk_text(chunk) for chunk in chunks]
        return "".join(text for text in texts if text) if any(texts) else chunks


class WorkflowSpan(MessagesSpan):
    """An open span of steps that belong together."""

    __slots__ = ()


class ModelSpan(MessagesSpan):
    """An open span of what a model is told, by itself or through an agent."""

    __slots__ = ()

    def set_system(self, instructions: Any) -> None:
        """Record the system instructions: a text, or a list of parts."""
        self._write(semconv.GEN_AI_SYSTEM_INSTRUCTIONS, serialization.instructions, instructions)

    def set_tools(self, definitions: Iterable[Any]) -> None:
        """Record the tools on offer, in OpenTelemetry's, OpenAI's or Anthropic's form."""
        self._write(semconv.GEN_AI_TOOL_DEFINITIONS, serialization.definitions, definitions)


class AgentSpan(ModelSpan):
    """An open span of one invocation of an agent."""

    __slots__ = ()


class InferenceSpan(ModelSpan):
    """An open span of one call of a model."""

    __slots__ = ()

    def set_usage(
        self,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        reasoning_tokens: int | None = None,
    ) -> None:
        """Record the tokens used; input includes cached ones, output those of reasoning."""
        for key, count in (
            (semconv.GEN_AI_USAGE_INPUT_TOKENS, input_tokens),
            (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, output_tokens),
            (semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, cache_read_tokens),
            (semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, reasoning_tokens),
        ):
            if isinstance(count, int):
                self.span.set_attribute(key, count)

    def set_response(
        self,
        *,
        model: str | None = None,
        id: str | None = None,
        finish_reasons: Iterable[str] = (),
    ) -> None:
        """Record the model that answered, the answer's id, and why it ended."""
        for key, value in (
            (semconv.GEN_AI_RESPONSE_MODEL, model),
            (semconv.GEN_AI_RESPONSE_ID, id),
            (semconv.GEN_AI_RESPONSE_FINISH_REASONS, [r for r in finish_reasons if isinstance(r, str)]),
        ):
            if value and isinstance(value, str | list):
                self.span.set_attribute(key, value)

    def set_reply(self, reply: Any) -> None:
        """Record all that a provider's reply tells: messages, model, id, finish reasons, tokens.

        Takes OpenAI's chat and responses, Anthropic's messages and whatever has their form, such as
        LiteLLM's replies, as objects or as mappings.
        """
        self._note_reply(reply)
        self.set_output(reply)

    def take_output(self, result: Any) -> None:
        """Record what a function returned, a provider's reply or the answer alone."""
        if not isinstance(result, str) and self.span.is_recording():
            self._note_reply(result, only_whole=True)
        super().take_output(result)

    def add_chunk(self, chunk: Any) -> None:
        """Record a piece of a streamed answer: a text, or a provider's chunk with what it tells."""
        if self._chunks is None:
            self.span.set_attribute(semconv.GEN_AI_REQUEST_STREAM, True)
        super().add_chunk(chunk)
        if not isinstance(chunk, str):
            self._note_reply(chunk, streamed=True)

    def _note_reply(self, reply: Any, only_whole: bool = False, streamed: bool = False) -> None:
        try:
            if only_whole and not serialization.is_reply(reply):
                return
            reply = reply_in(reply) if streamed else reply
            self.set_response(
                model=serialization.get(reply, "model"),
                id=serialization.get(reply, "id"),
                finish_reasons=[finish_reason(reply)],
            )
            self.set_usage(**usage_of(reply))
        except Exception:
            _logger.debug("could not read a reply", exc_info=True)


# --- which argument is the input ---

_INPUTS = (
    "messages",
    "input",
    "prompt",
    "question",
    "query",
    "message",
    "text",
    "task",
    "user_input",
    "user_message",
    "user_prompt",
    "request",
)


def _pick(arguments: dict[str, Any], wanted: str | None) -> Any:
    """The argument that was said to be the input, the only one, the first that is called so, else all."""
    if wanted is not None:
        return arguments.get(wanted)
    if len(arguments) == 1:
        return next(iter(arguments.values()))
    return next((arguments[name] for name in _INPUTS if name in arguments), arguments or None)
