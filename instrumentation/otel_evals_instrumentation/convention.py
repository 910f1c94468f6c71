"""What all dialects share: a table of attribute names in, an Operation out.

A convention is a table. It says which attributes hold what, in the order of trust; reading them, and saying
what is missing and why, is the same for all. Every table ends with OpenTelemetry's own names, because many
instrumentations write both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_evals.model import (
    Availability,
    Document,
    Message,
    Operation,
    OperationKind,
    Part,
    Source,
    SpanRecord,
    ToolCall,
    Usage,
)
from otel_evals_instrumentation.messages import event_messages, read_messages
from otel_evals_instrumentation.parts import read_parts, text_of
from otel_evals_instrumentation.unwrap import arguments_of, documents_of, result_of
from otel_evals_instrumentation.values import first_text, is_masked, parse, parse_or_mend, unflatten

__all__ = ["Convention", "Names", "Reading"]

_DETAILS = "gen_ai.client.inference.operation.details"
_MESSAGE_EVENTS = frozenset(
    (
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.choice",
    )
)


@dataclass(frozen=True)
class Names:
    """Attribute names by field, most trusted first.

    A name that ends in `.*` stands for a list that is spelled out in keys: `gen_ai.prompt.*` is the list of
    `gen_ai.prompt.0.role`, `gen_ai.prompt.0.content`, `gen_ai.prompt.1.role` and so on.
    """

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    """Final answers: kept as the text they are, even where it is JSON."""
    system: tuple[str, ...] = ()
    tool_name: tuple[str, ...] = ()
    tool_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    request_model: tuple[str, ...] = ()
    response_model: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    finish: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    cache_tokens: tuple[str, ...] = ()
    reasoning_tokens: tuple[str, ...] = ()
    conversation: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    agent_version: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    """Name of the workflow or retriever."""
    error: tuple[str, ...] = ()
    error_type: tuple[str, ...] = ()
    new_messages_from: tuple[str, ...] = ()

    def __add__(self, other: Names) -> Names:
        """These names before the others."""
        merged = {
            key: tuple(dict.fromkeys(getattr(self, key) + getattr(other, key)))
            for key in self.__dataclass_fields__
        }
        return Names(**merged)


GEN_AI = Names(
    input=("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.prompt.*"),
    output=("gen_ai.output.messages", "gen_ai.completion", "gen_ai.completion.*"),
    system=(
        "gen_ai.system_instructions",
        "gen_ai.system.instructions",
        "gen_ai.agent.system_prompt",
        "system_prompt",
    ),
    tool_name=("gen_ai.tool.name",),
    tool_id=("gen_ai.tool.call.id",),
    arguments=("gen_ai.tool.call.arguments", "gen_ai.tool.arguments", "gen_ai.tool.input"),
    result=("gen_ai.tool.call.result", "gen_ai.tool.result", "gen_ai.tool.output"),
    documents=("gen_ai.retrieval.documents",),
    query=("gen_ai.retrieval.query.text", "gen_ai.retrieval.query"),
    definitions=("gen_ai.tool.definitions",),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    request_model=("gen_ai.request.model",),
    response_model=("gen_ai.response.model",),
    response_id=("gen_ai.response.id",),
    finish=("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    cache_tokens=("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    reasoning_tokens=(
        "gen_ai.usage.reasoning.output_tokens",
        "gen_ai.usage.reasoning_tokens",
        "gen_ai.usage.details.reasoning_tokens",
    ),
    conversation=("gen_ai.conversation.id", "session.id", "gen_ai.thread.id"),
    user=("user.id", "enduser.id"),
    agent=("gen_ai.agent.name",),
    agent_version=("gen_ai.agent.version",),
    name=("gen_ai.workflow.name", "gen_ai.data_source.id"),
    error=("error.message",),
    error_type=("error.type",),
)
"""OpenTelemetry's own names, current and old."""


_OPERATIONS = {
    "chat": OperationKind.INFERENCE,
    "text_completion": OperationKind.INFERENCE,
    "completion": OperationKind.INFERENCE,
    "generate_content": OperationKind.INFERENCE,
    "responses": OperationKind.INFERENCE,
    "response": OperationKind.INFERENCE,
    "message": OperationKind.INFERENCE,
    "invoke_agent": OperationKind.AGENT,
    "handle_conversation_turn": OperationKind.AGENT,
    "invoke_workflow": OperationKind.WORKFLOW,
    "execute_tool": OperationKind.TOOL,
    "retrieval": OperationKind.RETRIEVAL,
    "retrieve": OperationKind.RETRIEVAL,
    "vector_db_retrieve": OperationKind.RETRIEVAL,
    "vector_search": OperationKind.RETRIEVAL,
    "rerank": OperationKind.RETRIEVAL,
    "search_memory": OperationKind.RETRIEVAL,
    "embeddings": OperationKind.EMBEDDING,
    "embedding": OperationKind.EMBEDDING,
}


