"""The jobs of one rule: queued, running, or waiting for another attempt.

A lane holds state and answers questions; the evaluator starts attempts and ends them. A timeout frees the
slot even if the scorer ignores its cancellation, so a judge that hangs does not delay other rules.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from anyio import to_thread

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.model import ScorerFailure
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.scoring.outcome import asked_wait, root_cause
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.util.calls import AbandonedThreads, hide_task
from otel_evals._internal.util.error_log import tell
from otel_evals._internal.util.retry import backoff

_logger = logging.getLogger(__name__)

_MAX_ABANDONED = 16
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0


class Lane:
    """The queue, the slots and the timeouts of one rule.

    Args:
        rule: the scorer and its limits.
        draw: random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(self, rule: Rule, draw: Callable[[], float] = random.random) -> None:
        self.rule = rule
        self.scorer = rule.scorer
        self._draw = draw
        self.queue: deque[Job] = deque()
        self.running: dict[Job, None] = {}
        """In the order in which their attempts began."""
        self.retrying: set[Job] = set()
        self.abandoned: set[asyncio.Task[Any]] = set()
        """Attempts that go on although their job has ended."""
        self.threads = AbandonedThreads(max(40, rule.concurrency))
        self.watch: asyncio.TimerHandle | None = None
        """Fires when the first running attempt has taken too long."""
        self.filling = False
        self.ready = type(rule.scorer).prepare is Scorer.prepare
        """Whether the scorer is prepared."""

    @property
    def waiting(self) -> int:
        """Jobs that are queued or wait for their next attempt."""
        return len(self.queue) + len(self.retrying)

    @property
    def stuck(self) -> ScorerFailure | None:
        """The outcome of a job that cannot start because too many abandoned attempts still run."""
        most = _MAX_ABANDONED + 2 * self.rule.concurrency
        if len(self.abandoned) + len(self.threads.calls) < most:
            return None
        self.abandoned = {task for task in self.abandoned if not task.done()}
        if len(self.abandoned) + len(self.threads.calls) < most:
            return None
        message = "too many earlier attempts were still running, long after their timeout"
        return ScorerFailure(error_type="stuck", message=message)

    async def prepare(self) -> None:
        """Call the scorer's `prepare` on another thread; jobs are queued until it returns."""
        if self.ready:
            return
        hide_task()
        error = await to_thread.run_sync(_prepare, self.scorer, abandon_on_cancel=True)
        if error is not None:
            message = "%s failed to prepare"
            tell(_logger, message, self.scorer.id, error=error, level=logging.WARNING)
        self.ready = True

    def overdue(self) -> list[Job]:
        """The running jobs whose attempt has just taken too long, marked as timed out."""
        now = time.monotonic() + time.get_clock_info("monotonic").resolution  # as the loop sees its timers
        found = []
        for job in self.running:
            if job.began + self.rule.timeout > now:
                break
            if not job.timed_out:
                job.timed_out = True
                found.append(job)
        return found

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the next running attempt has taken too long; None if none runs."""
        for job in self.running:
            if not job.timed_out:
                return max(0.0, job.began + self.rule.timeout - time.monotonic())
        return None

    def timeout(self, job: Job) -> ScorerFailure:
        """The outcome of a job whose attempt has taken too long."""
        message = f"no score within {self.rule.timeout:g} s"
        return ScorerFailure(error_type="timeout", message=message, attempts=job.attempts)

    def seconds_until_retry(self, job: Job, error: BaseException) -> float | None:
        """Seconds until the next attempt after an error; None if there is none."""
        cause = root_cause(error)
        if issubclass(type(cause), ProcessDiedError) and job.attempts == 1:
            return 0.0
        asked = asked_wait(cause)
        if asked is None or job.attempts >= self.rule.attempts:
            return None
        wait = backoff(job.attempts, first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, draw=self._draw)
        return max(wait, min(asked, _LONGEST_BACKOFF))

    def release(self, job: Job) -> None:
        """Free the slot of a job that has ended, and abandon its attempt if that goes on."""
        self.running.pop(job, None)
        self.retrying.discard(job)
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None
        task, job.task = job.task, None
        if task is not None and not task.done():
            self.abandoned.add(task)
            task.cancel()

    def clear(self) -> list[Job]:
        """Empty the queue; returns all jobs that have not ended."""
        left = [*self.running, *self.retrying, *self.queue]
        self.queue.clear()
        return left


def _prepare(scorer: Scorer) -> BaseException | None:
    """Return what goes wrong as a value: not every exception can be handed from thread to thread."""
    try:
        scorer.prepare()
    except BaseException as error:
        return error
    return None
