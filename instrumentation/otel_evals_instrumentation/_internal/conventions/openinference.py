"""OpenInference: `openinference.span.kind`, `llm.*`, `input.value` and `output.value`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count

from msgspec.structs import replace

from otel_evals.model import Availability, Message, OperationKind, Part, SpanRecord
from otel_evals_instrumentation._internal.conventions.google_adk import with_error_of_adk
from otel_evals_instrumentation._internal.readers.convention import (
    LIBRARY,
    AttributeNames,
    SpanConvention,
)
from otel_evals_instrumentation._internal.readers.inputs_outputs import read_system
from otel_evals_instrumentation._internal.readers.media import read_media
from otel_evals_instrumentation._internal.readers.messages import SYSTEM_KEYS, read_messages
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import tool_call
from otel_evals_instrumentation._internal.readers.values import first_text, listed, mapping, parse
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, kinds

_LANGCHAIN = ("instrumentation.langchain", "instrumentation-langchain")
_UNNAMED = "LangGraph"
"""LangGraph's name of a graph without a name."""
_MODEL_KEYS = ("model", "model_name", "model_id", "modelId", "deployment_name")
_SYSTEM_KEYS = tuple(f'"{key}":' for key in SYSTEM_KEYS)
_MODEL_OF = re.compile(r"_meta=\{'model': '([^'\\]+)'")
"""The model in the repr of Haystack's messages."""
_EVENTS = kinds(tool="tool.success tool.error", inference="backend.start")
"""Kinds of BeeAI's event spans, by group and event."""
_EVENT = re.compile(r"(agent|backend|tool)\.(?:.+\.)?([^.]+)\.([a-z_A-Z]+)-[0-9]+")
"""BeeAI's event spans such as `tool.search.wikipedia.success-12`: group, name, event and number."""


def openinference() -> SpanConvention:
    """Return the convention of Arize's instrumentations."""
    return TABLE


