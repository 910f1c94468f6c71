"""Reads the spans of a convention: a table of attribute names in, an Operation out.

A convention is a table of the attributes for each field, most trusted first. Reading them, and recording
which content is missing and why, is the same for all conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from otel_evals.conventions import CONTENT, Record, is_pseudo_tool, recovered
from otel_evals.model import Availability, Operation, OperationKind, Source, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import (
    AttributeNames,
    FieldsByAttribute,
    without_json_quotes,
)
from otel_evals_instrumentation._internal.readers.documents import read_retrieval
from otel_evals_instrumentation._internal.readers.events import exception_of, has_dropped, read_events
from otel_evals_instrumentation._internal.readers.inputs_outputs import (
    add_calls,
    read_inputs_outputs,
    take_answer,
    unwrap_state,
)
from otel_evals_instrumentation._internal.readers.messages import TOOL_KINDS
from otel_evals_instrumentation._internal.readers.span_reader import SPECIAL, SpanReader
from otel_evals_instrumentation._internal.readers.tools import how_it_ended, read_tool, tool_name_in
from otel_evals_instrumentation._internal.readers.values import listed, parse
from otel_evals_instrumentation._internal.readers.vocabulary import (
    OPERATIONS,
    first_count,
    kind_of,
    make_usage,
    words,
)

__all__ = ["LAST", "LIBRARY", "PLATFORM", "AttributeNames", "SpanConvention", "SpanReader", "kind_of"]

LIBRARY = 1
"""Order of instrumentation libraries: after frameworks' own conventions, because they share spans."""
PLATFORM = 2
"""Order of platforms whose SDKs add attributes to any span."""
LAST = 3
"""Order of OpenTelemetry's own names, which most other conventions use too."""
_UNKNOWN = (None, "unknown", "unknown_model", "none")
"""No model or provider; some record the words."""
_TEXTS = words(
    """provider request_model response_model response_id conversation_id user_id
    agent_name"""
)
_COUNTED = words("input_tokens output_tokens cache_read_tokens cache_write_tokens reasoning_tokens")
_OF_TOOLS = ("name", "error", "error_type", "paused")
_SIDES = ("input", "output")
_CONTENT = {
    OperationKind.INFERENCE: _SIDES,
    OperationKind.AGENT: _SIDES,
    OperationKind.WORKFLOW: _SIDES,
    OperationKind.TOOL: ("tool_arguments", "tool_results"),
    OperationKind.RETRIEVAL: ("documents",),
}
"""Fields of content by kind."""
_RECORDED = (Availability.PRESENT, Availability.TRUNCATED)
_PROMPT = "gen_ai.prompt"
_RESPONSE_CALLS = "gen_ai.response.tool_calls"
_NOTHING = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}


