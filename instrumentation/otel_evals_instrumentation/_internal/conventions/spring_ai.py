"""Spring AI: `spring.ai.*` next to OpenTelemetry's names; content in attributes of tools and in logs."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention
from otel_evals_instrumentation._internal.readers.vocabulary import kinds, words

_OWN, _CHAT = "spring.ai.", "spring.ai.chat.client."
_KINDS = kinds(agent="chat_client", tool="tool_call", retrieval="vector_store", other="advisor")
_OF_TOOLS = words("tool.definition.name tool.call.arguments", _OWN)


def spring_ai() -> Convention:
    """Return the dialect of Spring AI's observations, except model calls."""
    return Convention(
        name="spring_ai",
        markers=(_OWN + "kind", *_OF_TOOLS, _CHAT + "conversation.id", "db.vector.query.content"),
        names=AttributeNames(
            input=("gen_ai.input.messages", *words("user.text user_text", _CHAT)),
            system=words("system.text system_text", _CHAT),
            tool_name=(_OWN + "tool.definition.name",),
            tool_id=(_OWN + "tool.call.id",),
            arguments=(_OWN + "tool.call.arguments",),
            result=(_OWN + "tool.call.result",),
            documents=("db.vector.query.response.documents",),
            query=("db.vector.query.content",),
            conversation_id=(
                *words("conversation.id advisor.conversation.id", _CHAT),
                "chat_memory_conversation_id",
            ),
        ),
        loggers=("org.springframework.ai.",),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind; for a vector store, queries are retrievals and writes are not."""
    kind = span.attributes.get(_OWN + "kind")
    if kind == "vector_store" and span.attributes.get("db.operation.name", "query") != "query":
        return OperationKind.OTHER
    if isinstance(kind, str):
        return _KINDS.get(kind)
    if any(key in span.attributes for key in _OF_TOOLS):
        return OperationKind.TOOL
    return OperationKind.RETRIEVAL if "db.vector.query.content" in span.attributes else None
