"""Evaluations without an outcome, the spans they judge, and how they wait.

An evaluation is a coroutine without a task. Whatever it waits for is settled once, by a value: a free slot,
the result of an attempt, the end of a pause, or the reason why it is dropped. That costs a fifth of a task,
and shutdown needs no cancellation.

Two rules keep this correct. Only the engine's own coroutines are driven like this: outside a task,
`asyncio.timeout`, anyio's scopes and context tokens bind to the wrong task, so scorers run in one. And these
coroutines have no `finally` and no `async with`: a forked child or an ending interpreter collects them, and
would run these blocks in the wrong process.
"""

from __future__ import annotations

import asyncio
import logging
import types
from collections.abc import Coroutine, Generator
from typing import Any

from otel_evals._internal.attach.attacher import Opened
from otel_evals._internal.engine.check import Check, CheckedRun
from otel_evals._internal.model import Evaluation, NotScored, Run, Sampled, Score, StepRecord
from otel_evals._internal.read.conversation import evaluation_id
from otel_evals._internal.sampling.decide import RunDecisions
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals._internal.util.error_log import log_error

Result = Score | NotScored | BaseException
"""The result of one attempt; exceptions are values here."""

_logger = logging.getLogger(__name__)


@types.coroutine
def settled() -> Generator[None, Any, Any]:
    """Wait until `Pending.settle` is called; returns its value."""
    return (yield)


class Target:
    """A judged span or conversation, with its evaluations so far."""

    __slots__ = (
        "conversation_id", "evaluations", "held", "is_check", "open", "revision", "run", "size",
        "span_id", "trace_id",
    )  # fmt: skip

    def __init__(self, run: Run, revision: int = 1, *, held: bool = True) -> None:
        self.run, self.revision, self.held = run, revision, held
        self.trace_id, self.span_id = run.trace_id, run.root_span_id  # before a scorer sees the run
        self.conversation_id = run.conversation_id if run.turns else None
        self.is_check = not held and not run.turns
        self.open = 0
        """Number of evaluations without an outcome."""
        self.evaluations: tuple[Evaluation, ...] = ()
        self.size = 0
        """Approximate bytes of the run, while the target is open."""


class Pending:
    """An evaluation without an outcome, and the coroutine that waits for it."""

    __slots__ = (
        "attempts", "began", "check", "coroutine", "decisions", "error", "evaluation_id", "opened",
        "paused", "queue", "retry_after", "revision", "run", "sampled", "started", "target", "task",
        "timed_out", "timer",
    )  # fmt: skip

    def __init__(self, queue: Any, target: Target, decisions: RunDecisions) -> None:
        rule, run = queue.rule, decisions.run
        self.queue, self.target, self.run, self.decisions = queue, target, run, decisions
        self.sampled: Sampled = decisions.on_record[rule.scorer_id]
        self.evaluation_id = evaluation_id(run, rule.evaluation_key, queue.facts.version)
        self.revision = target.revision
        self.check: tuple[Check, CheckedRun] | None = None
        self.opened: Opened | None = None
        self.attempts = 0
        self.started = 0
        """Start of the last attempt, in nanoseconds since the Unix epoch; 0 before the first."""
        self.began = 0.0
        """The same in `time.monotonic` seconds."""
        self.paused: int | None = None
        """End of an attempt without an outcome; None during an attempt."""
        self.retry_after = 0.0
        """Seconds to wait before the next attempt."""
        self.timed_out = False
        self.error: BaseException | None = None
        """The exception of the last attempt, for the log."""
        self.task: asyncio.Task[Result] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.coroutine: Coroutine[Any, Any, None] | None = None
        """The coroutine, while it waits."""

    def drive(self, coroutine: Coroutine[Any, Any, None], value: Any = None) -> None:
        """Run a coroutine until it waits or ends."""
        try:
            coroutine.send(value)
        except StopIteration:
            return
        except Exception as error:
            log_error(_logger, "error in the engine", error=error)
            return
        self.coroutine = coroutine

    def settle(self, value: Any = None) -> None:
        """Continue the coroutine with a value; only the first value counts."""
        coroutine, self.coroutine = self.coroutine, None
        if coroutine is not None:
            self.drive(coroutine, value)

    def __call__(self, task: asyncio.Task[Result]) -> None:
        """Take the result of an attempt's task, as its done callback.

        Only a callback also sees tasks that were cancelled before their first step.
        """
        if self.task is task:
            self.task = None
            self.settle(ended_early(()) if task.cancelled() else task.result())
        else:
            self.queue.abandoned.discard(task)


def ended_early(steps: tuple[StepRecord, ...]) -> StepFailure:
    """Return the failure of a scorer that was cancelled after these steps."""
    failure = StepFailure("the scorer cancelled itself", steps=steps)
    failure.__cause__ = asyncio.CancelledError("the scorer cancelled itself")
    return failure