@dataclass(frozen=True)
class SpanConvention:
    """A convention: a table of names, and at most a function or two."""

    name: str
    scopes: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    span_names: tuple[tuple[str, str], ...] = ()
    """Scopes that a framework shares with other libraries, each with the beginning of its spans' names."""
    loggers: tuple[str, ...] = ()
    """Prefixes of the scopes of log lines that have content, but no event name."""
    content: str = "always on"
    """The default for content, and the setting that changes it."""
    content_by_scope: Mapping[str, str] = field(default_factory=dict)
    """The same by prefix of instrumentation scopes that differ."""
    order: int = 0
    """Position among the conventions whose markers a span has: 0, `LIBRARY`, `PLATFORM` or `LAST`."""
    names: AttributeNames = field(default_factory=AttributeNames)
    kind_of: Callable[[SpanRecord], OperationKind | None] = kind_of
    """Returns a span's kind from the convention's own attributes, or None to use OpenTelemetry's names."""
    refine: Callable[[SpanReader, OperationKind], OperationKind] | None = None
    """Reads what a table cannot express, and returns the kind. Such spans are read at once, not on demand."""
    read_prompt: Callable[[SpanReader], None] | None = None
    """Reads messages from an input in `gen_ai.prompt` that is one text for several messages."""
    records_turns: bool = False
    """True if workflows are functions of the application: one with a question and an answer is a turn."""
    index: FieldsByAttribute = field(init=False)

    def __post_init__(self) -> None:
        # A frozen dataclass refuses assignment.
        object.__setattr__(self, "index", FieldsByAttribute(self.names))

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span of this convention; never raises."""
        operation = span.attributes.get("gen_ai.operation.name")
        # A name without quotes: no backend stored this span's attributes as JSON.
        plain = type(operation) is str and operation in OPERATIONS
        recorded = span if plain else without_json_quotes(span)
        named = plain and self.kind_of is kind_of
        kind = OPERATIONS[str(operation)] if named else self.kind_of(recorded) or kind_of(recorded)
        if kind is None:
            return None
        reader = self.open(recorded)
        _read_identity(reader, kind)
        if kind is OperationKind.TOOL and is_pseudo_tool(reader.fields["name"]):
            kind = OperationKind.OTHER
        if kind is OperationKind.WORKFLOW:
            reader.fields["stands_alone"] = self.records_turns
        if span.parent_span_id is None and _may_group(kind, span, self):
            reader.fields["groups_invocations"] = True
        if self.refine is None:
            names = _OF_TOOLS if kind is OperationKind.TOOL else ()
            of_tool = {name: reader.fields[name] for name in names if name in reader.fields}
            content = _Content(self, recorded, kind, of_tool)
            reader.fields.update(span=span, kind=kind, convention=self.name)
            return recovered(Operation, content, reader.fields)
        _read_content(reader, kind)
        kind = self.refine(reader, kind)
        _settle(reader)
        reader.fields.update(span=span, kind=kind, convention=self.name)
        return recovered(Operation, None, {**_NOTHING, **_notes(reader, kind), **reader.fields})

    def open(self, span: SpanRecord) -> SpanReader:
        """Find the attributes of a span that may contain the fields of an operation."""
        attributes, events = read_events(span) if span.events or span.logs else (span.attributes, [])
        there = attributes
        # An attribute without a value would hide a less trusted one that has it.
        if None in there.values():
            there = {key: value for key, value in there.items() if value is not None}
        # In order: an instrumentation sets its attributes in the same order each time.
        keys = tuple(there)
        known = self.index.known.get(keys)
        found_at = self.index.find(keys) if known is None else known
        return SpanReader(span, self.name, attributes, events, found_at)


class _Content(Record, frozen=True):
    """An operation's content, read on demand: a `Derivation`.

    Keeps little besides the span: thousands of runs may wait for their judges.
    """

    convention: SpanConvention
    span: SpanRecord
    kind: OperationKind
    identity: Mapping[str, Any]
    """Fields of a tool's operation that its call repeats."""
    failed: ClassVar[bool] = False
    """Readers do not raise, whatever a span contains."""

    def derive(self, _: str) -> Mapping[str, Any]:
        """Read all content together, since input and output depend on each other."""
        reader, read_prompt = self.convention.open(self.span), self.convention.read_prompt
        reader.fields.update(self.identity)
        _read_content(reader, self.kind)
        if read_prompt is not None and _PROMPT in reader.noted.get("input", ()):
            read_prompt(reader)
        found = {name: reader.fields.get(name, default) for name, default in _NOTHING.items()}
        return {**found, **_notes(reader, self.kind)}


def _notes(reader: SpanReader, kind: OperationKind) -> dict[str, Any]:
    """Return the availability and the sources of content."""
    sources: dict[str, Source] = {}
    for name, (key, _) in reader.noted.items():
        sources[name] = Source(reader.span.span_id, key, reader.convention)
    return {"availability": _availability_of(reader, _CONTENT.get(kind, ())), "sources": sources}


def _settle(reader: SpanReader) -> None:
    """Turn an error that only pauses the operation, or passes on control, into what it is."""
    fields = reader.fields
    ended = how_it_ended(fields.get("error_type"), fields.get("error"))
    if ended is None:
        return
    fields.pop("error", None)
    fields.pop("error_type", None)
    fields["paused"] = ended == "paused"


def _read_content(reader: SpanReader, kind: OperationKind) -> None:
    if kind is OperationKind.TOOL:
        read_tool(reader)
    elif kind is OperationKind.RETRIEVAL:
        read_retrieval(reader)
    elif kind is not OperationKind.OTHER:
        read_inputs_outputs(reader)
        if kind is OperationKind.INFERENCE and _RESPONSE_CALLS in reader.attributes:
            add_calls(reader, (_RESPONSE_CALLS,))
        if kind is OperationKind.AGENT and reader.events:
            take_answer(reader)
        if kind is OperationKind.WORKFLOW:
            unwrap_state(reader)


