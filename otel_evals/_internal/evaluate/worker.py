"""A rule's worker: concurrency, timeouts and retries of its evaluations.

A timeout frees the slot even if the scorer ignores its cancellation, so a judge that hangs does not delay
other rules.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice, takewhile
from typing import Any

from anyio import to_thread

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.job import Job, Result
from otel_evals._internal.model import Outcome, Run, ScorerFailure
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.scoring.outcome import asked_wait, failure_of, root_cause, to_outcome
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.util.calls import AbandonedThreads, abandoned_threads, hide_task
from otel_evals._internal.util.cancellation import must_propagate
from otel_evals._internal.util.error_log import tell
from otel_evals._internal.util.retry import backoff

__all__ = ["HeldBytes", "Worker"]

_logger = logging.getLogger(__name__)

_MOST_ABANDONED = 16
_AT_ONCE_SECONDS = 0.001
"""How long queued jobs of a scorer that never waits are run before others have their turn."""
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_CLEANUP_SECONDS = 0.05
"""Seconds after its timeout in which a cancelled scorer may still return a partial result."""


class HeldBytes:
    """The bytes of the runs whose jobs are queued or under way, over all rules; each counts its own."""

    def __init__(self) -> None:
        self.bytes = 0

    def release(self, job: Job) -> None:
        """A job has ended."""
        self.bytes -= job.size
        job.size = 0


class Worker:
    """Runs the jobs of one rule.

    Args:
        rule: the scorer and its limits.
        start: returns the context that a job's scorer runs in; called before each attempt.
        end: called once with each job's outcome.
        draw: random numbers in [0, 1), for the jitter of retries.
        held: counts the bytes of the runs that are held.
    """

    def __init__(
        self,
        rule: Rule,
        start: Callable[[Job], contextvars.Context],
        end: Callable[[Job, Outcome], None],
        draw: Callable[[], float] = random.random,
        held: HeldBytes | None = None,
    ) -> None:
        self._rule = rule
        self._start_job = start
        self._end = end
        self._held = held or HeldBytes()
        self._draw = draw
        self.queue: deque[Job] = deque()
        self.running: set[Job] = set()
        self.retrying: set[Job] = set()
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._threads = AbandonedThreads(max(40, rule.concurrency))
        self._deadlines: dict[Job, float] = {}
        """By job, the first one first: when its attempt has taken too long, on the loop's clock."""
        self._watching: asyncio.TimerHandle | None = None
        self._context = contextvars.Context()
        """Empty: what is done when an attempt ends is not part of what its scorer does."""
        self._filling = False
        self._ready = type(rule.scorer).prepare is Scorer.prepare

    @property
    def waiting(self) -> int:
        """Jobs that are queued or wait for their next attempt."""
        return len(self.queue) + len(self.retrying)

    async def prepare(self) -> None:
        """Call the scorer's `prepare` on another thread; jobs are queued until it returns."""
        if not self._ready:
            hide_task()
            error = await to_thread.run_sync(_prepare, self._rule.scorer, abandon_on_cancel=True)
            if error is not None:
                name = self._rule.scorer.id
                tell(_logger, "%s failed to prepare", name, error=error, level=logging.WARNING)
            self._ready = True
            self._fill()

    def take(self, job: Job) -> bool:
        """Run a job now, if there is a slot; returns whether there is."""
        if not self._ready or self.queue or len(self.running) >= self._rule.concurrency:
            return False
        self.offer(job)
        return True

    def offer(self, job: Job) -> None:
        """Run a job now, or queue it until a slot is free."""
        self.queue.append(job)
        self._fill()

    def abort(self, outcome: Outcome) -> None:
        """End all jobs with this outcome."""
        left = [*self.running, *self.retrying, *self.queue]
        self.queue.clear()
        for job in left:
            self._finish(job, outcome)

    def _fill(self) -> None:
        if self._filling or not self._ready:
            return  # called from within the loop below, by a job that ended at once
        self._filling = True
        try:
            until = time.monotonic() + _AT_ONCE_SECONDS
            while self.queue and len(self.running) < self._rule.concurrency:
                self._start(self.queue.popleft())
                if self._rule.scorer.at_once and self.queue and time.monotonic() > until:
                    asyncio.get_running_loop().call_soon(self._fill)
                    break
        finally:
            self._filling = False

    def _start(self, job: Job) -> None:
        if len(self._abandoned) + len(self._threads.calls) >= _MOST_ABANDONED + 2 * self._rule.concurrency:
            message = "too many earlier attempts were still running, long after their timeout"
            return self._finish(job, ScorerFailure(error_type="stuck", message=message))
        self.running.add(job)
        job.attempts += 1
        job.started, job.began = time.time_ns(), time.monotonic()
        job.context = self._start_job(job)
        job.paused = None
        if self._rule.scorer.at_once:
            return self._conclude(job, job.context.run(_score_at_once, self._rule.scorer, job.run))
        job.context.run(abandoned_threads.set, self._threads)
        job.task = asyncio.get_running_loop().create_task(_score(self._rule, job.run), context=job.context)
        job.task.add_done_callback(partial(self._done, job), context=self._context)
        self._watch(job)
        return None

    def _watch(self, job: Job) -> None:
        """Have a job time out. All of a rule have the same time, so one timer, for the first, serves them."""
        loop = asyncio.get_running_loop()
        self._deadlines[job] = due = loop.time() + self._rule.timeout
        if self._watching is None:
            self._watching = loop.call_at(due, self._look, context=self._context)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time() + time.get_clock_info("monotonic").resolution  # as the loop sees its timers
        overdue = list(takewhile(lambda job: self._deadlines[job] <= now, self._deadlines))
        left = next(islice(self._deadlines.values(), len(overdue), None), None)
        self._watching = None if left is None else loop.call_at(left, self._look, context=self._context)
        for job in overdue:
            if self._deadlines.pop(job, None) is not None:
                self._time_out(job)

    def _time_out(self, job: Job) -> None:
        """Cancel the scorer; one that lacks only its reason may still return its score."""
        if job.task is None or job.task.done():
            return
        job.timed_out = True
        job.timer = asyncio.get_running_loop().call_later(_CLEANUP_SECONDS, self._give_up, job)
        job.task.cancel()

    def _give_up(self, job: Job) -> None:
        message = f"no score within {self._rule.timeout:g} s"
        self._finish(job, ScorerFailure(error_type="timeout", message=message, attempts=job.attempts))

    def _done(self, job: Job, task: asyncio.Task[Result]) -> None:
        self._abandoned.discard(task)
        if job.ended or task is not job.task:
            return
        self._conclude(job, _result(task))

    def _conclude(self, job: Job, result: Result) -> None:
        """An attempt has ended: the job ends, or waits for another attempt."""
        if not isinstance(result, BaseException):
            self._finish(job, to_outcome(result, attempts=job.attempts))
        elif job.timed_out:
            self._give_up(job)
        elif (again := self._wait(job, result)) is not None:
            self._retry_later(job, again)
        else:
            job.error = root_cause(result)
            self._finish(job, failure_of(result, attempts=job.attempts))

    def _wait(self, job: Job, error: BaseException) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        cause = root_cause(error)
        if issubclass(type(cause), ProcessDiedError) and job.attempts == 1:
            return 0.0
        asked = asked_wait(cause)
        if asked is None or job.attempts >= self._rule.attempts:
            return None
        wait = backoff(job.attempts, first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, draw=self._draw)
        return max(wait, min(asked, _LONGEST_BACKOFF))

    def _retry_later(self, job: Job, seconds: float) -> None:
        """Free the slot while waiting for the next attempt."""
        job.paused = time.time_ns()
        self._release(job)
        self.retrying.add(job)
        job.timer = asyncio.get_running_loop().call_later(seconds, self._retry, job)
        self._fill()

    def _retry(self, job: Job) -> None:
        self.retrying.discard(job)
        if not job.ended:
            self.queue.appendleft(job)
            self._fill()

    def _finish(self, job: Job, outcome: Outcome) -> None:
        if job.ended:
            return
        job.ended = True
        self._release(job)
        self.retrying.discard(job)
        if job.task is not None and not job.task.done():
            self._abandoned.add(job.task)
            job.task.cancel()
        job.task = None
        self._held.release(job)
        try:
            self._end(job, outcome)
        finally:
            self._fill()

    def _release(self, job: Job) -> None:
        self.running.discard(job)
        self._deadlines.pop(job, None)
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None


def _prepare(scorer: Scorer) -> BaseException | None:
    """What goes wrong, as a value: not every exception can be handed from thread to thread."""
    try:
        scorer.prepare()
    except BaseException as error:
        return error
    return None


def _result(task: asyncio.Task[Result]) -> Result:
    """A task's result, or its exception, cancellation and GeneratorExit included."""
    if task.cancelled():
        return asyncio.CancelledError("the scorer cancelled itself")
    error = task.exception()
    return task.result() if error is None else error


def _score_at_once(scorer: Scorer, run: Run) -> Result:
    """As `_score`, of a scorer that gives its score without waiting."""
    try:
        return scorer.score_at_once(run)
    except BaseException as error:
        return error


async def _score(rule: Rule, run: Run) -> Result:
    """The scorer's result, or the exception it raises as a value: not even SystemExit may end the engine."""
    try:
        return await rule.scorer.score(run)
    except BaseException as error:
        if must_propagate(error):
            raise
        return error
