"""The lanes of all rules, and the bounds on what waits in them.

Used on the engine's thread only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.isolated_scorer import START_SECONDS, IsolatedScorer, most_processes
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.lane import Lane
from otel_evals._internal.model.sizes import size_of_run


class Scheduler:
    """One lane per rule.

    Args:
        rules: scorers and their limits.
        queue_size: how many jobs may be queued, over all rules.
        max_bytes: how many bytes the runs of jobs may have that are queued or wait for a judge.
        draw: random numbers in [0, 1), for the jitter of retries.
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
        self._bytes = 0
        self._isolated: list[IsolatedScorer] = []
        self.lanes = {rule.name: Lane(self._placed(rule), draw) for rule in rules}
        """By the rule's name."""
        self.stopped_for: str | None = None
        """The reason for which every job is dropped; None while jobs are taken."""

    @property
    def waiting(self) -> int:
        """Jobs that are queued or wait for their next attempt."""
        return sum(lane.waiting for lane in self.lanes.values())

    @property
    def room(self) -> int:
        """How many more jobs may be queued."""
        return max(0, self._queue_size - self.waiting)

    def running(self) -> set[tuple[str, str]]:
        """Rule and judged span of the jobs whose scorer runs at the moment. May be called from any thread."""
        lanes = list(self.lanes.values())
        return {(job.rule.name, job.target.span_id) for lane in lanes for job in tuple(lane.running)}

    def queue(self, job: Job) -> list[Job]:
        """Queue a job; returns the jobs that are dropped for it, or itself if there is no room.

        Without room, the rule with the longest queue loses its newest job, so that a judge that hangs does
        not take the room of other rules.
        """
        size, dropped, lane = size_of_run(job.run), list[Job](), self.lanes[job.rule.name]
        while self.room <= 0 or (self._bytes and self._bytes + size > self._max_bytes):
            longest = max(self.lanes.values(), key=lambda each: len(each.queue)).queue
            if len(longest) <= lane.waiting + 1:
                return [*dropped, job]
            dropped.append(longest.pop())
            self._forget(dropped[-1])
        self.hold(job)
        lane.queue.append(job)
        return dropped

    def hold(self, job: Job) -> None:
        """Count the bytes of a job's run until the job has ended."""
        job.size = size_of_run(job.run)
        self._bytes += job.size

    def release(self, job: Job) -> None:
        """Give back what a job that has ended takes: its slot, its bytes, its timer."""
        job.ended = True
        if job.size:
            self._forget(job)
        self.lanes[job.rule.name].release(job)

    def _forget(self, job: Job) -> None:
        self._bytes -= job.size
        job.size = 0

    def close(self) -> None:
        """End the scoring processes; after the engine's thread has ended."""
        for scorer in self._isolated:
            scorer.close()

    def disown(self) -> None:
        """In a forked child: leave the scoring processes to the parent."""
        for scorer in self._isolated:
            scorer.disown()

    def _placed(self, rule: Rule) -> Rule:
        """The rule for its lane: with `isolation="process"`, its scorer becomes an IsolatedScorer."""
        if rule.isolation == "thread":
            return rule
        isolated = IsolatedScorer(rule.scorer, rule.timeout)
        self._isolated.append(isolated)
        slots = min(rule.concurrency, most_processes())
        return replace(
            rule, scorer=isolated, isolation="thread", concurrency=slots, timeout=rule.timeout + START_SECONDS
        )