def _may_group(kind: OperationKind, root: SpanRecord, convention: SpanConvention) -> bool:
    """Return True if a span may contain several invocations.

    That is an application's own span, or `trace()` of openai-agents around several calls of `Runner.run`.
    """
    scope = root.scope_name
    is_library = convention.order == LIBRARY and "instrumentation" not in scope
    if kind is OperationKind.WORKFLOW and (convention.records_turns or is_library):
        return True
    is_part = kind in (OperationKind.TOOL, OperationKind.RETRIEVAL, OperationKind.OTHER)
    return not is_part and "openai_agents" in scope.replace("-", "_")


def _read_identity(reader: SpanReader, kind: OperationKind) -> None:
    fields, found_at = reader.fields, reader.found_at
    for text in filter(found_at.__contains__, _TEXTS):
        value = reader.attributes[found_at[text][0]]
        # Most are plain words in the most trusted attribute.
        if type(value) is not str or value[:1] in SPECIAL:
            value = reader.text(text)
        if value not in _UNKNOWN:
            fields[text] = value
    if "name" in found_at or kind in (OperationKind.TOOL, OperationKind.AGENT):
        _read_name(reader, kind)
    if "input_tokens" in found_at or "output_tokens" in found_at:
        usage = make_usage(
            {name: first_count(reader.attributes, found_at[name]) for name in _COUNTED if name in found_at}
        )
        if usage is not None:
            fields["usage"] = usage
    for key in found_at.get("usage", ()):
        reader.offer_usage(reader.attributes[key])
    if "finish" in found_at:
        _read_finish(reader)
    if (
        reader.span.status == "ERROR"
        or ("error_type" in found_at and reader.text("error_type"))
        # OpenInference records an interrupt with the status OK.
        or (reader.span.events and how_it_ended(exception_of(reader.span)[1], None))
    ):
        _read_error(reader)
        _settle(reader)
    if "metadata" in reader.attributes:  # such as LangChain's user and thread
        reader.offer_metadata(reader.attributes["metadata"])


def _read_name(reader: SpanReader, kind: OperationKind) -> None:
    fields = reader.fields
    if kind is OperationKind.TOOL:
        fields["name"] = reader.text("tool_name") or tool_name_in(reader.span.name)
    elif kind is OperationKind.AGENT:
        # An id that is also in the span's name is the agent's name; other ids are made up.
        identity = reader.attributes.get("gen_ai.agent.id")
        if reader.span.name == f"invoke_agent {identity}":
            reader.offer("agent_name", identity)
        if "agent_name" in fields:
            fields.setdefault("name", fields["agent_name"])
    else:
        reader.offer("name", reader.text("name"))


def _read_finish(reader: SpanReader) -> None:
    for key in reader.found_at["finish"]:
        parsed = parse(reader.attributes[key])
        if isinstance(parsed, str):  # such as `[stop, length]`, as Kotlin and Java write it
            parsed = [word.strip(" '\"") for word in parsed.strip("[]").split(",")]
        reasons = tuple(reason for reason in listed(parsed) if isinstance(reason, str) and reason)
        if reasons:
            reader.fields["finish_reasons"] = reasons
            if "error" in reasons:  # perhaps the only trace of it
                reader.fields["error"] = "error"
            return


def _read_error(reader: SpanReader) -> None:
    """Read the message of the error attribute, or else of the exception, or else of the status."""
    message, raised = exception_of(reader.span)
    kind = reader.text("error_type") or raised
    reader.fields["error"] = reader.text("error") or message or reader.span.status_message or kind or "error"
    reader.offer("error_type", kind)


def _availability_of(reader: SpanReader, expected: Iterable[str]) -> dict[str, Availability]:
    """Return the availability of content: a message without content is empty if the other side has some.

    Without any on both sides, content capture is off. Content that may have been dropped with attributes
    counts as truncated.
    """
    found: dict[str, Availability] = {}
    for name, (_, availability) in reader.noted.items():
        found[name] = availability
    for side, other in (("input", "output"), ("output", "input")):
        if found.get(side) is Availability.EMPTY:
            calls = any(
                p.kind in TOOL_KINDS for m in reader.fields.get(f"{side}_messages", ()) for p in m.parts
            )
            is_on = found.get(other) in _RECORDED
            without = Availability.PRESENT if calls else Availability.EMPTY
            found[side] = without if is_on else Availability.CAPTURED_OFF
    missing = [name for name in expected if found.get(name) not in _RECORDED]
    if missing and has_dropped(reader.span):
        found |= dict.fromkeys(missing, Availability.TRUNCATED)
    return found
