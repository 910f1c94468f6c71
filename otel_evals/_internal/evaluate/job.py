"""The engine's units of work: jobs, and the targets they evaluate."""

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
    """A span or a conversation that is judged, with its evaluations so far."""

    run: Run
    span_id: str
    """The judged span: the run's root; a conversation's is that of its last run."""
    revision: int = 1
    """The revision of its evaluations."""
    awaited: set[str] = field(default_factory=set)
    """Names of the rules whose outcome or decision is not known yet."""
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
    size: int = 0
    """Bytes of its run, while it counts among what is held."""
    revision: int = 0
    """The revision of its evaluation; 0 for that of its target."""
    opened: Opened | None = None
    """The attempt's place among the traces; set when it starts."""
    attempts: int = 0
    started: int = 0
    """When the last attempt began, in nanoseconds since the Unix epoch; 0 before the first."""
    began: float = 0.0
    """When the last attempt began, in `time.monotonic` seconds."""
    paused: int | None = None
    """When it ended without an outcome, in nanoseconds since the Unix epoch; None during an attempt."""
    ended: bool = False
    task: asyncio.Task[None] | None = None
    """The current attempt."""
    timer: asyncio.TimerHandle | None = None
    """Of the end of an attempt that timed out, or of the next attempt's start."""
    timed_out: bool = False
    error: BaseException | None = None
    """What made its last attempt fail, for the log."""
