"""The jobs of all rules: queued, running, or waiting for another attempt; and the bounds on them.

A lane per rule holds state and answers questions; the evaluator starts attempts and ends them. A timeout
frees the slot even if the scorer ignores its cancellation, so a judge that hangs does not delay other rules.
Used on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from operator import attrgetter
from typing import Any

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.isolated_scorer import START_SECONDS, IsolatedScorer, most_processes
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.model import ScorerFailure
from otel_evals._internal.model.sizes import size_of_run
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.scoring.outcome import asked_wait, root_cause
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.util.calls import AbandonedThreads, abandoned_threads, hide_task, in_thread
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.retry import backoff

_logger = logging.getLogger(__name__)
_MAX_ABANDONED = 16
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_NEWEST = 0.2
"""Weight of the newest attempt in the moving average of their durations."""
_QUEUE = attrgetter("queue")


class Scheduler:
    """One lane per rule.

    Args:
        rules: scorers and their limits.
        queue_size: maximum number of queued jobs, over all rules.
        max_bytes: maximum bytes of the runs of jobs that are queued or wait for a judge.
        draw: returns random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        queue_size: int,
        max_bytes: int,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._queue_size = queue_size
        self._max_bytes = max_bytes
        self.bytes = 0
        """Approximate bytes of the runs of queued and running jobs, a run once for each job."""
        self._isolated: list[IsolatedScorer] = []
        self._draw = draw
        self.lanes = {rule.name: Lane(self._placed(rule), draw) for rule in rules}
        """By the rule's name."""
        self.stopped_for: str | None = None
        """The reason for dropping every job; None while jobs are accepted."""

    def add(self, rule: Rule) -> Lane:
        """Add the lane of a rule."""
        lane = self.lanes[rule.name] = Lane(self._placed(rule), self._draw)
        return lane

    @property
    def waiting(self) -> int:
        """Number of jobs that are queued or wait for their next attempt."""
        return sum(lane.waiting for lane in self.lanes.values())

    @property
    def room(self) -> int:
        """Number of further jobs that may be queued."""
        return max(0, self._queue_size - self.waiting)

    def running(self) -> set[tuple[str, str]]:
        """Rule and judged span of the jobs with a running scorer. May be called from any thread."""
        lanes = list(self.lanes.values())
        return {(job.rule.name, job.target.span_id) for lane in lanes for job in tuple(lane.running)}

    def queue(self, job: Job) -> list[Job]:
        """Queue a job; returns the jobs that are dropped for it, or itself if there is no room.

        Without room, the rule that needs longest for its queue loses its newest job: a slow judge must not
        take the room of other rules.
        """
        size, dropped, lane = size_of_run(job.run), list[Job](), self.lanes[job.rule.name]
        while self.room <= 0 or (self.bytes and self.bytes + size > self._max_bytes):
            slowest = max(filter(_QUEUE, self.lanes.values()), key=Lane.load, default=lane)
            if slowest.load() <= lane.load(1) or slowest is lane:
                return [*dropped, job]
            dropped.append(slowest.queue.pop())
            self._forget(dropped[-1])
        self.hold(job)
        if job.check is None:
            lane.queue.append(job)
        else:  # the newest first: under overload, some verdicts are in time rather than none
            lane.queue.appendleft(job)
        return dropped

    def hold(self, job: Job, size: int = 0) -> None:
        """Count the bytes of a job's run until the job has ended; `size` if known."""
        job.size = size or size_of_run(job.run)
        self.bytes += job.size

    def release(self, job: Job) -> None:
        """Free the slot, the bytes and the timer of a job that has ended."""
        job.ended = True
        if job.size:
            self._forget(job)
        self.lanes[job.rule.name].release(job)

    def _forget(self, job: Job) -> None:
        self.bytes -= job.size
        job.size = 0

    def close(self) -> None:
        for scorer in self._isolated:
            scorer.close()

    def disown(self) -> None:
        for scorer in self._isolated:
            scorer.disown()

    def _placed(self, rule: Rule) -> Rule:
        """Return the rule for its lane: with `isolation="process"`, its scorer becomes an IsolatedScorer."""
        if rule.isolation == "thread":
            return rule
        isolated = IsolatedScorer(rule.scorer, rule.facts, rule.timeout)
        self._isolated.append(isolated)
        slots = min(rule.concurrency, most_processes())
        return replace(
            rule, scorer=isolated, isolation="thread", concurrency=slots, timeout=rule.timeout + START_SECONDS
        )


