"""OpenInference: `openinference.span.kind`, `llm.*`, `input.value` and `output.value`."""

from __future__ import annotations

from otel_evals.dialect import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names

__all__ = ["openinference"]

_KINDS = {
    "LLM": OperationKind.INFERENCE,
    "AGENT": OperationKind.AGENT,
    "CHAIN": OperationKind.WORKFLOW,
    "TOOL": OperationKind.TOOL,
    "RETRIEVER": OperationKind.RETRIEVAL,
    "RERANKER": OperationKind.RETRIEVAL,
    "EMBEDDING": OperationKind.EMBEDDING,
}


def openinference() -> Dialect:
    """The dialect of Arize's instrumentations."""
    return Convention(
        name="openinference",
        scopes=("openinference.instrumentation", "@arizeai/openinference"),
        markers=("openinference.span.kind",),
        names=Names(
            input=("llm.input_messages.*", "gen_ai.input.messages", "input.value"),
            output=("llm.output_messages.*", "gen_ai.output.messages", "output.value"),
            tool_name=("tool.name", "tool_call.function.name"),
            tool_id=("tool.id", "tool_call.id"),
            arguments=("input.value", "tool_call.function.arguments"),
            result=("output.value",),
            documents=("reranker.output_documents.*", "retrieval.documents.*", "output.value"),
            query=("reranker.query", "input.value"),
            provider=("llm.provider", "llm.system"),
            request_model=("llm.request.model_name", "llm.model_name", "embedding.model_name"),
            response_model=("llm.response.model_name", "llm.model_name"),
            finish=("llm.finish_reason",),
            input_tokens=("llm.token_count.prompt",),
            output_tokens=("llm.token_count.completion",),
            cache_tokens=("llm.token_count.prompt_details.cache_read",),
            reasoning_tokens=("llm.token_count.completion_details.reasoning",),
            conversation=("session.id",),
            user=("user.id",),
            agent=("agent.name",),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get("openinference.span.kind")
    return _KINDS.get(kind.upper(), OperationKind.OTHER) if isinstance(kind, str) else None