class Reading:
    """One span being read: its attributes, with those of its detail events, and the fields found so far."""

    __slots__ = ("attributes", "availability", "dialect", "fields", "names", "sources", "span")

    def __init__(self, span: SpanRecord, names: Names, dialect: str) -> None:
        self.span = span
        self.names = names
        self.dialect = dialect
        self.attributes: Mapping[str, Any] = _with_details(span)
        self.fields: dict[str, Any] = {}
        self.availability: dict[str, Availability] = {}
        self.sources: dict[str, Source] = {}

    def found(self, field_name: str, key: str, availability: Availability = Availability.PRESENT) -> None:
        """Note where a field came from and how whole it is."""
        self.availability[field_name] = availability
        self.sources[field_name] = Source(self.span.span_id, key, self.dialect)

    def text(self, keys: tuple[str, ...]) -> str | None:
        """The first of these attributes that is a text."""
        return first_text(self.attributes, keys)


def _with_details(span: SpanRecord) -> Mapping[str, Any]:
    """The span's attributes, with what its detail events add."""
    if not span.events and not span.logs:
        return span.attributes
    added: dict[str, Any] = {}
    for event in (*span.events, *span.logs):
        if (event.name or event.attributes.get("event.name")) == _DETAILS:
            added.update(event.attributes)
            if isinstance(event.body, Mapping):
                added.update(event.body)
    return {**added, **span.attributes} if added else span.attributes


@dataclass(frozen=True)
class Convention:
    """A dialect that is a table of names, and at most a function or two."""

    name: str
    scopes: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    kind_of: Callable[[SpanRecord], OperationKind | None] | None = None
    """Tells the kind of a span from the convention's own attributes; None leaves it to OpenTelemetry's names."""
    refine: Callable[[Reading, OperationKind], OperationKind] | None = None
    """Reads what a table cannot say; may change the kind."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.names + GEN_AI)

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span of this convention; never raises."""
        kind = (self.kind_of(span) if self.kind_of else None) or kind_of(span)
        if kind is None:
            return None
        reading = Reading(span, self.names, self.name)
        _read_identity(reading, kind)
        if kind is OperationKind.TOOL:
            _read_tool(reading)
        elif kind is OperationKind.RETRIEVAL:
            _read_retrieval(reading)
        elif kind is not OperationKind.OTHER:
            _read_messages(reading)
        if self.refine is not None:
            kind = self.refine(reading, kind)
        return Operation(
            span=span,
            kind=kind,
            dialect=self.name,
            availability=reading.availability,
            sources=reading.sources,
            **reading.fields,
        )


