"""Operations, which conventions read from spans: messages, tool calls, documents and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec.structs import force_setattr

from otel_evals._internal.model.media import Media, MediaInResult
from otel_evals._internal.model.records import Record, derives, nothing, read_only
from otel_evals._internal.model.spans import SpanRecord


class Availability(StrEnum):
    """State of a field's content."""

    PRESENT = "present"
    """Recorded in full."""
    EMPTY = "empty"
    """Recorded, and there is nothing in it."""
    REFUSED = "refused"
    """The model refused or a filter blocked the answer, which has no text."""
    TRUNCATED = "truncated"
    """Recorded up to a limit."""
    CAPTURED_OFF = "captured_off"
    """Left out or masked by the instrumentation; a setting enables it."""
    NOT_RECORDED = "not_recorded"
    """Not mentioned in the trace."""


class Source(Record, frozen=True):
    """The origin of a field's content."""

    span_id: str
    key: str
    """Attribute, event or log name."""
    convention: str


class Part(Record, frozen=True, kw_only=True):
    """One part of a message."""

    kind: Literal["text", "refusal", "reasoning", "tool_call", "tool_result", "media", "other"]
    text: str | None = None
    """The text; for media, a transcript."""
    data: Any = None
    """Arguments of a tool call, result of a tool, or another part as recorded."""
    media: Media | None = None
    tool_call_id: str | None = None
    name: str | None = None
    """The tool's name, for tool calls and results."""
    failed: bool = False
    """For tool results: True if the message says that the call failed."""
    truncated: bool = False

    def __post_init__(self) -> None:
        # Most parts are texts, and save the call.
        if self.data is not None:
            force_setattr(self, "data", read_only(self.data))


_SAID = ("text", "media", "refusal")
"""Kinds of parts whose text is the message's."""


class Message(Record, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: str
    """`system`, `user`, `assistant` or `tool`, as far as the convention knows it."""
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @property
    def text(self) -> str:
        """The message's texts and transcripts, joined by a blank line; empty when it has none."""
        return "\n\n".join([p.text for p in self.parts if p.text and p.kind in _SAID])

    @property
    def media(self) -> tuple[Media, ...]:
        """The message's images, sounds, videos and files."""
        return tuple([p.media for p in self.parts if p.media is not None])


class ToolCall(Record, frozen=True, kw_only=True):
    """One call of a tool, recovered from its span, from the messages, or from both."""

    name: str
    id: str | None = None
    arguments: Any = None
    """The arguments as a JSON value; None when not recorded."""
    result: Any = None
    """The result as a JSON value; None when not recorded."""
    error: str | None = None
    """Message of a failed call, if recorded."""
    error_type: str | None = None
    status: Literal["ok", "error", "pending", "unknown"] = "unknown"
    """`pending` for a call that waits for an approval, an answer of a person, or its result."""
    span_id: str | None = None
    source: Literal["span", "messages", "both"] = "span"
    duration: float | None = None
    attempts: tuple[ToolCall, ...] = ()
    """All executions if there were several with this id, in order; the call itself is as the last one."""

    def __post_init__(self) -> None:
        # All scorers of a run share it: none may change what another judges.
        force_setattr(self, "arguments", read_only(self.arguments))
        force_setattr(self, "result", read_only(self.result))

    @property
    def media(self) -> tuple[Media, ...]:
        """Images and sounds in the result, if their bytes were recorded."""
        items = self.result if isinstance(self.result, list | tuple) else (self.result,)
        return tuple([item.media for item in items if isinstance(item, MediaInResult)])


class Document(Record, frozen=True, kw_only=True):
    """One document returned by a retriever."""

    content: str | None = None
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = msgspec.field(default_factory=nothing)
    query: str | None = None
    span_id: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "metadata", read_only(self.metadata))


class Usage(Record, frozen=True, kw_only=True):
    """Tokens used. Input includes cached tokens, output includes reasoning, as OpenTelemetry counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        names = Usage.__struct_fields__
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in names})


NO_USAGE = Usage()
"""The default of records that may have used tokens."""


class OperationKind(StrEnum):
    """The kind of work that a span records."""

    AGENT = "agent"
    WORKFLOW = "workflow"
    INFERENCE = "inference"
    TOOL = "tool"
    RETRIEVAL = "retrieval"
    EMBEDDING = "embedding"
    OTHER = "other"
    """Claimed by a convention, but only a wrapper: a step, a turn, a guardrail."""


_PSEUDO_TOOLS = frozenset(
    (
        "final_answer",  # BeeAI, smolagents
        "final_result",  # Pydantic AI; with several types, followed by the type
        "set_model_response",  # Google ADK
        "(merged tools)",  # and its repetition of parallel calls
        "StructuredOutput",  # Claude Code
        "json_tool_call",  # LiteLLM
        "delegate_task_to_member",  # Agno's teams
        "delegate_task_to_members",
    )
)


def is_pseudo_tool(name: str | None) -> bool:
    """Return True for a framework's tool to answer or to pass a task on: using it is no tool call."""
    return name in _PSEUDO_TOOLS or (name is not None and name.startswith("final_result_"))


CONTENT = (
    "input_messages",
    "output_messages",
    "system_instructions",
    "new_messages_from",
    "tool_call",
    "tool_definitions",
    "documents",
    "availability",
    "sources",
)
"""Fields of an operation that a convention may read lazily, on first access."""


@derives(*CONTENT)
@dataclass(frozen=True, kw_only=True)
class Operation:
    """One span, read by a convention: its kind and the normalised fields of that kind.

    None (or an empty tuple) means not recorded; `availability` has the cause, by field name. The content of a
    span is read on first access.
    """

    span: SpanRecord
    kind: OperationKind
    convention: str
    name: str | None = None
    """Name of the agent, workflow, tool or retriever."""
    input_messages: tuple[Message, ...] = ()
    """All input, including history, oldest first."""
    output_messages: tuple[Message, ...] = ()
    system_instructions: str | None = None
    new_messages_from: int | None = None
    """Index of this turn's first message in `input_messages`, if the convention has it."""
    groups_invocations: bool = False
    """True for a span that an application puts around several invocations."""
    stands_alone: bool = False
    """True for a workflow that is an invocation even if no operation inside it was recorded."""
    tool_call: ToolCall | None = None
    tool_definitions: tuple[Mapping[str, Any], ...] = ()
    documents: tuple[Document, ...] = ()
    provider: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    agent_name: str | None = None
    error: str | None = None
    error_type: str | None = None
    paused: bool = False
    """True if the operation ended to wait for something, by an interrupt or a deferred call."""
    availability: Mapping[str, Availability] = field(default_factory=nothing)
    """By field: `input`, `output`, `system`, `tool_arguments`, `tool_results`, `documents`."""
    sources: Mapping[str, Source] = field(default_factory=nothing)
    """By field, as in `availability`."""

    def __post_init__(self) -> None:
        self.__dict__["tool_definitions"] = read_only(self.tool_definitions)

    @property
    def span_id(self) -> str:
        """Id of the operation's span."""
        return self.span.span_id


def model_calls(operations: Iterable[Operation]) -> list[Operation]:
    """Return the model calls among operations."""
    return [o for o in operations if o.kind is OperationKind.INFERENCE]


def end_of(operation: Operation) -> int:
    """Return when an operation ended; one that never did counts as ended when it started."""
    return operation.span.end_time or operation.span.start_time
