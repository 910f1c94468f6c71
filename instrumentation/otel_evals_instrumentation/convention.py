"""What all dialects share: a table of attribute names in, an Operation out.

A convention is a table. It says which attributes hold what, in the order of trust; reading them, and saying
what is missing and why, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_evals.model import Operation, OperationKind, SpanRecord, Usage
from otel_evals_instrumentation.names import GEN_AI, Index, Names, index_of
from otel_evals_instrumentation.reading import Reading
from otel_evals_instrumentation.sides import open_state, read_sides
from otel_evals_instrumentation.tools import read_retrieval, read_tool
from otel_evals_instrumentation.values import first_text, parse

__all__ = ["Convention", "Names", "Reading", "kind_of"]

_OPERATIONS = {
    "chat": OperationKind.INFERENCE,
    "text": OperationKind.INFERENCE,
    "text_completion": OperationKind.INFERENCE,
    "completion": OperationKind.INFERENCE,
    "generate_content": OperationKind.INFERENCE,
    "responses": OperationKind.INFERENCE,
    "response": OperationKind.INFERENCE,
    "message": OperationKind.INFERENCE,
    "invoke_agent": OperationKind.AGENT,
    "handle_conversation_turn": OperationKind.AGENT,
    "start_thread_run": OperationKind.AGENT,
    "process_thread_run": OperationKind.AGENT,
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


@dataclass(frozen=True)
class Convention:
    """A dialect that is a table of names, and at most a function or two."""

    name: str
    scopes: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    kind_of: Callable[[SpanRecord], OperationKind | None] | None = None
    """Tells a span's kind from the convention's own attributes; None leaves it to OpenTelemetry's names."""
    refine: Callable[[Reading, OperationKind], OperationKind] | None = None
    """Reads what a table cannot say; may change the kind."""
    index: Index = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", self.names + GEN_AI)
        object.__setattr__(self, "index", index_of(self.names))

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span of this convention; never raises."""
        kind = (self.kind_of(span) if self.kind_of else None) or kind_of(span)
        if kind is None:
            return None
        reading = Reading(span, self.names, self.index, self.name)
        _read_identity(reading, kind)
        if kind is OperationKind.TOOL:
            read_tool(reading)
        elif kind is OperationKind.RETRIEVAL:
            read_retrieval(reading)
        elif kind is not OperationKind.OTHER:
            read_sides(reading)
            if kind is OperationKind.WORKFLOW:
                open_state(reading)
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
        known = _OPERATIONS.get(operation) or _OPERATIONS.get(operation.partition(".")[0])
        if known is not None:
            return known
        wrapper = OperationKind.WORKFLOW if operation.startswith("invoke_") else OperationKind.OTHER
        return _request_kind(attributes) or wrapper
    if "gen_ai.tool.name" in attributes or ("tool_name" in attributes and "tool_args" in attributes):
        return OperationKind.TOOL
    kind = _request_kind(attributes)
    if kind is not None:
        return kind
    if "gen_ai.request.model" in attributes or "gen_ai.response.model" in attributes:
        return OperationKind.INFERENCE
    return OperationKind.OTHER if any(key.startswith("gen_ai.") for key in attributes) else None


def _request_kind(attributes: Mapping[str, Any]) -> OperationKind | None:
    kind = attributes.get("llm.request.type")
    if not isinstance(kind, str):
        return None
    return OperationKind.EMBEDDING if kind == "embedding" else OperationKind.INFERENCE


def _read_identity(reading: Reading, kind: OperationKind) -> None:
    fields, found_at = reading.fields, reading.found_at
    for field_name in _TEXTS:
        if field_name in found_at:
            value = reading.text(field_name)
            if value is not None:
                fields[field_name] = value
    name = fields.get("agent_name") if kind is OperationKind.AGENT else reading.text("name")
    if name is not None:
        fields["name"] = name
    if "input_tokens" in found_at or "output_tokens" in found_at:
        _read_usage(reading)
    if "finish" in found_at:
        _read_finish(reading)
    if reading.span.status == "ERROR" or "error_type" in found_at:
        _read_error(reading)


def _read_usage(reading: Reading) -> None:
    given, said = reading.number("input_tokens"), reading.number("output_tokens")
    if given is not None or said is not None:
        reading.fields["usage"] = Usage(
            input_tokens=given or 0,
            output_tokens=said or 0,
            cache_read_tokens=reading.number("cache_tokens") or 0,
            reasoning_tokens=reading.number("reasoning_tokens") or 0,
        )


def _read_finish(reading: Reading) -> None:
    for _, _, value in reading.found_at["finish"]:
        parsed = parse(value)
        reasons = (parsed,) if isinstance(parsed, str) else parsed
        if isinstance(reasons, (list, tuple)):
            told = tuple(item for item in reasons if isinstance(item, str) and item)
            if told:
                reading.fields["finish_reasons"] = told
                return


def _read_error(reading: Reading) -> None:
    """The message of the error attribute, else of the exception, else of the status."""
    span = reading.span
    message, kind = reading.text("error"), reading.text("error_type")
    for event in span.events:
        if event.name == "exception":
            message = message or first_text(event.attributes, ("exception.message",))
            kind = kind or first_text(event.attributes, ("exception.type",))
    reading.fields["error"] = message or span.status_message or kind or "error"
    if kind:
        reading.fields["error_type"] = kind
