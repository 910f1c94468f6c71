"""Results: outcomes, evaluations, scored runs, and feedback from backends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Literal

from otel_evals._internal.model.operations import NO_USAGE, Usage
from otel_evals._internal.model.records import Record
from otel_evals._internal.model.runs import Run

Status = Literal["scored", "not_scored", "failed", "dropped"]
"""The four ways in which a sampled run ends for a rule."""
Effect = Literal["allowed", "blocked", "rewritten"]
"""What an application does with a checked answer."""


class Direction(StrEnum):
    """The better end of a scale."""

    HIGHER = "higher_is_better"
    LOWER = "lower_is_better"


class ContextSeen(Record, frozen=True, kw_only=True):
    """The context that a resolver gave a judge."""

    digest: str
    """SHA-256 over the context's pieces, as hex."""
    pieces: int
    truncated: bool = False
    text: tuple[str, ...] | None = None
    """The pieces themselves; None if content capture is off."""


class Context(Record, frozen=True):
    """The texts a resolver found, in the order the judge sees them."""

    pieces: tuple[str, ...] = ()
    truncated: bool = False
    """True if a size limit left something out; the text shows where."""
    note: str | None = None
    """For people: why there is no context, and the setting that would change it."""


class StepRecord(Record, frozen=True, kw_only=True):
    """One step of a scorer: its prompt, result and cost."""

    name: str
    result: Any = None
    prompt: str | None = None
    """The prompt sent to the judge; None for code steps and if content capture is off."""
    model: str | None = None
    usage: Usage = NO_USAGE
    cost: float | None = None
    """US dollars of the answers; None when no judge was called or its price is unknown."""
    attempts: int = 1
    start_time: int = 0
    duration: float = 0.0
    context: ContextSeen | None = None
    evidence_cut: bool = False
    """True if the judge saw only a part of the evidence."""
    error: str | None = None
    """Set on a step that failed: the reason, a panel's member, or an earlier attempt."""


def total_cost(costs: Sequence[float | None]) -> float | None:
    """Return the sum of US dollars; None when one is unknown or there is none."""
    return sum(c for c in costs if c is not None) if costs and None not in costs else None


def judges_cost(outcomes: Iterable[Any]) -> float | None:
    """Return US dollars of all judge calls; None when a price is unknown or no judge was called."""
    steps = (step for outcome in outcomes for step in getattr(outcome, "steps", ()))
    return total_cost([step.cost for step in steps if step.model is not None])


class Score(Record, frozen=True, kw_only=True):
    """A scorer's judgement of a run."""

    status: ClassVar[Status] = "scored"
    value: float
    label: str | None = None
    explanation: str | None = None
    steps: tuple[StepRecord, ...] = ()
    agreement: float | None = None
    """Share of a panel's votes that agree with this score; None without a vote."""
    span_id: str | None = None
    """Span of the operation that the score is about; None if it is about the whole run."""

    @property
    def usage(self) -> Usage:
        """Tokens of all judge calls, those of failed attempts included."""
        return sum((s.usage for s in self.steps), Usage())

    @property
    def evidence_cut(self) -> bool:
        """True if a judge saw only a part of the evidence: the score is less reliable."""
        return any(s.evidence_cut for s in self.steps)

    @property
    def cost(self) -> float | None:
        """US dollars of all judge calls; None when a price is unknown or no judge was called."""
        return judges_cost([self])


class NotScored(Record, frozen=True, kw_only=True):
    """The scorer does not apply to the run. Not a zero, not an error, never averaged."""

    status: ClassVar[Status] = "not_scored"
    reason: str
    """Low cardinality, lower_snake_case: `no_tool_calls`, `content_not_recorded`, ..."""
    explanation: str | None = None
    """For people: the missing content and the setting that enables it."""
    steps: tuple[StepRecord, ...] = ()


class ScorerFailure(Record, frozen=True, kw_only=True):
    """The scorer or its judge failed."""

    status: ClassVar[Status] = "failed"
    error_type: str
    """As OpenTelemetry's `error.type`: an exception's name, `timeout`, or an HTTP status."""
    message: str
    attempts: int = 1
    steps: tuple[StepRecord, ...] = ()


class Dropped(Record, frozen=True, kw_only=True):
    """The run was sampled, but never reached its scorer."""

    status: ClassVar[Status] = "dropped"
    reason: str
    """Low cardinality: `queue_full`, `shutdown`, ..."""


