"""OpenInference: `openinference.span.kind`, `llm.*`, `input.value` and `output.value`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import Availability, Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation._internal.conventions.openinference_beeai import kind_of_event, read_event
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import LIBRARY, Convention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_parts import tool_call
from otel_evals_instrumentation._internal.readers.values import is_masked, parse, unquoted

_LANGCHAIN = ("instrumentation.langchain", "instrumentation-langchain")
_UNNAMED = "LangGraph"
"""What LangGraph calls a graph that was given no name."""
_MODEL_KEYS = ("model", "model_name", "model_id", "modelId", "deployment_name")
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
    return TABLE


def _complete(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Where chains spell out only one message of many, `input.value` is the truth."""
    if kind is OperationKind.INFERENCE and reader.span.scope_name.endswith("google_genai"):
        _read_history(reader)
    source = reader.sources.get("input")
    if kind in (OperationKind.AGENT, OperationKind.WORKFLOW):
        _read_graph(reader, kind)
    if kind is OperationKind.TOOL:
        _read_parameters(reader)
        read_event(reader)
    if kind is OperationKind.INFERENCE:
        _read_model(reader)
        _read_function(reader)
        _fill_calls(reader)
    if kind is not OperationKind.INFERENCE and source is not None and source.key == "llm.input_messages.*":
        value = reader.attributes.get("input.value")
        if value is not None:
            reader.fields["input_messages"] = ()
            reader.note("input", "input.value", Availability.TRUNCATED)
    return kind


def _read_graph(reader: SpanReader, kind: OperationKind) -> None:
    """Name a LangGraph agent, or the graph at the root, after its span."""
    span = reader.span
    if not span.scope_name.endswith(_LANGCHAIN) or span.name.startswith("Runnable") or not span.name:
        return
    if kind is OperationKind.AGENT or span.parent_span_id is None:
        reader.fields["name"] = span.name
        if span.name != _UNNAMED:
            reader.fields.setdefault("agent_name", span.name)


def _read_model(reader: SpanReader) -> None:
    """Read the model from the call's parameters: failed calls name it only there."""
    if "request_model" in reader.fields or "response_model" in reader.fields:
        return
    given = parse(reader.attributes.get("llm.invocation_parameters"))
    if isinstance(given, dict):
        model = next((given[key] for key in _MODEL_KEYS if isinstance(given.get(key), str)), None)
        if model:
            reader.fields["request_model"] = model


def _read_parameters(reader: SpanReader) -> None:
    """A tool's parameters are those of the call in some libraries, in others the schema of all calls."""
    call = reader.fields["tool_call"]
    if call.arguments is not None or "input.value" in reader.attributes:
        return
    given = parse(reader.attributes.get("tool.parameters"))
    if given is not None and not is_masked(given) and not _is_schema(given):
        reader.fields["tool_call"] = replace(call, arguments=given)
        reader.note("tool_arguments", "tool.parameters")


def _is_schema(given: object) -> bool:
    if not isinstance(given, dict):
        return not isinstance(given, list)
    return "properties" in given or any(isinstance(v, dict) and "type" in v for v in given.values())


def _read_function(reader: SpanReader) -> None:
    """The call of a completion may stand beside its messages."""
    asked = parse(reader.attributes.get("llm.function_call"))
    said = reader.fields["output_messages"]
    if isinstance(asked, dict) and asked.get("name") and not any(_of_kind(said, "tool_call")):
        reader.fields["output_messages"] = (*said, Message(role="assistant", parts=(tool_call(asked),)))


