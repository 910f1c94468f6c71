"""Jobs, and the targets they evaluate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from otel_evals._internal.attach.attacher import Opened
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import Evaluation, NotScored, Run, Sampled, Score
from otel_evals._internal.sampling.decide import RunDecisions

Result = Score | NotScored | BaseException
"""The result of one attempt at scoring; exceptions are values here."""


@dataclass(slots=True, eq=False)
class Target:
    """A judged span or conversation, with its evaluations so far."""

    run: Run
    span_id: str
    """The judged span: the root of the run, or of a conversation's last run."""
    revision: int = 1
    trace_id: str = ""
    """Taken before a scorer sees the run, and may change it."""
    conversation_id: str | None = None
    """The judged conversation."""
    awaited: set[str] = field(default_factory=set)
    """Names of the rules without an outcome or final decision."""
    decisions: dict[str, RunDecisions] = field(default_factory=dict)
    """By the rules' `asked_with`."""
    evaluations: list[Evaluation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Job:
    """One evaluation to make: a run and a rule that samples it."""

    rule: Rule
    run: Run
    sampled: Sampled
    target: Target
    evaluation_id: str = ""
    size: int = 0
    """Bytes of its run, while the scheduler counts them."""
    revision: int = 0
    """0 for the revision of its target."""
    opened: Opened | None = None
    """The evaluation span and context; set when an attempt starts."""
    attempts: int = 0
    started: int = 0
    """Start of the last attempt, in nanoseconds since the Unix epoch; 0 before the first."""
    began: float = 0.0
    """Start of the last attempt, in `time.monotonic` seconds."""
    paused: int | None = None
    """End of an attempt without an outcome, in nanoseconds since the Unix epoch; None during an attempt."""
    ended: bool = False
    task: asyncio.Task[None] | None = None
    """The current attempt."""
    timer: asyncio.TimerHandle | None = None
    """Fires at the end of an attempt that timed out, or at the start of the next attempt."""
    timed_out: bool = False
    error: BaseException | None = None
    """The error of its last attempt, for the log."""
