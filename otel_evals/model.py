"""The records that travel through the pipeline: what a run is, what a score is.

All are frozen. Ids are lower-case hex (32 digits for a trace, 16 for a span), times are nanoseconds since
the Unix epoch, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from otel_evals.quick import quick

__all__ = [
    "Availability",
    "ContextSeen",
    "Direction",
    "Document",
    "Dropped",
    "Evaluation",
    "Message",
    "NotScored",
    "Operation",
    "OperationKind",
    "Outcome",
    "Part",
    "Run",
    "Sampled",
    "Score",
    "ScoredRun",
    "ScorerFailure",
    "Source",
    "SpanEvent",
    "SpanRecord",
    "StepRecord",
    "ToolCall",
    "Usage",
]

_NOTHING: Mapping[str, Any] = {}


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


# --- what comes in: spans, as their instrumentation wrote them ---


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """A span event, or a log record that belongs to a span."""

    name: str
    time: int = 0
    attributes: Mapping[str, Any] = field(default_factory=_nothing)
    body: Any = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """One span in the only form that dialects read, whether it ended in process or came from a file."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: str = "INTERNAL"
    """OpenTelemetry's span kind: INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER."""
    start_time: int = 0
    end_time: int | None = None
    """None when the span never ended."""
    attributes: Mapping[str, Any] = field(default_factory=_nothing)
    events: tuple[SpanEvent, ...] = ()
    logs: tuple[SpanEvent, ...] = ()
    """Log records emitted in this span's context, oldest first."""
    status: Literal["UNSET", "OK", "ERROR"] = "UNSET"
    status_message: str = ""
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=_nothing)
    trace_flags: int = 1
    trace_state: str = ""
    parent_is_remote: bool = False
    dropped_attributes: int = 0


# --- what was read from them ---


class Availability(StrEnum):
    """Whether a field's content can be trusted to be what happened."""

    PRESENT = "present"
    """Recorded whole."""
    TRUNCATED = "truncated"
    """Recorded, but cut off by a limit."""
    CAPTURED_OFF = "captured_off"
    """The instrumentation left it out or masked it: a setting would turn it on."""
    NOT_RECORDED = "not_recorded"
    """Nothing speaks of it."""


@quick
@dataclass(frozen=True, slots=True)
class Source:
    """Where a field came from."""

    span_id: str
    key: str
    """Attribute, event or log name."""
    dialect: str


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a message."""

    kind: Literal["text", "reasoning", "tool_call", "tool_result", "media", "other"]
    text: str | None = None
    data: Any = None
    """Arguments of a tool call, result of a tool, or the part as it was recorded."""
    tool_call_id: str | None = None
    name: str | None = None
    """The tool's name, for tool calls and results."""
    failed: bool = False
    """For tool results: the message says that the call failed."""
    truncated: bool = False


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: str
    """`system`, `user`, `assistant` or `tool` where the convention says so."""
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @property
    def text(self) -> str:
        """The message's text parts, joined by a blank line; empty when it has none."""
        texts = [p.text for p in self.parts if p.kind == "text" and p.text]
        return texts[0] if len(texts) == 1 else "\n\n".join(texts)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool, recovered from its span, from the messages, or from both."""

    name: str
    id: str | None = None
    arguments: Any = None
    """The arguments as the JSON value they were; None when not recorded."""
    result: Any = None
    """The result as the JSON value it was; None when not recorded."""
    error: str | None = None
    """What went wrong, when the call failed and the reason was recorded."""
    error_type: str | None = None
    status: Literal["ok", "error", "unknown"] = "unknown"
    span_id: str | None = None
    source: Literal["span", "messages", "both"] = "span"
    duration: float | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document that a retriever brought."""

    content: str | None = None
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=_nothing)
    query: str | None = None
    span_id: str | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens used. Input includes cached tokens, output includes reasoning, as OpenTelemetry counts them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class OperationKind(StrEnum):
    """What a span did."""

    AGENT = "agent"
    WORKFLOW = "workflow"
    INFERENCE = "inference"
    TOOL = "tool"
    RETRIEVAL = "retrieval"
    EMBEDDING = "embedding"
    OTHER = "other"
    """Claimed by a dialect, but a mere wrapper: a step, a turn, a guardrail."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One span, read by a dialect: its kind and the normalised fields of that kind.

    None (or an empty tuple) says that the span does not tell; `availability` says why, by field name.
    """

    span: SpanRecord
    kind: OperationKind
    dialect: str
    name: str | None = None
    """Of the agent, workflow, tool or retriever."""
    input_messages: tuple[Message, ...] = ()
    """Everything that went in, history included, oldest first."""
    output_messages: tuple[Message, ...] = ()
    system_instructions: str | None = None
    new_messages_from: int | None = None
    """Where this turn begins in `input_messages`, if the convention says so."""
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
    agent_version: str | None = None
    error: str | None = None
    error_type: str | None = None
    availability: Mapping[str, Availability] = field(default_factory=_nothing)
    """By field: `input`, `output`, `system`, `tool_arguments`, `tool_results`, `documents`."""
    sources: Mapping[str, Source] = field(default_factory=_nothing)
    """By field, as in `availability`."""

    @property
    def span_id(self) -> str:
        """Id of the span that this operation is."""
        return self.span.span_id