def kind_of(span: SpanRecord) -> OperationKind | None:
    """What OpenTelemetry's names say a span did; None when they say nothing of an agent."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        if (
            attributes.get("gen_ai.tool.name") == "(merged tools)"
        ):  # ADK repeats parallel calls in a span of no tool
            return OperationKind.OTHER
        wrapper = OperationKind.WORKFLOW if operation.startswith("invoke_") else OperationKind.OTHER
        return _OPERATIONS.get(operation, wrapper)
    if "gen_ai.tool.name" in attributes:
        return OperationKind.TOOL
    kind = attributes.get("llm.request.type")
    if isinstance(kind, str):
        return OperationKind.EMBEDDING if kind == "embedding" else OperationKind.INFERENCE
    if "gen_ai.request.model" in attributes or "gen_ai.response.model" in attributes:
        return OperationKind.INFERENCE
    if any(key.startswith("gen_ai.") for key in attributes):
        return OperationKind.OTHER
    return None


def _read_identity(reading: Reading, kind: OperationKind) -> None:
    names, fields = reading.names, reading.fields
    for field_name, keys in (
        ("provider", names.provider),
        ("request_model", names.request_model),
        ("response_model", names.response_model),
        ("response_id", names.response_id),
        ("conversation_id", names.conversation),
        ("user_id", names.user),
        ("agent_name", names.agent),
        ("agent_version", names.agent_version),
    ):
        value = reading.text(keys)
        if value is not None:
            fields[field_name] = value
    name = reading.text(names.agent if kind is OperationKind.AGENT else names.name)
    if name is not None:
        fields["name"] = name
    _read_usage(reading)
    _read_finish(reading)
    if reading.span.status == "ERROR" or "error.type" in reading.attributes:
        _read_error(reading)


def _read_usage(reading: Reading) -> None:
    names = reading.names
    numbers = [_integer(reading.attributes, keys) for keys in (names.input_tokens, names.output_tokens)]
    if numbers == [None, None]:
        return
    reading.fields["usage"] = Usage(
        input_tokens=numbers[0] or 0,
        output_tokens=numbers[1] or 0,
        cache_read_tokens=_integer(reading.attributes, names.cache_tokens) or 0,
        reasoning_tokens=_integer(reading.attributes, names.reasoning_tokens) or 0,
    )


def _integer(attributes: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, (int, float)) and 0 <= value < 1e15:
            return int(value)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
            return int(value)
    return None


def _read_finish(reading: Reading) -> None:
    for key in reading.names.finish:
        value = parse(reading.attributes.get(key))
        if isinstance(value, str) and value:
            value = [value]
        if isinstance(value, (list, tuple)):
            reasons = tuple(item for item in value if isinstance(item, str) and item)
            if reasons:
                reading.fields["finish_reasons"] = reasons
                return


def _read_error(reading: Reading) -> None:
    span = reading.span
    message, kind = reading.text(reading.names.error), reading.text(reading.names.error_type)
    for event in span.events:
        if event.name == "exception":
            message = message or first_text(event.attributes, ("exception.message",))
            kind = kind or first_text(event.attributes, ("exception.type",))
    reading.fields["error"] = message or span.status_message or kind or "error"
    if kind:
        reading.fields["error_type"] = kind


# --- messages ---


def _read_messages(reading: Reading) -> None:
    names = reading.names
    inputs = _side(reading, "input", names.input, "user")
    outputs = _answer(reading) or _side(reading, "output", names.output, "assistant")
    if not inputs or not outputs:
        events_in, events_out = event_messages(_events(reading.span))
        inputs = inputs or _from_events(reading, "input", events_in)
        outputs = outputs or _from_events(reading, "output", events_out)
    _read_system(reading, inputs)
    reading.fields["input_messages"] = inputs
    reading.fields["output_messages"] = outputs
    key_value = reading.attributes.get(names.new_messages_from[0]) if names.new_messages_from else None
    if isinstance(key_value, int):
        reading.fields["new_messages_from"] = key_value
    for key in names.definitions:
        definitions = parse(reading.attributes.get(key))
        if isinstance(definitions, (list, tuple)):
            reading.fields["tool_definitions"] = tuple(
                d for d in map(parse, definitions) if isinstance(d, Mapping)
            )
            break


def _events(span: SpanRecord) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for event in (*span.events, *span.logs):
        name = event.name if event.name in _MESSAGE_EVENTS else event.attributes.get("event.name")
        if name in _MESSAGE_EVENTS:
            found.append((name, event.attributes if event.body is None else event.body))
    return found


def _side(reading: Reading, side: str, keys: tuple[str, ...], role: str) -> tuple[Message, ...]:
    """The messages of one side: of the first key that has content, else of the first that is there."""
    best: tuple[Message, ...] = ()
    for key in keys:
        value = _at(reading.attributes, key)
        if value is None:
            continue
        if is_masked(value):
            if not best:
                reading.found(side, key, Availability.CAPTURED_OFF)
            continue
        parsed, cut = parse_or_mend(value)
        messages = _messages(parsed, side, role)
        if messages and (not best or _has_content(messages)):
            cut = cut or (key.endswith(".*") and side == "input" and reading.span.dropped_attributes > 0)
            _note(reading, side, key, messages, cut)
            best = messages
            if _has_content(messages):
                break
    return best


def _messages(value: Any, side: str, role: str) -> tuple[Message, ...]:
    """Messages of a value; a list of events, as some keep in one attribute, is told by its names."""
    if isinstance(value, (list, tuple)) and any(isinstance(v, Mapping) and "event.name" in v for v in value):
        sides = event_messages((str(v.get("event.name")), v) for v in value if isinstance(v, Mapping))
        return tuple(sides[0] if side == "input" else sides[1])
    return read_messages(value, role)


def _answer(reading: Reading) -> tuple[Message, ...]:
    """A final answer that stands in an attribute of its own."""
    for key in reading.names.answer:
        value = reading.attributes.get(key)
        if value is None or value == "" or is_masked(value):
            continue
        reading.found("output", key)
        return (Message(role="assistant", parts=(Part(kind="text", text=text_of(value)),)),)
    return ()


def _at(attributes: Mapping[str, Any], key: str) -> Any:
    """An attribute's value, or the list that indexed attributes spell out; None where there is neither."""
    if not key.endswith(".*"):
        return attributes.get(key)
    prefix = key[:-1]
    if not any(name.startswith(prefix) for name in attributes):
        return None
    return unflatten(attributes, key[:-2])


def _from_events(reading: Reading, side: str, messages: list[Message]) -> tuple[Message, ...]:
    if messages:
        _note(
            reading,
            side,
            "gen_ai.choice" if side == "output" else "gen_ai.user.message",
            tuple(messages),
            False,
        )
    return tuple(messages)


