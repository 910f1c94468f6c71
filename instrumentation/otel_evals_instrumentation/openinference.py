"""OpenInference: `openinference.span.kind`, `llm.*`, `input.value` and `output.value`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from otel_evals.dialect import Dialect
from otel_evals.model import Availability, Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.messages import read_messages
from otel_evals_instrumentation.values import parse

__all__ = ["openinference", "smolagents"]

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
    return _TABLE


def _complete(reading: Reading, kind: OperationKind) -> OperationKind:
    """Reads the metadata; where chains spell out only one message of many, `input.value` is the truth."""
    if "user_id" not in reading.fields and "metadata" in reading.attributes:
        _read_metadata(reading)
    if kind is OperationKind.INFERENCE and reading.span.scope_name.endswith("google_genai"):
        _read_history(reading)
    source = reading.sources.get("input")
    if kind is OperationKind.INFERENCE:
        _fill_calls(reading)
    if kind is not OperationKind.INFERENCE and source is not None and source.key == "llm.input_messages.*":
        value = reading.attributes.get("input.value")
        if value is not None:
            reading.fields["input_messages"] = ()
            reading.note("input", "input.value", Availability.TRUNCATED)
    return kind


def _fill_calls(reading: Reading) -> None:
    """Parallel results overwrite each other where each message has room for one; calls may lose their ids.

    The request and the reply that the span keeps whole tell them all.
    """
    inputs, outputs = reading.fields["input_messages"], reading.fields["output_messages"]
    if len(list(_of_kind(inputs, "tool_call"))) > len(list(_of_kind(inputs, "tool_result"))):
        given = read_messages(reading.attributes.get("input.value"), "user")
        if len(list(_of_kind(given, "tool_result"))) > len(list(_of_kind(inputs, "tool_result"))):
            system = inputs[:1] if inputs[0].role == "system" and given[0].role != "system" else ()
            reading.fields["input_messages"] = (*system, *given)
    if any(call.tool_call_id is None for call in _of_kind(outputs, "tool_call")):
        said = read_messages(reading.attributes.get("output.value"), "assistant")
        calls = [call.name for call in _of_kind(said, "tool_call") if call.tool_call_id]
        if calls == [call.name for call in _of_kind(outputs, "tool_call")]:
            reading.fields["output_messages"] = said


def _of_kind(messages: Iterable[Message], kind: str) -> Iterator[Part]:
    return (part for message in messages for part in message.parts if part.kind == kind)


def _read_history(reading: Reading) -> None:
    """Gemini's SDK calls tools by itself; what happened stands in the last response only."""
    reply = parse(reading.attributes.get("output.value"))
    history = reply.get("automatic_function_calling_history") if isinstance(reply, dict) else None
    if history:
        said = reading.fields.get("output_messages", ())
        reading.fields["output_messages"] = (*read_messages(history), *said)


def _read_metadata(reading: Reading) -> None:
    """LangChain's user and thread stand in the metadata, which is JSON."""
    metadata = parse(reading.attributes["metadata"])
    if isinstance(metadata, dict):
        for field, names in (("user_id", ("user_id",)), ("conversation_id", ("session_id", "thread_id"))):
            value = next((metadata[n] for n in names if isinstance(metadata.get(n), str)), None)
            if value and field not in reading.fields:
                reading.fields[field] = value


def smolagents() -> Dialect:
    """OpenInference as smolagents is instrumented: its agents answer through a tool that is none."""
    return replace(
        _TABLE,
        name="smolagents",
        scopes=("openinference.instrumentation.smolagents",),
        markers=(),
        refine=_refine,
    )


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    call = reading.fields.get("tool_call")
    if call is not None and call.name == "final_answer":
        return OperationKind.OTHER
    for side in ("input_messages", "output_messages"):
        if side in reading.fields:
            reading.fields[side] = tuple(map(_plain, reading.fields[side]))
    return kind


def _plain(message: Message) -> Message:
    """A message without the wrapping of the task and with the pseudo call told apart."""
    parts = tuple(
        replace(part, kind="other")
        if part.kind == "tool_call" and part.name == "final_answer"
        else replace(part, text=part.text.removeprefix("New task:\n"))
        if part.kind == "text" and part.text and message.role == "user"
        else part
        for part in message.parts
    )
    return replace(message, parts=parts)


def _kind(span: SpanRecord) -> OperationKind | None:
    if span.attributes.get("gen_ai.tool.name") == "(merged tools)":
        return OperationKind.OTHER
    if span.name.startswith("handoff to ") and "tool.name" not in span.attributes:
        return OperationKind.OTHER  # the model's call of the handoff stands in its messages
    if span.name == "finish.__call__" and span.scope_name.endswith(".dspy"):
        return OperationKind.OTHER  # how DSPy's agents say that they are done
    kind = span.attributes.get("openinference.span.kind")
    return _KINDS.get(kind.upper(), OperationKind.OTHER) if isinstance(kind, str) else None


_TABLE = Convention(
    name="openinference",
    scopes=("openinference.instrumentation", "@arizeai/openinference"),
    markers=("openinference.span.kind",),
    names=Names(
        input=(
            "llm.input_messages.*",
            "gen_ai.input.messages",
            "llm.prompts",
            "embedding.embeddings.*",
            "input.value",
            "crew_inputs",
        ),
        output=("llm.output_messages.*", "gen_ai.output.messages", "output.value"),
        tool_name=("tool.name", "tool_call.function.name", "tool_name"),
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
        conversation_id=("session.id",),
        user_id=("user.id",),
        agent_name=("agent.name", "graph.node.name", "agno.agent", "graph.node.id"),
    ),
    kind_of=_kind,
    refine=_complete,
)
