"""What all dialects share: a table of attribute names in, an Operation out.

A convention is a table. It says which attributes hold what, in the order of trust; reading them, and saying
what is missing and why, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_evals.dialects import recovered
from otel_evals.model import Operation, OperationKind, SpanRecord, Usage
from otel_evals_instrumentation._internal.readers.attribute_names import (
    GEN_AI,
    AttributeNames,
    FieldsByAttribute,
    fields_by_attribute,
)
from otel_evals_instrumentation._internal.readers.content import OF_TOOLS, SpanContent, read_content
from otel_evals_instrumentation._internal.readers.metadata import read_metadata
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.stored_values import as_recorded
from otel_evals_instrumentation._internal.readers.tools import tool_name_in
from otel_evals_instrumentation._internal.readers.usage import usage_in
from otel_evals_instrumentation._internal.readers.values import first_text, parse, unquoted

__all__ = ["LAST", "LIBRARY", "PLATFORM", "AttributeNames", "Convention", "SpanReader", "kind_of"]

LIBRARY = 1
"""Conventions of instrumentation libraries: asked after the frameworks' own, on whose spans some write."""

PLATFORM = 2
"""Platforms whose SDKs put attributes of their own on anybody's spans."""

LAST = 3
"""OpenTelemetry's own names, which most others write too."""

