"""Runs, which scorers judge: agent invocations recovered from their operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

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
from otel_evals._internal.model.records import derives, nothing, read_only
from otel_evals._internal.model.spans import size_of_span


@derives(
    "agent_version",
    "prompt_version",
    "tenant",
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
    "waiting",
    "error",
    "error_type",
    "availability",
    "sources",
)
@dataclass(frozen=True, kw_only=True)
class Run:
    """One agent invocation, which scorers judge. Its content is read from its operations on first access."""

    trace_id: str
    root_span_id: str
    root_kind: OperationKind
    operations: tuple[Operation, ...] = ()
    """By start time, including the root; `span.parent_span_id` links them to a tree."""
    children: Mapping[str, tuple[str, ...]] = field(default_factory=nothing)
    """Span ids of each operation's nearest operations below, even if other spans are in between."""
    trace_ids: tuple[str, ...] = ()
    agent_name: str | None = None
    agent_version: str | None = None
    prompt_version: str | None = None
    tenant: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    input_messages: tuple[Message, ...] = ()
    """New messages of this turn."""
    history: tuple[Message, ...] = ()
    """Messages before this turn, oldest first."""
    system_instructions: str | None = None
    output_messages: tuple[Message, ...] = ()
    output: str | None = None
    """The final answer as text (JSON if it is structured), empty if there is none; None when not recorded."""
    tool_calls: tuple[ToolCall, ...] = ()
    documents: tuple[Document, ...] = ()
    models: tuple[str, ...] = ()
    provider: str | None = None
    usage: Usage = NO_USAGE
    finish_reasons: tuple[str, ...] = ()
    """Of the last model call: `stop`, `length`, `refused`, `blocked`, `tool_calls`, `error`, `paused` or
    `other`."""
    waiting: bool = False
    """True for a run that ended to wait for an approval, a person's answer, or the result of a call."""
    error: str | None = None
    error_type: str | None = None
    start_time: int = 0
    end_time: int | None = None
    resource: Mapping[str, Any] = field(default_factory=nothing)
    scope_name: str = ""
    convention: str = ""
    trace_flags: int = 1
    trace_state: str = ""
    availability: Mapping[str, Availability] = field(default_factory=nothing)
    """By field: `input`, `output`, `system`, `tool_arguments`, `tool_results`, `documents`."""
    sources: Mapping[str, Source] = field(default_factory=nothing)
    """By field, as in `availability`; also `agent_version`, `prompt_version`, `tenant`."""
    turns: tuple[Run, ...] = ()
    """For a whole conversation (rules of scope `conversation`): its runs, oldest first."""
    ground_truth: Any = None
    """The expected answer from a data set; never set on live traffic."""

    def __post_init__(self) -> None:
        """Keep scorers from changing what other scorers judge; for runs from traces, reading does."""
        for name in ("children", "resource", "availability", "sources", "ground_truth"):
            if name in self.__dict__:
                self.__dict__[name] = read_only(self.__dict__[name])

    @cached_property
    def input(self) -> str | None:
        """The user's words of this turn, empty if it has media only, or None when they were not recorded."""
        texts = [m.text for m in self.input_messages if m.role == "user" and m.text]
        if texts:
            return "\n\n".join(texts)
        return "" if any(m.media for m in self.input_messages) else None

    @property
    def content(self) -> Literal["full", "partial", "none"]:
        """Extent to which the run's input and output were recorded."""
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

    def of_kind(self, kind: OperationKind) -> Iterator[Operation]:
        """Return the operations with this kind, by start time."""
        return (o for o in self.operations if o.kind is kind)


def attributes_of(run: Run) -> list[Mapping[str, Any]]:
    """Return the attributes of the root span, of all spans by start time, and of the resource."""
    first = [run.root] if run.root is not None else []
    return [*(each.span.attributes for each in (*first, *run.operations)), run.resource]


SIZE: Final = "_size"
"""The key in a run's `__dict__` under which its size is cached."""


def size_of_run(run: Run) -> int:
    """Return the bytes of a run's spans; the fields derived from them may take as much again."""
    known: int | None = run.__dict__.get(SIZE)
    if known is None:
        known = run.__dict__[SIZE] = sum([size_of_span(o.span) for o in run.operations])
    return known
