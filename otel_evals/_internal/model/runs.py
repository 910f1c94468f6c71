"""What scorers judge: one agent invocation, recovered from its operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from otel_evals._internal.model.derived import DERIVATION, derives
from otel_evals._internal.model.operations import (
    NO_USAGE,
    Availability,
    Document,
    Message,
    Operation,
    OperationKind,
    Source,
    ToolCall,
    Usage,
)
from otel_evals._internal.model.record import nothing

_SPANS_DROPPED = attrgetter("span.spans_dropped")


@derives(
    "agent_version",
    "conversation_id",
    "user_id",
    "input_messages",
    "history",
    "system_instructions",
    "output_messages",
    "output",
    "tool_calls",
    "documents",
    "provider",
    "usage",
    "finish_reasons",
    "error",
    "error_type",
    "availability",
    "sources",
)
@dataclass(frozen=True, kw_only=True)
class Run:
    """One agent invocation, recovered from its operations: what scorers judge.

    What its operations tell is read when it is first asked for.
    """

    trace_id: str
    root_span_id: str
    root_kind: OperationKind
    operations: tuple[Operation, ...] = ()
    """By start time, the root included; `span.parent_span_id` makes the tree."""
    children: Mapping[str, tuple[str, ...]] = field(default_factory=nothing)
    """Span ids of each operation's nearest operations below, even where other spans stand between."""
    trace_ids: tuple[str, ...] = ()
    agent_name: str | None = None
    agent_version: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    input_messages: tuple[Message, ...] = ()
    """What this turn brought in."""
    history: tuple[Message, ...] = ()
    """What was said before this turn, oldest first."""
    system_instructions: str | None = None
    output_messages: tuple[Message, ...] = ()
    output: str | None = None
    """The final answer as text (JSON text where the answer is structured); None when not recorded."""
    tool_calls: tuple[ToolCall, ...] = ()
    documents: tuple[Document, ...] = ()
    models: tuple[str, ...] = ()
    provider: str | None = None
    usage: Usage = NO_USAGE
    finish_reasons: tuple[str, ...] = ()
    error: str | None = None
    error_type: str | None = None
    start_time: int = 0
    end_time: int | None = None
    resource: Mapping[str, Any] = field(default_factory=nothing)
    scope_name: str = ""
    dialect: str = ""
    trace_flags: int = 1
    trace_state: str = ""
    availability: Mapping[str, Availability] = field(default_factory=nothing)
    """By field: `input`, `output`, `system`, `tool_arguments`, `tool_results`, `documents`."""
    sources: Mapping[str, Source] = field(default_factory=nothing)
    turns: tuple[Run, ...] = ()
    """Where this stands for a whole conversation (rules of scope `conversation`): its runs, oldest first."""
    ground_truth: Any = None
    """What the answer should have been, where a data set says so; never set on live traffic."""

    @cached_property
    def input(self) -> str | None:
        """The user's words of this turn, or None when they were not recorded."""
        texts = [m.text for m in self.input_messages if m.role == "user" and m.text]
        return "\n\n".join(texts) if texts else None

    @property
    def content(self) -> Literal["full", "partial", "none"]:
        """Whether the run's input and output were recorded."""
        there = [
            self.availability.get(name) is Availability.PRESENT
            or (name not in self.availability and getattr(self, name) is not None)
            for name in ("input", "output")
        ]
        if all(there):
            return "full"
        return "partial" if any(there) or self.input or self.output else "none"

    @property
    def duration(self) -> float | None:
        """Seconds from the root's start to its end; None if it never ended."""
        return None if self.end_time is None else (self.end_time - self.start_time) / 1e9

    @cached_property
    def root(self) -> Operation | None:
        """The operation of the run's root span."""
        return next((o for o in self.operations if o.span_id == self.root_span_id), None)

    @property
    def unreadable(self) -> bool:
        """Whether something of it was asked for that could not be read."""
        for operation in self.operations:
            derivation = operation.__dict__.get(DERIVATION)
            if derivation is not None and derivation.failed:
                return True
        return False

    @property
    def truncated(self) -> bool:
        """Whether a limit removed some of its spans: what it did is then not all known."""
        return any(map(_SPANS_DROPPED, self.operations))

    def of_kind(self, kind: OperationKind) -> Iterator[Operation]:
        """The run's operations of one kind, by start time."""
        return (o for o in self.operations if o.kind is kind)
