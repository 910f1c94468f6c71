"""Jobs, and the targets they evaluate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from otel_evals._internal.attach.attacher import Opened
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.check import Check
from otel_evals._internal.model import Evaluation, NotScored, Run, Sampled, Score
from otel_evals._internal.sampling.decide import RunDecisions

Result = Score | NotScored | BaseException
"""The result of one attempt at scoring; exceptions are values here."""


class Target(msgspec.Struct, eq=False, gc=False):
    """A judged span or conversation, with its evaluations so far.

    The garbage collector skips it, so it must not refer to jobs or rules.
    """

    run: Run
    span_id: str
    """The judged span: the root of the run, or of a conversation's last run."""
    revision: int = 1
    trace_id: str = ""
    """Taken before a scorer sees the run, and may change it."""
    conversation_id: str | None = None
    """The judged conversation."""
    awaited: dict[str, None] = {}  # a struct copies it
    """Names of the rules, and of running checks, without an outcome; the collector would walk a set."""
    decisions: dict[str, RunDecisions] = {}
    """By the rules' `asked_with`."""
    evaluations: tuple[Evaluation, ...] = ()
    checks: dict[str, int] = {}
    """Number of evaluations by `check`, by rule name."""
    under_way: float | None = None
    """Until its run closes: time of the last check, on `time.monotonic`. It is delivered afterwards."""

    def take(self, evaluation: Evaluation) -> None:
        """Add an evaluation by `check`; only the latest of a rule stays."""
        same = [e for e in self.evaluations if e.evaluation_id == evaluation.evaluation_id]
        if not any(e.revision > evaluation.revision for e in same):
            self.evaluations = (*(e for e in self.evaluations if e not in same), evaluation)


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
    check: Check | None = None
    """The check that evaluates the run before it closes."""
    awaited_as: str = ""
    """Its name in `Target.awaited`; the rule's if empty."""
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
    on_done: Callable[[Job, asyncio.Task[Any]], object] | None = None
    """Called at the end of each attempt's task."""

    def __call__(self, task: asyncio.Task[Any]) -> None:
        """Note the end of an attempt's task; its callback is the job itself, not another object."""
        if self.on_done is not None:
            self.on_done(self, task)