class Lane:
    """A rule's queue, slots and timeouts."""

    def __init__(self, rule: Rule, draw: Callable[[], float]) -> None:
        self.rule = rule
        self.scorer = rule.scorer
        self._draw = draw
        self.queue: deque[Job] = deque()
        self.running: dict[Job, None] = {}
        """In the order in which their attempts began."""
        self.retrying: set[Job] = set()
        self.abandoned: set[asyncio.Task[Any]] = set()
        """Attempts that continue after their job has ended."""
        self.threads = AbandonedThreads(max(40, rule.concurrency))
        self.context = contextvars.copy_context()
        """Copied for each attempt."""
        self.context.run(abandoned_threads.set, self.threads)
        self.pace = 0.0
        """Seconds that an attempt takes, a moving average."""
        self.watch: asyncio.TimerHandle | None = None
        """Fires when the first running attempt has timed out."""
        self.filling = False
        self.ready = type(rule.scorer).prepare is Scorer.prepare
        """True once the scorer is prepared."""
        self.preparing: asyncio.Future[None] | None = None
        """Prepares the scorer, if the rule was added after the start."""

    @property
    def waiting(self) -> int:
        """Number of jobs that are queued or wait for their next attempt."""
        return len(self.queue) + len(self.retrying)

    def load(self, more: int = 0) -> tuple[float, int]:
        """Return the seconds that the queued jobs, and some more, would take, and their number."""
        began = next((job.began for job in self.running), inf)
        pace = max(self.pace, time.monotonic() - began)
        jobs = self.waiting + more
        return round(pace * jobs / self.rule.concurrency, 1), jobs

    @property
    def stuck(self) -> ScorerFailure | None:
        """The outcome of a job that cannot start because too many abandoned attempts are still running."""
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
        await in_thread(self._prepare, abandon_on_cancel=True)
        self.ready = True

    def _prepare(self) -> None:
        try:
            self.scorer.prepare()
        except BaseException as error:  # logged here: not every exception can cross threads
            log_error(
                _logger, "%s failed to prepare", self.rule.scorer_id, error=error, level=logging.WARNING
            )

    def overdue(self) -> list[Job]:
        """Mark the running jobs whose attempt has timed out, and return those that were not marked yet."""
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
        """Seconds until the next running attempt times out; None if no attempt is running."""
        for job in self.running:
            if not job.timed_out:
                return max(0.0, job.began + self.rule.timeout - time.monotonic())
        return None

    def timeout(self, job: Job) -> ScorerFailure:
        message = f"no score within {self.rule.timeout:g} s"
        return ScorerFailure(error_type="timeout", message=message, attempts=job.attempts)

    def seconds_until_retry(self, job: Job, error: BaseException) -> float | None:
        """Seconds until the next attempt after an error; None if the error is final."""
        cause = root_cause(error)
        if issubclass(type(cause), ProcessDiedError) and job.attempts == 1:
            return 0.0
        asked = asked_wait(cause)
        if asked is None or job.attempts >= self.rule.attempts:
            return None
        wait = backoff(job.attempts, first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, draw=self._draw)
        return max(wait, min(asked, _LONGEST_BACKOFF))

    def release(self, job: Job) -> None:
        """Free the slot of a job, and abandon its attempt if that is still running."""
        if job in self.running:
            del self.running[job]
            self.pace += _NEWEST * (time.monotonic() - job.began - self.pace)
        self.retrying.discard(job)
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None
        task, job.task = job.task, None
        if task is not None and not task.done():
            self.abandoned.add(task)
            task.cancel()

    def clear(self) -> list[Job]:
        left = [*self.running, *self.retrying, *self.queue]
        self.queue.clear()
        return left
