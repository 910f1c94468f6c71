"""A rule's lane: how many of its evaluations run at once, how long each may take, and when to try again.

A hard timeout frees the slot whether or not the scorer lets itself be cancelled, so one lane's hanging
judge costs no other lane anything.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread

from otel_evals.calls import Strays, strays
from otel_evals.config import Rule
from otel_evals.errors import JudgeUnavailableError
from otel_evals.isolation.child import WorkerDiedError
from otel_evals.model import NotScored, Outcome, Run, Sampled, Score, ScorerFailure, StepRecord
from otel_evals.scorer import Scorer

__all__ = ["Job", "Lane"]

_logger = logging.getLogger(__name__)
_Result = Score | NotScored | BaseException

_MOST_STRAYS = 16
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 30.0
_HAND_OVER = 0.05
"""Seconds that a scorer has after its time is up to hand over what it knows."""


@dataclass(slots=True, eq=False)
class Job:
    """One run on its way through one rule."""

    name: str
    """Under which it is counted."""
    rule: Rule
    run: Run
    sampled: Sampled
    ticket: Any = None
    """Whatever the one who offers it keeps with it."""
    place: int = 0
    """Among the tasks of a spooled run."""
    opened: Any = None
    """Likewise, from its beginning on."""
    context: contextvars.Context | None = None
    """What the scorer runs in."""
    attempts: int = 0
    started: int = 0
    """Nanoseconds since the Unix epoch."""
    began: float = 0.0
    ended: bool = False
    task: asyncio.Task[_Result] | None = None
    timer: asyncio.TimerHandle | None = field(default=None)
    late: bool = False
    """Whether the time was up before the scorer answered."""


class Lane:
    """Runs the jobs of one rule.

    Args:
        rule: scorer, limits.
        begin: called once before a job's first attempt.
        end: called once with each job's outcome.
        draw: random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(
        self,
        rule: Rule,
        begin: Callable[[Job], None],
        end: Callable[[Job, Outcome], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._rule = rule
        self._begin = begin
        self._end = end
        self._draw = draw
        self._queue: deque[Job] = deque()
        self._running: set[Job] = set()
        self._resting: set[Job] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._strays = Strays(max(40, rule.concurrency))
        self._filling = False
        self._ready = type(rule.scorer).prepare is Scorer.prepare

    @property
    def waiting(self) -> int:
        """Jobs that have no slot yet."""
        return len(self._queue) + len(self._resting)

    async def prepare(self) -> None:
        """Have the scorer load what it needs, on a worker thread; its jobs wait, on nobody's clock."""
        if not self._ready:
            try:
                await to_thread.run_sync(self._rule.scorer.prepare, abandon_on_cancel=True)
            except Exception:
                _logger.warning("%s could not prepare itself", self._rule.scorer.id, exc_info=True)
            self._ready = True
            self._fill()

    def offer(self, job: Job) -> None:
        """Run a job, now or when a slot is free."""
        self._queue.append(job)
        self._fill()

    def abort(self, outcome: Outcome) -> None:
        """End every job with this outcome."""
        left = [*self._running, *self._resting, *self._queue]
        self._queue.clear()
        for job in left:
            self._finish(job, outcome)

    def _fill(self) -> None:
        if self._filling or not self._ready:
            return  # a job that ended at once: the loop below goes on
        self._filling = True
        try:
            while self._queue and len(self._running) < self._rule.concurrency:
                self._start(self._queue.popleft())
        finally:
            self._filling = False

    def _start(self, job: Job) -> None:
        if len(self._abandoned) + len(self._strays) >= _MOST_STRAYS + 2 * self._rule.concurrency:
            message = "too many earlier attempts are still running, long after their timeout"
            return self._finish(job, ScorerFailure(error_type="stuck", message=message))
        loop = asyncio.get_running_loop()
        self._running.add(job)
        job.attempts += 1
        if job.attempts == 1:
            job.started, job.began = time.time_ns(), time.monotonic()
            self._begin(job)
            if job.context is not None:
                job.context.run(strays.set, self._strays)
        job.task = loop.create_task(_scored(self._rule, job.run), context=job.context)
        job.timer = loop.call_later(self._rule.timeout, self._time_out, job)
        job.task.add_done_callback(lambda task: self._done(job, task))
        return None

    def _time_out(self, job: Job) -> None:
        """Ask the scorer to stop; one that lacks no more than its reason still hands its score over."""
        if job.task is None or job.task.done():
            return
        job.late = True
        job.timer = asyncio.get_running_loop().call_later(_HAND_OVER, self._give_up, job)
        job.task.cancel()

    def _give_up(self, job: Job) -> None:
        message = f"no score within {self._rule.timeout:g} s"
        self._finish(job, ScorerFailure(error_type="timeout", message=message, attempts=job.attempts))

    def _done(self, job: Job, task: asyncio.Task[_Result]) -> None:
        self._abandoned.discard(task)
        if job.ended or task is not job.task:
            return
        result = asyncio.CancelledError("the scorer cancelled itself") if task.cancelled() else task.result()
        if not isinstance(result, BaseException):
            self._finish(job, result)
        elif job.late:
            self._give_up(job)
        elif (again := self._backoff(job, result)) is not None:
            self._rest(job, again)
        else:
            self._finish(job, failure(result, job.attempts))

    def _backoff(self, job: Job, error: BaseException) -> float | None:
        """Seconds until the next attempt; None when there is none."""
        cause = _root(error)
        if isinstance(cause, WorkerDiedError) and job.attempts == 1:
            return 0.0
        if not isinstance(cause, JudgeUnavailableError) or job.attempts >= self._rule.attempts:
            return None
        delay: float = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (job.attempts - 1)) * (0.5 + self._draw())
        return max(delay, min(cause.retry_after or 0.0, _LONGEST_BACKOFF))

    def _rest(self, job: Job, seconds: float) -> None:
        """Free the slot while waiting for the next attempt."""
        self._release(job)
        self._resting.add(job)
        job.timer = asyncio.get_running_loop().call_later(seconds, self._resume, job)
        self._fill()

    def _resume(self, job: Job) -> None:
        self._resting.discard(job)
        if not job.ended:
            self._queue.appendleft(job)
            self._fill()

    def _finish(self, job: Job, outcome: Outcome) -> None:
        if job.ended:
            return
        job.ended = True
        self._release(job)
        self._resting.discard(job)
        if job.task is not None and not job.task.done():
            self._abandoned.add(job.task)
            job.task.cancel()
        job.task = None
        try:
            self._end(job, outcome)
        finally:
            self._fill()

    def _release(self, job: Job) -> None:
        self._running.discard(job)
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None


async def _scored(rule: Rule, run: Run) -> _Result:
    """The scorer's answer, checked; or what it raised, as a value: not even SystemExit may end the engine."""
    try:
        outcome = await rule.scorer.score(run)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return error
    if not isinstance(outcome, Score | NotScored):
        return TypeError(f"{rule.scorer.id} returned {type(outcome).__name__}, not a Score or NotScored")
    if isinstance(outcome, Score) and not _is_finite(outcome.value):
        return ValueError(f"{rule.scorer.id} returned {outcome.value!r}, not a finite number")
    return outcome


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and value == value and abs(value) != float("inf")


def _root(error: BaseException) -> BaseException:
    """The exception that a failed step wraps, or the exception itself."""
    return error.__cause__ if hasattr(error, "steps") and error.__cause__ is not None else error


def failure(error: BaseException, attempts: int = 1) -> ScorerFailure:
    """An exception as the outcome it means."""
    steps: tuple[StepRecord, ...] = getattr(error, "steps", ())
    cause = _root(error)
    return ScorerFailure(
        error_type=str(getattr(error, "error_type", type(cause).__name__)),
        message=f"{cause}"[:2000] or type(cause).__name__,
        attempts=attempts,
        steps=tuple(steps),
    )
