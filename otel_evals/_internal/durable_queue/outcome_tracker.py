"""Tracks traces with pending evaluations or deliveries, for sources that repeat unacknowledged data.

A broker, for instance, delivers unacknowledged messages again, so nothing has to be stored here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence

from otel_evals._internal.durable_queue.deliveries import Deliveries
from otel_evals._internal.durable_queue.passed_runs import encode_run
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.evaluate.queue_interface import DurableQueue, QueueParts
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Dropped, Loss, Outcome, Run, ScoredRun
from otel_evals._internal.read.conversation import conversation_digest

_AGAIN_SECONDS = 5.0
_QUEUE_SECONDS = 0.05


class OutcomeTracker(DurableQueue):
    """Follows every sampled run until all destinations have answered. Engine's thread only.

    Args:
        send: passes a run on to the process that gathers its conversation: trace id, the conversation's
            digest, and the encoded run. Call `sent` when it has arrived.
    """

    def __init__(self, send: Callable[[str, str, bytes], None] | None = None) -> None:
        self._pass_on = send
        self._open: Counter[str] = Counter()
        """Targets, and runs on their way to other processes, by trace id and conversation."""
        self._followed: set[Target] = set()
        self._waiting: deque[Job] = deque()
        """Jobs for which the queue had no room."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open_traces(self) -> set[str]:
        return set(self._open)

    def open(self, parts: QueueParts) -> None:
        self._evaluations, self._ledger, self._post = parts.evaluations, parts.ledger, parts.post
        self._deliveries = Deliveries(parts.fan_out.put)

    def keep(self, group: SpanGroup, jobs: Sequence[Job]) -> None:
        for target in {job.target: None for job in jobs}:
            self._followed.add(target)
            self._open.update(_traces(target))

    def defer(self, job: Job, outcome: Outcome) -> bool:
        """Have a job wait for room in the queue; meanwhile the source delivers nothing new."""
        full = isinstance(outcome, Dropped) and outcome.reason == "queue_full"
        if full and job.target in self._followed:
            self._waiting.append(job)
            self._look_again()
            return True
        return False

    def pass_on(self, run: Run, *, ruled_out: bool) -> bool:
        if self._pass_on is None:
            return False
        encoded = encode_run(run, ruled_out=ruled_out)
        self._open[run.trace_id] += 1
        self._pass_on(run.trace_id, conversation_digest(run), encoded)
        return True

    def sent(self, trace_id: str, lost: str | None = None) -> None:
        """Record that a run has arrived, or the reason why it cannot; any thread may call it."""

        def record() -> None:
            if lost is not None:
                self._ledger.lost(Loss("run", lost, trace_id))
            self._close([trace_id])

        self._post(record)

    async def prepare_shutdown(self, seconds: float) -> None:
        """Submit the waiting jobs: nothing runs any more, so they end as queued jobs do."""
        for job in [self._waiting.popleft() for _ in range(len(self._waiting))]:
            self._submit(job)

    def deliver(self, target: Target) -> bool:
        if target not in self._followed:
            return False
        self._followed.discard(target)
        if target.evaluations:
            self._send(target, ScoredRun(run=target.run, evaluations=target.evaluations), None)
        else:
            self._end(target)
        return True

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        self._deliveries.answered(destination, batch, end)

    def _send(self, target: Target, scored: ScoredRun, destinations: Collection[str] | None) -> None:
        """Deliver to destinations, and again to the unavailable ones."""

        def answered(missed: list[str]) -> None:
            if missed:
                asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._send, target, scored, missed)
            else:
                self._end(target)

        self._deliveries.start(scored, destinations, answered)

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUEUE_SECONDS, self._submit_waiting)

    def _submit_waiting(self) -> None:
        """Submit the waiting jobs in order until the queue is full again."""
        self._timer = None
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            self._submit(waiting.popleft())
        self._waiting += waiting
        if self._waiting:
            self._look_again()

    def _submit(self, job: Job) -> None:
        job.ended = False
        self._evaluations.submit([job])

    def _end(self, target: Target) -> None:
        self._close(_traces(target))

    def _close(self, ids: Collection[str]) -> None:
        for each in ids:
            self._open[each] -= 1
            if self._open[each] <= 0:
                del self._open[each]


def _traces(target: Target) -> set[str]:
    run = target.run
    return {run.trace_id, *run.trace_ids, *([conversation_digest(run)] if run.turns else ())}