@quick
@dataclass(frozen=True, kw_only=True)
class Run:
    """One agent invocation, recovered from its operations: what scorers judge."""

    trace_id: str
    root_span_id: str
    root_kind: OperationKind
    operations: tuple[Operation, ...] = ()
    """By start time, the root included; `span.parent_span_id` makes the tree."""
    children: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
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
    usage: Usage = Usage()
    finish_reasons: tuple[str, ...] = ()
    error: str | None = None
    error_type: str | None = None
    start_time: int = 0
    end_time: int | None = None
    resource: Mapping[str, Any] = field(default_factory=_nothing)
    scope_name: str = ""
    dialect: str = ""
    trace_flags: int = 1
    trace_state: str = ""
    availability: Mapping[str, Availability] = field(default_factory=_nothing)
    """By field: `input`, `output`, `system`, `tool_arguments`, `tool_results`, `documents`."""
    sources: Mapping[str, Source] = field(default_factory=_nothing)
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

    def of_kind(self, kind: OperationKind) -> Iterator[Operation]:
        """The run's operations of one kind, by start time."""
        return (o for o in self.operations if o.kind is kind)


# --- what goes out ---


class Direction(StrEnum):
    """Which way a score is good."""

    HIGHER = "higher_is_better"
    LOWER = "lower_is_better"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSeen:
    """What a resolver gave a judge."""

    digest: str
    """SHA-256 over the context's pieces, as hex."""
    pieces: int
    truncated: bool = False
    text: tuple[str, ...] | None = None
    """The pieces themselves; None where content capture is off."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a scorer: what it was asked, what came back, what that cost."""

    name: str
    result: Any = None
    prompt: str | None = None
    """The prompt sent to the judge; None for code steps and where content capture is off."""
    model: str | None = None
    usage: Usage = Usage()
    cost: float | None = None
    """US dollars; None when no judge was called or its price is unknown."""
    attempts: int = 1
    start_time: int = 0
    duration: float = 0.0
    context: ContextSeen | None = None
    error: str | None = None
    """Set on a reason step that failed: the score stands without its explanation."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A scorer's judgement of a run."""

    value: float
    label: str | None = None
    explanation: str | None = None
    steps: tuple[StepRecord, ...] = ()
    agreement: float | None = None
    """Share of a panel's votes that agree with this score; None where nobody voted."""

    @property
    def usage(self) -> Usage:
        """Tokens of all judge calls."""
        return sum((s.usage for s in self.steps), Usage())

    @property
    def cost(self) -> float | None:
        """US dollars of all judge calls; None when a price is unknown or no judge was called."""
        costs = [s.cost for s in self.steps if s.model is not None]
        return sum(c for c in costs if c is not None) if costs and None not in costs else None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class NotScored:
    """The scorer looked and says it does not apply. Not a zero, not an error, never averaged."""

    reason: str
    """Low cardinality, lower_snake_case: `no_tool_calls`, `content_not_recorded`, ..."""
    explanation: str | None = None
    """For people: what is missing and the setting that would turn it on."""
    steps: tuple[StepRecord, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerFailure:
    """The scorer or its judge failed."""

    error_type: str
    """As OpenTelemetry's `error.type`: an exception's name, `timeout`, or an HTTP status."""
    message: str
    attempts: int = 1
    steps: tuple[StepRecord, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """The run was sampled, but never reached its scorer."""

    reason: str
    """Low cardinality: `queue_full`, `shutdown`, ..."""


Outcome = Score | NotScored | ScorerFailure | Dropped
"""How a sampled run ends for one rule: exactly one of these."""


@quick
@dataclass(frozen=True, slots=True)
class Sampled:
    """Why a run was picked, and how likely that was."""

    probability: float | None
    """Probability that a run like this one is picked; None where it cannot be known."""
    rule: str
    """The sampler, in words."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One scorer's outcome for one target."""

    evaluation_id: str
    """Derived from trace and span, or from the conversation, scorer and version: a repeat has the same id."""
    scorer_id: str
    scorer_version: str
    direction: Direction
    trace_id: str
    span_id: str
    """The judged span."""
    outcome: Outcome
    sampled: Sampled
    duration: float = 0.0
    attempts: int = 1
    revision: int = 1
    """Counts up when the same target is scored again, for instance after a late span."""
    time: int = 0
    """When the outcome was known, nanoseconds since the Unix epoch."""
    conversation_id: str | None = None
    """The judged conversation, for rules of scope `conversation`; the judged span is its last run's root."""

    @property
    def status(self) -> Literal["scored", "not_scored", "failed", "dropped"]:
        """Which of the four ends this is."""
        match self.outcome:
            case Score():
                return "scored"
            case NotScored():
                return "not_scored"
            case ScorerFailure():
                return "failed"
            case Dropped():
                return "dropped"

    @property
    def reason(self) -> str | None:
        """Low-cardinality reason of an outcome other than a score."""
        match self.outcome:
            case NotScored(reason=reason) | Dropped(reason=reason):
                return reason
            case ScorerFailure(error_type=error_type):
                return error_type
        return None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRun:
    """A run with all its evaluations: what destinations receive."""

    run: Run
    evaluations: tuple[Evaluation, ...] = ()
