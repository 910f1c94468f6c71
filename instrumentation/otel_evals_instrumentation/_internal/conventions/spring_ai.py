"""Spring AI: `spring.ai.*` beside OpenTelemetry's names; content in attributes of tools and in log lines."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention

_OWN = "spring.ai."
_KINDS = {
    "chat_client": OperationKind.AGENT,
    "tool_call": OperationKind.TOOL,
    "vector_store": OperationKind.RETRIEVAL,
    "advisor": OperationKind.OTHER,
}


def spring_ai() -> Dialect:
    """The dialect of what Spring AI observes around its models, which have OpenTelemetry's names."""
    return Convention(
        name="spring_ai",
        markers=(
            _OWN + "kind",
            _OWN + "tool.definition.name",
            _OWN + "tool.call.arguments",
            _OWN + "chat.client.conversation.id",
            "db.vector.query.content",
        ),
        names=AttributeNames(
            input=("gen_ai.input.messages", _OWN + "chat.client.user.text", _OWN + "chat.client.user_text"),
            system=(_OWN + "chat.client.system.text", _OWN + "chat.client.system_text"),
            tool_name=(_OWN + "tool.definition.name", "gen_ai.tool.name"),
            tool_id=(_OWN + "tool.call.id",),
            arguments=(_OWN + "tool.call.arguments", "gen_ai.tool.call.arguments"),
            result=(_OWN + "tool.call.result", "gen_ai.tool.call.result"),
            documents=("db.vector.query.response.documents",),
            query=("db.vector.query.content",),
            conversation_id=(
                _OWN + "chat.client.conversation.id",
                _OWN + "chat.client.advisor.conversation.id",
                "chat_memory_conversation_id",
            ),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """A vector store is asked or written to; only what it was asked for is a retrieval."""
    kind = span.attributes.get(_OWN + "kind")
    if kind == "vector_store" and span.attributes.get("db.operation.name", "query") != "query":
        return OperationKind.OTHER
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None and not isinstance(kind, str):
        if (
            _OWN + "tool.definition.name" in span.attributes
            or _OWN + "tool.call.arguments" in span.attributes
        ):
            return OperationKind.TOOL
        return OperationKind.RETRIEVAL if "db.vector.query.content" in span.attributes else None
    return known
