"""Dispatches jobs to the workers of their rules, and bounds how many are queued.

Lives on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Iterable
from dataclasses import replace

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.isolated_scorer import START_SECONDS, IsolatedScorer, most_processes
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.worker import HeldBytes, Worker
from otel_evals._internal.model import Dropped, Outcome
from otel_evals._internal.model.sizes import size_of_run

__all__ = ["Scheduler"]


class Scheduler:
    """Has one worker per rule.

    Args:
        rules: scorers and their limits.
        queue_size: how many jobs may be queued, over all rules.
        max_bytes: how many bytes the runs of jobs may have that are queued or wait for a judge.
        start: returns the context that a job's scorer runs in; called once, before its first attempt.
        end: called once with each job's outcome.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        queue_size: int,
        max_bytes: int,
        start: Callable[[Job], contextvars.Context],
        end: Callable[[Job, Outcome], None],
    ) -> None:
        self._queue_size = queue_size
        self._max_bytes = max_bytes
        self._held = HeldBytes()
        self._end = end
        self._isolated: list[IsolatedScorer] = []
        self._workers = {rule.name: Worker(self._placed(rule), start, end, held=self._held) for rule in rules}
        self._stopped_for: str | None = None

    @property
    def waiting(self) -> int:
        """Jobs that are queued or wait for their next attempt."""
        return sum(worker.waiting for worker in self._workers.values())

    def running(self) -> set[tuple[str, str]]:
        """Rule and judged span of the jobs whose scorer runs at the moment. May be called from any thread."""
        workers = list(self._workers.values())
        return {(job.rule.name, job.target.span_id) for worker in workers for job in tuple(worker.running)}

    @property
    def room(self) -> int:
        """How many more jobs may be queued."""
        return max(0, self._queue_size - self.waiting)

    def submit(self, job: Job, drop: str | None = None) -> None:
        """Run or queue a job; if there is no room, or a reason is given, drop one.

        If there is no room, the rule with the longest queue loses its newest job, so that a judge that hangs
        does not take the room of other rules.
        """
        worker = self._workers[job.rule.name]
        if reason := drop or self._stopped_for:
            self._drop(job, reason)
        elif worker.take(job):
            if not job.ended:
                self._hold(job, size_of_run(job.run))
        elif self._make_room(job, worker):
            worker.offer(job)
        else:
            self._drop(job, "queue_full")

    def _make_room(self, job: Job, worker: Worker) -> bool:
        size = size_of_run(job.run)
        while self.room <= 0 or (self._held.bytes and self._held.bytes + size > self._max_bytes):
            longest = max(self._workers.values(), key=lambda each: len(each.queue)).queue
            if len(longest) <= worker.waiting + 1:
                return False
            self._drop(longest.pop(), "queue_full")
        self._hold(job, size)
        return True

    def _hold(self, job: Job, size: int) -> None:
        job.size = size
        self._held.bytes += size

    def _drop(self, job: Job, reason: str) -> None:
        job.ended = True
        self._held.release(job)
        self._end(job, Dropped(reason=reason))

    async def prepare(self) -> None:
        """Call `prepare` of all scorers, concurrently."""
        await asyncio.gather(*(worker.prepare() for worker in self._workers.values()))

    def abort(self, reason: str) -> None:
        """Drop all jobs that have not ended, and all that are submitted from now on."""
        self._stopped_for = reason
        for worker in self._workers.values():
            worker.abort(Dropped(reason=reason))

    def close(self) -> None:
        """End the scoring processes; after the engine's thread has ended."""
        for scorer in self._isolated:
            scorer.close()

    def disown(self) -> None:
        """In a forked child: leave the scoring processes to the parent."""
        for scorer in self._isolated:
            scorer.disown()

    def _placed(self, rule: Rule) -> Rule:
        """The rule for its worker: with `isolation="process"`, its scorer becomes an IsolatedScorer."""
        if rule.isolation == "thread":
            return rule
        isolated = IsolatedScorer(rule.scorer, rule.timeout)
        self._isolated.append(isolated)
        slots = min(rule.concurrency, most_processes())
        return replace(
            rule, scorer=isolated, isolation="thread", concurrency=slots, timeout=rule.timeout + START_SECONDS
        )
