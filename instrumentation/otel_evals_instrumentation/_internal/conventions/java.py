"""Frameworks for Java: Spring AI and Quarkus."""

from __future__ import annotations

from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.vocabulary import kind_by_start, kind_named, words

# --- Spring AI: `spring.ai.*` next to OpenTelemetry's names; content in attributes of tools and in logs ---


def spring_ai() -> SpanConvention:
    """Return the convention of Spring AI's observations, except model calls."""
    return SpanConvention(
        name="spring_ai",
        content=(
            "off; `spring.ai.tools.observations.include-content=true`, and in 2.0.1 a bean "
            "`TracingAwareLoggingObservationHandler` each around `ChatModelPromptContentObservationHandler`, "
            "`ChatModelCompletionObservationHandler` and `ChatClientPromptContentObservationHandler`"
        ),
        markers=words(
            """spring.ai.kind spring.ai.tool.definition.name spring.ai.tool.call.arguments
            spring.ai.chat.client.conversation.id db.vector.query.content"""
        ),
        names=AttributeNames(
            input="gen_ai.input.messages spring.ai.chat.client.user.text spring.ai.chat.client.user_text",
            system="spring.ai.chat.client.system.text spring.ai.chat.client.system_text",
            tool_name="spring.ai.tool.definition.name",
            tool_id="spring.ai.tool.call.id",
            arguments="spring.ai.tool.call.arguments",
            result="spring.ai.tool.call.result",
            documents="db.vector.query.response.documents",
            query="db.vector.query.content",
            conversation_id="""
                spring.ai.chat.client.conversation.id spring.ai.chat.client.advisor.conversation.id
                chat_memory_conversation_id
            """,
        ),
        loggers=("org.springframework.ai.",),
        kind_of=_spring_ai_kind,
    )


def _spring_ai_kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind; for a vector store, queries are retrievals and writes are not."""
    kind = span.attributes.get("spring.ai.kind")
    if kind == "vector_store" and span.attributes.get("db.operation.name", "query") != "query":
        return OperationKind.OTHER
    return kind_named(kind)


# --- Quarkus with LangChain4j: spans of AI services without attributes, and prompts as one text ---


_SCOPE = "io.quarkus.opentelemetry"
_SERVICE = "langchain4j.aiservices."
_QUARKUS_KINDS = {
    _SERVICE: OperationKind.AGENT,
    "langchain4j.tools.": OperationKind.TOOL,
    "completion ": OperationKind.INFERENCE,
}
"""By the beginning of a span's name."""


def quarkus() -> SpanConvention:
    """Return the convention of quarkus-langchain4j, which shares its scope with all of Quarkus."""
    return SpanConvention(
        name="quarkus",
        content=(
            "off; `quarkus.langchain4j.tracing.include-prompt`, `include-completion`, "
            "`include-tool-arguments` and `include-tool-result`, all true"
        ),
        span_names=tuple((_SCOPE, start) for start in _QUARKUS_KINDS),
        kind_of=lambda span: kind_by_start(span.name, _QUARKUS_KINDS),
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.AGENT:
        # The name ends with class and method; a nested class follows a dollar sign.
        service = reader.span.name.removeprefix(_SERVICE).rpartition(".")[0]
        reader.offer("agent_name", service.rpartition("$")[2].rpartition(".")[2])
    elif reader.source_of("input") == "gen_ai.prompt":
        reader.fields["input_messages"] = _messages(str(reader.attributes["gen_ai.prompt"]))
    return kind


def _messages(prompt: str) -> tuple[Message, ...]:
    """Split a prompt into the user's last line and what comes before it.

    The texts of all messages are joined by line ends, without roles: only the last line is known to be the
    user's, if no tool has been called since.
    """
    before, _, last = prompt.rpartition("\n")
    asked = text_message("user", last)
    return (text_message("unknown", before), asked) if before else (asked,)
