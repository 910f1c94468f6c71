"""OpenLLMetry: Traceloop's instrumentations and decorators, with LlamaIndex and vector stores."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Document, OperationKind, SpanEvent, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.convention import (
    LIBRARY,
    AttributeNames,
    SpanConvention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.documents import documents_of, make_document
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.tool_values import result_value, unwrapped_value
from otel_evals_instrumentation._internal.readers.values import (
    first_text,
    listed,
    mapping,
    parse,
    unflatten,
)
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, words

# --- OpenLLMetry (Traceloop): `traceloop.*`, entity inputs and outputs, both forms of `gen_ai.*` ---


_MCP = "opentelemetry.instrumentation.mcp"
"""Scope whose results are wrapped in `{"result": ...}`."""

_INPUT, _OUTPUT = "traceloop.entity.input", "traceloop.entity.output"
_RANK = re.compile(r"Doc (\d+), Score: (-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:\n(.*))?", re.DOTALL)
"""Result of a reranker, such as `Doc 1, Score: 0.98`: an index and a score."""


def openllmetry() -> SpanConvention:
    """Return the convention of Traceloop's instrumentations and decorators."""
    return SpanConvention(
        name="openllmetry",
        content="on unless `TRACELOOP_TRACE_CONTENT=false`",
        order=LIBRARY,
        scopes=words(
            """traceloop. opentelemetry.instrumentation.openai.v opentelemetry.instrumentation.agno
            opentelemetry.instrumentation.alephalpha opentelemetry.instrumentation.anthropic
            opentelemetry.instrumentation.bedrock opentelemetry.instrumentation.cohere
            opentelemetry.instrumentation.crewai opentelemetry.instrumentation.google_generativeai
            opentelemetry.instrumentation.groq opentelemetry.instrumentation.haystack
            opentelemetry.instrumentation.langchain opentelemetry.instrumentation.llamaindex
            opentelemetry.instrumentation.mistralai opentelemetry.instrumentation.ollama
            opentelemetry.instrumentation.replicate opentelemetry.instrumentation.sagemaker
            opentelemetry.instrumentation.together opentelemetry.instrumentation.transformers
            opentelemetry.instrumentation.watsonx opentelemetry.instrumentation.writer"""
        ),
        markers=words("traceloop.span.kind traceloop.entity.name traceloop.workflow.name llm.request.type"),
        names=AttributeNames(
            input="""
                gen_ai.input.messages gen_ai.prompt.* llm.prompts.* traceloop.entity.input
                crewai.task.description
            """,
            output="gen_ai.output.messages gen_ai.completion.* llm.completions.* traceloop.entity.output",
            answer="crewai.crew.result",
            tool_name="gen_ai.tool.name gen_ai.completion.tool.name traceloop.entity.name",
            arguments="gen_ai.tool.call.arguments tool.arguments traceloop.entity.input",
            result="gen_ai.tool.call.result traceloop.entity.output",
            documents="traceloop.entity.output",
            query="traceloop.entity.input",
            # Before 2024, and in Go: `llm.*` for `gen_ai.*`.
            request_model="gen_ai.request.model llm.request.model",
            usage="crewai.crew.usage_metrics",
            finish="""
                gen_ai.response.finish_reasons gen_ai.completion.0.finish_reason
                llm.completions.0.finish_reason
            """,
            name="traceloop.workflow.name traceloop.entity.name",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read steps, documents and ranks, and CrewAI's conversation from the repr of task outputs."""
    if reader.span.scope_name == SCOPE:
        read_step(reader)
    if kind is OperationKind.OTHER:
        _read_documents(reader)
    if kind is OperationKind.WORKFLOW and reader.span.parent_span_id is None:
        reader.fields["stands_alone"] = reader.attributes.get("traceloop.span.kind") == "workflow"
    if reader.attributes.get("llm.request.type") == "rerank":
        _read_ranks(reader)
    if kind is OperationKind.TOOL:
        _refine_call(reader, reader.fields["tool_call"])
    tasks = reader.attributes.get("crewai.crew.tasks_output")
    said = [m for m in read_messages(tasks, "assistant") if m.role in ("assistant", "tool")]
    if said:
        reader.fields["output_messages"] = (*said, *reader.fields.get("output_messages", ()))
    return kind


def _refine_call(reader: SpanReader, call: ToolCall) -> None:
    """Unwrap the result, and read name and id from LangChain.js' message: its span has the tool's class."""
    if reader.span.scope_name.startswith(_MCP):
        reader.fields["tool_call"] = replace(call, result=result_value(unwrapped_value(call.result)))
    is_agno = reader.span.scope_name.endswith(".agno") and _OUTPUT in reader.attributes
    if is_agno and call.arguments is None:
        reader.change_call(arguments={})  # Agno omits the input of such a call
    if "gen_ai.tool.name" in reader.attributes:
        return
    gave = read_messages(reader.attributes.get(_OUTPUT), "tool")
    results = (part for message in gave for part in message.parts if part.kind == "tool_result" and part.name)
    named = next(results, None)
    if named is not None:
        reader.offer_name(named.name)
        reader.change_call(id=call.id or named.tool_call_id)


def _read_documents(reader: SpanReader) -> None:
    """Read the documents of a task, from older instrumentations of LangChain without spans of retrievers."""
    for key, inside in ((_OUTPUT, "outputs"), (_INPUT, "inputs")):
        # The end of the class path in LangChain's JSON; other texts are not decoded.
        is_found = '"Document"]' in str(reader.attributes.get(key))
        items = listed(reader.mapping(key).get(inside)) if is_found else ()
        # Documents that LangChain serialised.
        if items and all(listed(mapping(item).get("id"))[-1:] == ["Document"] for item in items):
            reader.fields["documents"] = documents_of(items, span_id=reader.span.span_id)
            reader.note("documents", key)
            return


def _read_ranks(reader: SpanReader) -> None:
    """Read a reranker of Cohere's: query and documents from the prompts, the new order from texts."""
    prompts = list(map(mapping, unflatten(reader.attributes, "gen_ai.prompt")))
    given = dict(enumerate(p.get("content") for p in prompts if p.get("role") == "system"))
    query = next((first_text(p, ("content",)) for p in prompts if p.get("role") == "user"), None)
    found = []
    for ranked in map(mapping, unflatten(reader.attributes, "gen_ai.completion")):
        rank = _RANK.fullmatch(str(ranked.get("content")))
        if rank is not None:
            content = rank[3] or given.get(int(rank[1]))
            found.append(make_document(content, rank[1], float(rank[2]), {}, reader.span.span_id, query))
    if query:
        reader.fields["input_messages"] = (text_message("user", query),)
    if found:
        reader.fields["documents"] = tuple(found)
        reader.note("documents", "gen_ai.completion.*")


def _kind(span: SpanRecord) -> OperationKind | None:
    if "gen_ai.operation.name" in span.attributes and span.name != "crewai.workflow":
        return None
    if span.scope_name == SCOPE:
        return kind_of_step(span)
    if span.name == "crewai.workflow" or "crewai.task.description" in span.attributes:
        return OperationKind.WORKFLOW
    return kind_named(span.attributes.get("traceloop.span.kind"))


# --- LlamaIndex as Traceloop instruments it: every step is a task, and its output shows the kind ---


SCOPE = "opentelemetry.instrumentation.llamaindex"
"""The scope of Traceloop's instrumentation of LlamaIndex."""


def _decoded(value: Any) -> Any:
    """Decode a value that the library and its instrumentation both encoded as JSON."""
    return parse(parse(value))


def kind_of_step(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a step."""
    gave = _decoded(span.attributes.get(_OUTPUT))
    if isinstance(gave, dict):
        if "tool_name" in gave and ("tool_output" in gave or "raw_output" in gave):
            return OperationKind.TOOL
        if "raw" in gave and ("message" in gave or "text" in gave):
            return OperationKind.INFERENCE
        if _ending(gave) is not None:
            return OperationKind.WORKFLOW
    elif isinstance(gave, list) and gave and "node" in mapping(gave[0]):
        return OperationKind.RETRIEVAL
    kind = span.attributes.get("traceloop.span.kind")
    return OperationKind.WORKFLOW if kind == "workflow" else OperationKind.OTHER


def _ending(gave: Any) -> Any:
    """Return the response in the event at the end of a workflow."""
    return mapping(mapping(gave).get("result")).get("response")


def read_step(reader: SpanReader) -> None:
    """Read output that is JSON twice; a tool's result contains its name, id and arguments."""
    said = _decoded(reader.attributes.get(_OUTPUT))
    gave = mapping(said)
    call = reader.fields.get("tool_call")
    if call is not None and gave:
        reader.fields["name"] = str(gave.get("tool_name"))
        reader.change_call(
            name=reader.fields["name"],
            id=first_text(gave, ("tool_id",)),
            arguments=gave.get("tool_kwargs"),
        )
    reader.offer("agent_name", gave.get("current_agent_name"))  # of a step: the first is asked first
    last = first_text(mapping(gave.get("result")), ("current_agent_name",))
    if last:
        reader.fields["name"] = last
    if reader.source_of("output") == _OUTPUT and isinstance(said, (dict, list)):
        reader.fields["output_messages"] = read_messages(_ending(gave) or said, "assistant")


# --- Vector stores as Traceloop instruments them: each retrieved document is a span event ---


_EVENTS = ("db.query.result", "db.search.result")


def openllmetry_vector_stores() -> SpanConvention:
    """Return the convention of Traceloop's instrumentations of vector stores."""
    return SpanConvention(
        name="openllmetry_vector_stores",
        content="on unless `TRACELOOP_TRACE_CONTENT=false`",
        scopes=words(
            """opentelemetry.instrumentation.chromadb opentelemetry.instrumentation.pinecone
            opentelemetry.instrumentation.qdrant opentelemetry.instrumentation.milvus
            opentelemetry.instrumentation.marqo opentelemetry.instrumentation.weaviate
            opentelemetry.instrumentation.lancedb"""
        ),
        kind_of=_vector_stores_kind,
        refine=_vector_stores_refine,
    )


def _vector_stores_kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a query, recognised by its name; None for writes."""
    words = span.name.lower().replace("_", ".").split(".")
    return OperationKind.RETRIEVAL if {"query", "search"}.intersection(words) else None


def _vector_stores_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    documents = [_document(event, reader.span) for event in reader.span.events if event.name in _EVENTS]
    if documents:
        reader.fields["documents"] = tuple(documents)
        reader.note("documents", _EVENTS[0])
    return kind


def _document(event: SpanEvent, span: SpanRecord) -> Document:
    attributes: dict[str, Any] = {key.rpartition(".")[2]: value for key, value in event.attributes.items()}
    metadata = mapping(attributes.get("metadata", attributes.get("entity")))
    text = first_text(attributes, ("document",))
    return make_document(text, attributes.get("id"), attributes.get("score"), metadata, span.span_id)