def _note(reading: Reading, side: str, key: str, messages: tuple[Message, ...], cut: bool) -> None:
    if cut:
        availability = Availability.TRUNCATED
    elif _has_content(messages):
        availability = Availability.PRESENT
    else:
        availability = Availability.CAPTURED_OFF
    reading.found(side, key, availability)


def _has_content(messages: tuple[Message, ...]) -> bool:
    return any(_is_content(part) for message in messages for part in message.parts)


def _is_content(part: Part) -> bool:
    return (
        bool(part.text)
        or (part.data is not None and part.kind != "tool_call")
        or part.kind == "media"
        or bool(part.data)
    )


def _read_system(reading: Reading, inputs: tuple[Message, ...]) -> None:
    for key in reading.names.system:
        value = reading.attributes.get(key)
        if value is None or is_masked(value):
            continue
        parsed = parse(value)
        texts = (
            [m.text for m in read_messages(parsed, "system")]
            if isinstance(parsed, Mapping)
            else [p.text for p in read_parts(parsed)]
        )
        joined = "\n\n".join(text for text in texts if text)
        if joined:
            reading.fields["system_instructions"] = joined
            reading.found("system", key)
            return
    texts = [m.text for m in inputs if m.role == "system" and m.text]
    if texts:
        reading.fields["system_instructions"] = "\n\n".join(texts)
        reading.sources["system"] = reading.sources["input"]
        reading.availability["system"] = reading.availability["input"]


# --- tools and retrieval ---


def _read_tool(reading: Reading) -> None:
    names, span = reading.names, reading.span
    arguments = _value(reading, "tool_arguments", names.arguments)
    result = _value(reading, "tool_results", names.result)
    if arguments is None:
        arguments = _tool_event(reading, "tool_arguments", "gen_ai.tool.message", "content")
    if result is None:
        result = _tool_event(reading, "tool_results", "gen_ai.choice", "message")
    if arguments is None or result is None:
        sent, got = _tool_parts(reading)
        arguments, result = sent if arguments is None else arguments, got if result is None else result
    value, failed = (None, False) if result is None else result_of(result)
    error = reading.fields.get("error")
    failed = failed or span.status == "ERROR" or error is not None
    if failed and error is None:
        error = value if isinstance(value, str) else None
    ok = not failed and (span.status == "OK" or value is not None)
    name = reading.text(names.tool_name) or _name_in(span.name)
    reading.fields["name"] = name
    reading.fields["tool_call"] = ToolCall(
        name=name,
        id=reading.text(names.tool_id),
        arguments=None if arguments is None else arguments_of(arguments),
        result=value,
        error=error,
        error_type=reading.fields.get("error_type"),
        status="error" if failed else "ok" if ok else "unknown",
        span_id=span.span_id,
        duration=None if span.end_time is None else (span.end_time - span.start_time) / 1e9,
    )


def _tool_event(reading: Reading, field_name: str, event_name: str, key: str) -> Any:
    """A tool span's arguments or result, where they stand in an event."""
    for name, body in _events(reading.span):
        if name == event_name and isinstance(body, Mapping) and body.get(key) is not None:
            reading.found(field_name, name)
            return parse(body[key])
    return None


def _tool_parts(reading: Reading) -> tuple[Any, Any]:
    """A tool span's arguments and result, where they stand in messages."""
    found: list[Any] = []
    for field_name, key, kind in (
        ("tool_arguments", "gen_ai.input.messages", "tool_call"),
        ("tool_results", "gen_ai.output.messages", "tool_result"),
    ):
        value = reading.attributes.get(key)
        messages = () if value is None else read_messages(value)
        data = next(
            (p.data for m in messages for p in m.parts if p.kind == kind and p.data is not None), None
        )
        if data is not None:
            reading.found(field_name, key)
        found.append(data)
    return found[0], found[1]


def _name_in(span_name: str) -> str:
    """The tool's name in span names such as `execute_tool get_weather`."""
    return span_name.rpartition(" ")[2] or span_name or "tool"


def _value(reading: Reading, field_name: str, keys: tuple[str, ...]) -> Any:
    for key in keys:
        value = reading.attributes.get(key)
        if value is None or value == "":
            continue
        if is_masked(value):
            reading.found(field_name, key, Availability.CAPTURED_OFF)
            continue
        parsed, cut = parse_or_mend(value)
        reading.found(field_name, key, Availability.TRUNCATED if cut else Availability.PRESENT)
        return parsed
    return None


def _read_retrieval(reading: Reading) -> None:
    names, span = reading.names, reading.span
    query = reading.text(names.query)
    documents: tuple[Document, ...] = ()
    for key in names.documents:
        documents = documents_of(_at(reading.attributes, key), query, span.span_id)
        if documents:
            reading.found("documents", key)
            break
    reading.fields["documents"] = documents