def _complete(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read everything that the table cannot express."""
    scope, source = reader.span.scope_name, reader.source_of("input")
    if kind in (OperationKind.AGENT, OperationKind.WORKFLOW):
        _read_graph(reader, kind)
        if scope.endswith(".haystack"):
            _read_sums(reader)
        if not reader.fields["input_messages"]:
            _read_task(reader)
    if kind is OperationKind.TOOL:
        _read_parameters(reader)
        event = _EVENT.fullmatch(reader.span.name)
        if event is not None:  # BeeAI's has name and arguments
            reader.offer_name(reader.text("tool_name") or event[2])
            reader.change_call(arguments=parse(reader.attributes.get("tool.parameters")))
        if scope.endswith("google_adk"):
            reader.fields["tool_call"] = with_error_of_adk(reader.fields["tool_call"])
    if kind is OperationKind.INFERENCE:
        _read_request(reader)
        _fill_calls(reader)
    elif source == "llm.input_messages.*" and reader.attributes.get("input.value") is not None:
        _read_plain_input(reader, source)
    _read_media(reader, "input", "user")
    _read_media(reader, "output", "assistant")
    return kind


def _read_plain_input(reader: SpanReader, source: str) -> None:
    """Replace the messages of an operation that is no model call by its plain text, if it has one."""
    text = first_text(reader.attributes, ("input.value",))
    if text and reader.attributes.get("input.mime_type") == "text/plain":
        reader.set_messages("input", (text_message("user", text),), "input.value")
        return
    reader.fields["input_messages"] = ()
    # Noted for the indexed keys: `input.value` may be whole, and then its length is no length limit.
    reader.note("input", source, Availability.TRUNCATED)


def _read_media(reader: SpanReader, side: str, role: str) -> None:
    """Read the images and files of a span, unless its messages have them."""
    messages: list[Message] = [*reader.fields.get(f"{side}_messages", ())]
    found: list[Part] = []
    for several, one in _FAMILIES:
        for number in count():
            url = reader.attributes.get(f"{side}.{several}.{number}.{one}.url")
            if url is None:
                break
            found.append(read_media({"type": one, one: {"url": url}}))
    if not found or any(message.media for message in messages):
        return
    last = messages.pop() if messages and messages[-1].role == role else Message(role=role)
    reader.fields[f"{side}_messages"] = (*messages, replace(last, parts=(*last.parts, *found)))
    reader.noted.setdefault(side, (f"{side}.images.*", Availability.PRESENT))


def _read_graph(reader: SpanReader, kind: OperationKind) -> None:
    """Name a LangGraph agent, or the graph at the root, after its span."""
    span = reader.span
    if not span.scope_name.endswith(_LANGCHAIN) or span.name.startswith("Runnable"):
        return
    if kind is OperationKind.AGENT or span.parent_span_id is None:
        reader.fields["name"] = span.name
        if span.name != _UNNAMED:
            reader.fields.setdefault("agent_name", span.name)


def _read_task(reader: SpanReader) -> None:
    """Read the only task of a CrewAI crew without inputs; models are given it inside of other text."""
    tasks = listed(reader.attributes.get("crew_tasks"))
    text = first_text(mapping(tasks[0]), ("description",)) if len(tasks) == 1 else None
    if text:
        reader.set_messages("input", (text_message("user", text),), "crew_tasks")


def _read_sums(reader: SpanReader) -> None:
    """Read the tokens and the model of Haystack's agents: their model calls have no spans."""
    gave = reader.mapping("output.value")
    reader.offer_usage(gave.get("token_usage"))
    model = _MODEL_OF.search(str(gave.get("last_message")))
    if model is not None:
        reader.offer("response_model", model[1])


def _read_request(reader: SpanReader) -> None:
    """Read what is only in the whole request and response, or next to the messages of a model call."""
    fields, said = reader.fields, reader.fields["output_messages"]
    if reader.span.scope_name.endswith("google_genai"):  # calls that Gemini's SDK made by itself
        history = reader.mapping("output.value").get("automatic_function_calling_history")
        said = (*read_messages(history), *said)
    asked = reader.mapping("llm.function_call")
    if asked.get("name") and not _of_kind(said, "tool_call"):
        said = (*said, Message(role="assistant", parts=(tool_call(asked),)))
    fields["output_messages"] = said
    if "request_model" not in fields:  # as in failed calls
        given = reader.mapping("llm.invocation_parameters")
        reader.offer("request_model", first_text(given, _MODEL_KEYS))
    request = str(reader.attributes.get("input.value"))
    if "system_instructions" not in fields and any(key in request for key in _SYSTEM_KEYS):
        read_system(reader, read_messages(request, "user")[:1])


def _read_parameters(reader: SpanReader) -> None:
    """Read the arguments from a tool's parameters, which in some libraries are its schema instead."""
    call = reader.fields["tool_call"]
    if call.arguments is not None or "input.value" in reader.attributes:
        return
    given = reader.mapping("tool.parameters")
    is_schema = "properties" in given or any(isinstance(v, dict) and "type" in v for v in given.values())
    if given and not is_schema:
        reader.change_call(arguments=given)
        reader.note("tool_arguments", "tool.parameters")


def _fill_calls(reader: SpanReader) -> None:
    """Read empty messages, parallel results and ids of calls from the whole request and response.

    Messages may have only the last of parallel results, calls without ids, and no content that is a list.
    """
    inputs, outputs = reader.fields["input_messages"], reader.fields["output_messages"]
    if any(not message.parts for message in inputs):
        given = read_messages(reader.attributes.get("input.value"), "user")
        # Only a list of the same messages can fill the gaps.
        if [message.role for message in inputs] == [message.role for message in given]:
            filled = zip(inputs, given, strict=True)
            inputs = reader.fields["input_messages"] = tuple(a if a.parts else b for a, b in filled)
            read_system(reader, inputs)
    results = len(_of_kind(inputs, "tool_result"))
    if len(_of_kind(inputs, "tool_call")) > results:
        given = read_messages(reader.attributes.get("input.value"), "user")
        if len(_of_kind(given, "tool_result")) > results:
            system = inputs[:1] if inputs[0].role == "system" and given[0].role != "system" else ()
            reader.fields["input_messages"] = (*system, *given)
    if any(call.tool_call_id is None for call in _of_kind(outputs, "tool_call")):
        said = read_messages(reader.attributes.get("output.value"), "assistant")
        calls = [call.name for call in _of_kind(said, "tool_call") if call.tool_call_id]
        # With other names, the ids belong to other calls.
        if calls == [call.name for call in _of_kind(outputs, "tool_call")]:
            reader.fields["output_messages"] = said


def _of_kind(messages: Iterable[Message], kind: str) -> list[Part]:
    return [part for message in messages for part in message.parts if part.kind == kind]


def _kind(span: SpanRecord) -> OperationKind | None:
    # Between two agents of the OpenAI Agents SDKs, whose model's messages have the call.
    handover = str(span.attributes.get("tool.name", "handoff_to_")).startswith("handoff_to_")
    if handover and span.name.startswith("handoff to "):
        return OperationKind.OTHER
    if span.name == "finish.__call__" and span.scope_name.endswith(".dspy"):
        return OperationKind.OTHER  # the end of DSPy's agents
    event = _kind_of_event(span)
    if event is not None:
        return event
    # An agent, recorded as a chain, or a failed pipeline, which may have no model call.
    failed = span.name.endswith("Pipeline.run") and span.status == "ERROR"
    if span.scope_name.endswith(".haystack") and (failed or span.name == "Agent.run"):
        return OperationKind.AGENT
    kind = kind_named(span.attributes.get("openinference.span.kind"))
    if kind is OperationKind.AGENT and span.scope_name.endswith(_LANGCHAIN):
        return _kind_of_agent(span)
    if kind is not None:
        return kind
    if not (_OF_MODELS | _COUNTS).isdisjoint(span.attributes):
        return OperationKind.INFERENCE
    return None if _DOCUMENTS.isdisjoint(span.attributes) else OperationKind.RETRIEVAL


def _kind_of_agent(span: SpanRecord) -> OperationKind:
    """Tell agents from tools and routers, which LangChain's instrumentation calls agents by their names."""
    if "tool.name" in span.attributes:
        return OperationKind.TOOL
    gave = span.attributes.get("output.value")
    is_step = "langgraph_node" in str(span.attributes.get("metadata"))
    # A router returns the name of a node, and an agent its state as JSON.
    is_route = is_step and type(gave) is str and gave[:1] not in ("{", "[", "")
    return OperationKind.OTHER if is_route else OperationKind.AGENT


def _kind_of_event(span: SpanRecord) -> OperationKind | None:
    """Return the kind of BeeAI's event span, None for other spans.

    A tool's end has the whole call, and a model's start the request. The others repeat these.
    """
    if not span.scope_name.endswith(".beeai"):
        return None
    event = _EVENT.fullmatch(span.name)
    if event is None:  # later versions record the event's path as an attribute
        is_event = "metadata.path" in span.attributes and "metadata.class_name" not in span.attributes
        return OperationKind.OTHER if is_event else None
    return _EVENTS.get(f"{event[1]}.{event[3]}", OperationKind.OTHER)


_OF_MODELS = frozenset(
    f"llm.{side}_messages{item}"
    for side in ("input", "output")
    for item in ("", ".0.message.role", ".0.message.content")
)
"""Attributes of model calls, some of which have no kind."""
_DOCUMENTS = frozenset(("retrieval.documents", "retrieval.documents.0.document.content"))
_FAMILIES = (("images", "image"), ("documents", "document"))
_COUNTS = frozenset(("llm.model_name", "llm.token_count.prompt", "llm.token_count.completion"))

TABLE = SpanConvention(
    name="openinference",
    content="on unless `OPENINFERENCE_HIDE_INPUTS` or `OPENINFERENCE_HIDE_OUTPUTS` is true",
    order=LIBRARY,
    scopes=("openinference.instrumentation", "@arizeai/openinference"),
    markers=("openinference.span.kind", *sorted(_OF_MODELS), "llm.model_name", *sorted(_DOCUMENTS)),
    names=AttributeNames(
        input="""
            llm.input_messages.* gen_ai.input.messages llm.input_messages llm.prompts llm.prompts.*
            embedding.embeddings.* input.value crew_inputs
        """,
        output="""
            llm.output_messages.* gen_ai.output.messages llm.output_messages llm.choices.* output.value
        """,
        tool_name="tool.name tool_call.function.name tool_name",
        tool_id="tool.id tool_call.id",
        arguments="input.value tool_call.function.arguments",
        result="output.value",
        documents="reranker.output_documents.* retrieval.documents.* retrieval.documents output.value",
        query="reranker.query input.value",
        provider="llm.provider llm.system",
        request_model="llm.request.model_name llm.model_name embedding.model_name",
        response_model="llm.response.model_name llm.model_name",
        finish="llm.finish_reason",
        agent_name="""
            ag2.recipient.name agent.name gen_ai.agent.name graph.node.name agno.agent graph.node.id
        """,
    ),
    kind_of=_kind,
    refine=_complete,
)
"""The names of OpenInference, for conventions that build on it."""