_OPERATIONS = {
    "chat": OperationKind.INFERENCE,
    "text": OperationKind.INFERENCE,
    "text_completion": OperationKind.INFERENCE,
    "completion": OperationKind.INFERENCE,
    "generate_content": OperationKind.INFERENCE,
    "generate": OperationKind.INFERENCE,
    "responses": OperationKind.INFERENCE,
    "response": OperationKind.INFERENCE,
    "message": OperationKind.INFERENCE,
    "invoke_agent": OperationKind.AGENT,
    "handle_conversation_turn": OperationKind.AGENT,
    "start_thread_run": OperationKind.AGENT,
    "process_thread_run": OperationKind.AGENT,
    "execute_tool": OperationKind.TOOL,
    "tool": OperationKind.TOOL,
    "retrieval": OperationKind.RETRIEVAL,
    "retrieve": OperationKind.RETRIEVAL,
    "vector_db_retrieve": OperationKind.RETRIEVAL,
    "vector_search": OperationKind.RETRIEVAL,
    "rerank": OperationKind.RETRIEVAL,
    "search_memory": OperationKind.RETRIEVAL,
    "embeddings": OperationKind.EMBEDDING,
    "embedding": OperationKind.EMBEDDING,
    # An agent's words made audible, and audio made words: nobody asks a model there.
    **dict.fromkeys(("speech", "text_to_speech", "tts"), OperationKind.OTHER),
    **dict.fromkeys(("transcription", "speech_to_text", "stt"), OperationKind.OTHER),
}
_TOOL = frozenset(
    ("gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
)
"""Only calls of tools have these."""
_MESSAGES = frozenset(("gen_ai.input.messages", "gen_ai.output.messages"))
_OLD_MESSAGES = frozenset(
    f"gen_ai.{side}{item}"
    for side in ("prompt", "completion")
    for item in ("", ".content", ".0.role", ".0.content", ".0.tool_calls.0.name")
)
_RETRIEVALS = frozenset(("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"))
_COUNTS = frozenset(f"gen_ai.usage.{side}_tokens" for side in ("input", "output", "prompt", "completion"))
_EVENTS = frozenset(
    ("gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "gen_ai.content.completion")
)
_REQUESTS = {
    "embedding": OperationKind.EMBEDDING,
    "rerank": OperationKind.RETRIEVAL,
    "agent": OperationKind.AGENT,
    "workflow": OperationKind.WORKFLOW,
    "tool": OperationKind.TOOL,
}
"""What `llm.request.type` may say besides the ways to ask a model."""
_MODELS = frozenset(
    ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.request_model", "gen_ai.response_model")
)
_UNKNOWN = "unknown"
"""What some write where they could not tell a model or a provider."""
_TEXTS = (
    "provider",
    "request_model",
    "response_model",
    "response_id",
    "conversation_id",
    "user_id",
    "agent_name",
    "agent_version",
)

_COUNTED = ("input_tokens", "output_tokens", "cache_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class Convention:
    """A dialect that is a table of names, and at most a function or two."""

    name: str
    scopes: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    order: int = 0
    """When it is asked among those whose markers a span has: see `LIBRARY`, `PLATFORM` and `LAST`."""
    names: AttributeNames = field(default_factory=AttributeNames)
    kind_of: Callable[[SpanRecord], OperationKind | None] | None = None
    """Tells a span's kind from the convention's own attributes; None leaves it to OpenTelemetry's names."""
    refine: Callable[[SpanReader, OperationKind], OperationKind] | None = None
    """Reads what a table cannot say; may change the kind. Spans of such a convention are read at once."""
    refine_content: Callable[[SpanReader, OperationKind], None] | None = None
    """Reads what a table cannot say of what went in and came out, and nothing else."""
    records_turns: bool = False
    """Whether its workflows are an application's own: one that tells a question and an answer is a turn."""
    index: FieldsByAttribute = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.names + GEN_AI)
        object.__setattr__(self, "index", fields_by_attribute(self.names))

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span of this convention; never raises."""
        operation = span.attributes.get("gen_ai.operation.name")
        plain = type(operation) is str and operation in _OPERATIONS  # not in quotes, as in stored JSON
        recorded = span if plain else as_recorded(span)
        kind = self.kind_of(recorded) if self.kind_of else None
        if kind is None and plain and "gen_ai.tool.name" not in span.attributes:
            kind = _OPERATIONS[str(operation)]
        kind = kind or kind_of(recorded)
        if kind is None:
            return None
        reader = SpanReader(recorded, self.names, self.index, self.name)
        _read_identity(reader, kind)
        if kind is OperationKind.WORKFLOW:
            reader.fields["stands_alone"] = self.records_turns
        if span.parent_span_id is None and _may_group(kind, span, self):
            reader.fields["groups_invocations"] = True
        if self.refine is None:
            of_tool = tuple(map(reader.fields.get, OF_TOOLS)) if kind is OperationKind.TOOL else ()
            content = SpanContent(self, recorded, kind, of_tool)
            reader.fields.update(span=span, kind=kind, dialect=self.name)
            return recovered(Operation, content, reader.fields)
        read_content(reader, kind)
        kind = self.refine(reader, kind)
        return Operation(
            span=span,
            kind=kind,
            dialect=self.name,
            availability=reader.availability,
            sources=reader.sources,
            **reader.fields,
        )


def _may_group(kind: OperationKind, root: SpanRecord, convention: Convention) -> bool:
    """Whether a span may hold several invocations.

    An application's own span may, and `trace()` of openai-agents around several calls of `Runner.run`.
    """
    scope = root.scope_name
    if kind is OperationKind.WORKFLOW and (
        convention.records_turns or (convention.order == LIBRARY and "instrumentation" not in scope)
    ):
        return True
    return kind not in (
        OperationKind.TOOL,
        OperationKind.RETRIEVAL,
        OperationKind.OTHER,
    ) and "openai_agents" in scope.replace("-", "_")


def kind_of(span: SpanRecord) -> OperationKind | None:
    """What OpenTelemetry's names say a span did; None when they say nothing of an agent."""
    attributes = span.attributes
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str):
        operation = operation if operation in _OPERATIONS else str(unquoted(operation))
        if (
            attributes.get("gen_ai.tool.name") == "(merged tools)"
        ):  # ADK repeats parallel calls in a span of no tool
            return OperationKind.OTHER
        known = _OPERATIONS.get(operation) or _OPERATIONS.get(operation.partition(".")[0])
        if known is not None:
            return known
        if operation.startswith("invoke_"):
            return _request_kind(attributes) or OperationKind.WORKFLOW
        asks_model = _names_model(attributes) and _tells_messages(span)
        return _request_kind(attributes) or (OperationKind.INFERENCE if asks_model else OperationKind.OTHER)
    if not _TOOL.isdisjoint(attributes) or ("tool_name" in attributes and "tool_args" in attributes):
        return OperationKind.TOOL
    kind = _request_kind(attributes)
    if kind is not None:
        return kind
    if not _RETRIEVALS.isdisjoint(attributes):
        return OperationKind.RETRIEVAL
    if _names_model(attributes) or (
        "gen_ai.agent.name" not in attributes and not _COUNTS.isdisjoint(attributes)
    ):
        return OperationKind.INFERENCE
    if not _MESSAGES.isdisjoint(attributes):
        return OperationKind.AGENT if "gen_ai.agent.name" in attributes else OperationKind.INFERENCE
    if _tells_messages(span):
        return OperationKind.INFERENCE
    return OperationKind.OTHER if any(key.startswith("gen_ai.") for key in attributes) else None


def _tells_messages(span: SpanRecord) -> bool:
    attributes = span.attributes
    if not _MESSAGES.isdisjoint(attributes) or not _OLD_MESSAGES.isdisjoint(attributes):
        return True
    return any(event.name in _EVENTS for event in (*span.events, *span.logs))


def _names_model(attributes: Mapping[str, Any]) -> bool:
    return not _MODELS.isdisjoint(attributes)


def _request_kind(attributes: Mapping[str, Any]) -> OperationKind | None:
    kind = attributes.get("llm.request.type")
    if not isinstance(kind, str):
        return None
    return _REQUESTS.get(kind, OperationKind.INFERENCE)


def _read_identity(reader: SpanReader, kind: OperationKind) -> None:
    fields, found_at = reader.fields, reader.found_at
    for field_name in _TEXTS:
        if field_name in found_at:
            value = reader.identity(field_name)
            if value is not None and value != _UNKNOWN:
                fields[field_name] = value
    name = fields.get("agent_name") if kind is OperationKind.AGENT else reader.text("name")
    if name is not None:
        fields["name"] = name
    if kind is OperationKind.TOOL:
        fields["name"] = reader.text("tool_name") or tool_name_in(reader.span.name)
    if "input_tokens" in found_at or "output_tokens" in found_at:
        _read_usage(reader)
    if "usage" in found_at:
        _read_counts(reader)
    if "finish" in found_at:
        _read_finish(reader)
    if reader.span.status == "ERROR" or "error_type" in found_at:
        _read_error(reader)
    if "metadata" in reader.attributes:  # LangChain's user and thread, and others'
        read_metadata(reader, reader.attributes["metadata"])


def _read_usage(reader: SpanReader) -> None:
    given, said, cached, reasoning = [reader.number(n) if n in reader.found_at else None for n in _COUNTED]
    if given is not None or said is not None:
        reader.fields["usage"] = Usage(
            input_tokens=given or 0,
            output_tokens=said or 0,
            cache_read_tokens=cached or 0,
            reasoning_tokens=reasoning or 0,
        )


def _read_counts(reader: SpanReader) -> None:
    for _, key in reader.found_at["usage"]:
        counts = usage_in(reader.attributes[key])
        if counts is not None:
            reader.fields.setdefault("usage", counts)
            return


def _read_finish(reader: SpanReader) -> None:
    for _, key in reader.found_at["finish"]:
        parsed = parse(reader.attributes[key])
        reasons = (parsed,) if isinstance(parsed, str) else parsed
        if isinstance(reasons, (list, tuple)):
            told = tuple(item for item in reasons if isinstance(item, str) and item)
            if told:
                reader.fields["finish_reasons"] = told
                return


def _read_error(reader: SpanReader) -> None:
    """The message of the error attribute, else of the exception, else of the status."""
    span = reader.span
    message, kind = reader.text("error"), reader.text("error_type")
    for event in span.events:
        if event.name == "exception":
            message = message or first_text(event.attributes, ("exception.message",))
            kind = kind or first_text(event.attributes, ("exception.type",))
    reader.fields["error"] = message or span.status_message or kind or "error"
    if kind:
        reader.fields["error_type"] = kind