def _fill_calls(reader: SpanReader) -> None:
    """Parallel results overwrite each other where each message has room for one; calls may lose their ids.

    The request and the reply that the span keeps whole tell them all.
    """
    inputs, outputs = reader.fields["input_messages"], reader.fields["output_messages"]
    if len(list(_of_kind(inputs, "tool_call"))) > len(list(_of_kind(inputs, "tool_result"))):
        given = read_messages(reader.attributes.get("input.value"), "user")
        if len(list(_of_kind(given, "tool_result"))) > len(list(_of_kind(inputs, "tool_result"))):
            system = inputs[:1] if inputs[0].role == "system" and given[0].role != "system" else ()
            reader.fields["input_messages"] = (*system, *given)
    if any(call.tool_call_id is None for call in _of_kind(outputs, "tool_call")):
        said = read_messages(reader.attributes.get("output.value"), "assistant")
        calls = [call.name for call in _of_kind(said, "tool_call") if call.tool_call_id]
        if calls == [call.name for call in _of_kind(outputs, "tool_call")]:
            reader.fields["output_messages"] = said


def _of_kind(messages: Iterable[Message], kind: str) -> Iterator[Part]:
    return (part for message in messages for part in message.parts if part.kind == kind)


def _read_history(reader: SpanReader) -> None:
    """Gemini's SDK calls tools by itself; what happened stands in the last response only."""
    reply = parse(reader.attributes.get("output.value"))
    history = reply.get("automatic_function_calling_history") if isinstance(reply, dict) else None
    if history:
        said = reader.fields.get("output_messages", ())
        reader.fields["output_messages"] = (*read_messages(history), *said)


def _kind(span: SpanRecord) -> OperationKind | None:
    if span.attributes.get("gen_ai.tool.name") == "(merged tools)":
        return OperationKind.OTHER
    if span.name.startswith("handoff to ") and "tool.name" not in span.attributes:
        return OperationKind.OTHER  # the model's call of the handoff stands in its messages
    if span.name == "finish.__call__" and span.scope_name.endswith(".dspy"):
        return OperationKind.OTHER  # how DSPy's agents say that they are done
    event = kind_of_event(span)
    if event is not None:
        return event
    if span.scope_name.endswith(".haystack") and _is_haystack_run(span):
        return OperationKind.AGENT
    kind = unquoted(span.attributes.get("openinference.span.kind"))
    if isinstance(kind, str):
        return _KINDS.get(kind.upper(), OperationKind.OTHER)
    if not (_OF_MODELS | _COUNTS).isdisjoint(span.attributes):
        return OperationKind.INFERENCE
    return None if _DOCUMENTS.isdisjoint(span.attributes) else OperationKind.RETRIEVAL


def _is_haystack_run(span: SpanRecord) -> bool:
    """Agents are recorded as chains; a pipeline that failed may hold nothing that says it asked a model."""
    return span.name == "Agent.run" or (span.name.endswith("Pipeline.run") and span.status == "ERROR")


_OF_MODELS = frozenset(
    f"llm.{side}_messages{item}"
    for side in ("input", "output")
    for item in ("", ".0.message.role", ".0.message.content")
)
"""Some write a model's messages without saying the span's kind."""
_DOCUMENTS = frozenset(("retrieval.documents", "retrieval.documents.0.document.content"))
_COUNTS = frozenset(("llm.model_name", "llm.token_count.prompt", "llm.token_count.completion"))

TABLE = Convention(
    name="openinference",
    order=LIBRARY,
    scopes=("openinference.instrumentation", "@arizeai/openinference"),
    markers=("openinference.span.kind", *sorted(_OF_MODELS), "llm.model_name", *sorted(_DOCUMENTS)),
    names=AttributeNames(
        input=(
            "llm.input_messages.*",
            "gen_ai.input.messages",
            "llm.input_messages",
            "llm.prompts",
            "llm.prompts.*",
            "embedding.embeddings.*",
            "input.value",
            "crew_inputs",
        ),
        output=(
            "llm.output_messages.*",
            "gen_ai.output.messages",
            "llm.output_messages",
            "llm.choices.*",
            "output.value",
        ),
        tool_name=("tool.name", "tool_call.function.name", "tool_name"),
        tool_id=("tool.id", "tool_call.id"),
        arguments=("input.value", "tool_call.function.arguments"),
        result=("output.value",),
        documents=(
            "reranker.output_documents.*",
            "retrieval.documents.*",
            "retrieval.documents",
            "output.value",
        ),
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
"""The names of OpenInference, for conventions that build on it."""