Outcome = Score | NotScored | ScorerFailure | Dropped
"""The end of a sampled run for one rule: exactly one of these."""


_MISSING = re.compile(r"too_many_.+|no_verdicts|.+_(captured_off|not_recorded|too_long|truncated)")
_NO_TRUTH = ("ground_truth_not_recorded", "ground_truth_captured_off")


def is_missing(status: Status, reason: str | None) -> bool:
    """Return True if a run has no score although the scorer applies to it.

    That is the case for failed and dropped evaluations, and for content that the scorer could not see
    (`input_captured_off`, `tool_results_truncated`). It is not for runs to which the scorer does not apply
    (`no_claims`), runs without a ground truth, and reasons that other packages define.
    """
    if status == "not_scored":
        return reason not in _NO_TRUTH and _MISSING.fullmatch(reason or "") is not None
    return status != "scored"


class Sampled(Record, frozen=True):
    """The sampler that selected a run, and its probability."""

    probability: float | None
    """Probability of selecting a run like this one; None if it is unknown or only a predicate selected the
    run. Estimates leave such runs out."""
    rule: str
    """The sampler, in words."""

    @property
    def weight(self) -> float | None:
        """Number of runs that this one represents in an estimate: 1 / probability; None without one."""
        return max(1.0, 1.0 / self.probability) if self.probability else None


class Verdict(Record, frozen=True, kw_only=True):
    """The result of checking an answer before it leaves."""

    status: Literal["pass", "fail", "undecided"]
    effect: Effect
    """What the application does with the answer, as recorded with the evaluation."""
    score: Score | None = None
    """Set if the scorer answered in time."""
    reason: str | None = None
    """Why the verdict is undecided: `deadline`, the scorer's reason or error type, ..."""
    explanation: str | None = None
    """For people: the scorer's explanation, or what is missing."""

    @property
    def allowed(self) -> bool:
        """True if the answer may leave as it is."""
        return self.effect == "allowed"


class Evaluation(Record, frozen=True, kw_only=True):
    """One scorer's outcome for one target."""

    evaluation_id: str
    """Derived from trace and span (or conversation), scorer and version: a repeat has the same id."""
    scorer_id: str
    scorer_version: str
    direction: Direction
    trace_id: str
    span_id: str
    """The judged span."""
    outcome: Outcome
    sampled: Sampled
    duration: float = 0.0
    """Seconds that the last attempt took; waiting for a slot and between attempts does not count."""
    attempts: int = 1
    revision: int = 1
    """Counts up when the same target is scored again, for instance after a late span."""
    time: int = 0
    """Time of the outcome, in nanoseconds since the Unix epoch."""
    rule: str = ""
    """Name of the rule."""
    scale: float | None = 1.0
    """Scores are in 0..scale; None if every number is allowed."""
    review: str | None = None
    """The rule's condition if its score sends the run to review, such as `score < 0.5`."""
    conversation_id: str | None = None
    """The judged conversation, for rules of scope `conversation`; the judged span is its last run's root."""
    verdict: Literal["pass", "fail", "undecided"] | None = None
    """The verdict that the application received, if it checked the answer before it left."""
    effect: Effect | None = None
    """What the application did with the checked answer; None if it did not wait for the verdict."""

    @property
    def status(self) -> Status:
        """Status of the outcome."""
        return self.outcome.status

    @property
    def reason(self) -> str | None:
        """Low-cardinality reason of an outcome other than a score."""
        match self.outcome:
            case NotScored(reason=reason) | Dropped(reason=reason):
                return reason
            case ScorerFailure(error_type=error_type):
                return error_type
        return None


def scored_span(run: Run, evaluation: Evaluation) -> str:
    """Return the span that a score is about: the operation it names, or the judged span.

    An operation of another trace than the judged span's cannot be named to backends.
    """
    named = evaluation.outcome.span_id if isinstance(evaluation.outcome, Score) else None
    known = named is not None and any(
        o.span_id == named and o.span.trace_id == evaluation.trace_id for o in run.operations
    )
    return named if named is not None and known else evaluation.span_id


class ScoredRun(Record, frozen=True, kw_only=True):
    """A run with all its evaluations: what destinations receive."""

    run: Run
    evaluations: tuple[Evaluation, ...] = ()
