"""Delivery to one destination: batches, attempts, parked runs, and counts."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import anyio.lowlevel
from msgspec import structs
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value

from otel_evals._internal.deliver.destination import NEVER_SENT, Destination, DestinationStats, Unaccepted
from otel_evals._internal.deliver.pending_deliveries import PendingDeliveries, PendingDelivery
from otel_evals._internal.deliver.retry import (
    FINAL,
    TRACE_NOT_FOUND,
    Limits,
    asked_wait,
    may_pass,
    reason_of,
    unaccepted,
)
from otel_evals._internal.model import Evaluation, ScoredRun
from otel_evals._internal.util.calls import hide_task, outcome_of
from otel_evals._internal.util.error_log import content_is_shown, log_error
from otel_evals._internal.util.plain import plain_text

_log = logging.getLogger(__name__)
_LAST_SECONDS = 0.05
_PARKED = 4  # times the size of the queue

Ended = Callable[[str, Sequence[ScoredRun], str], object]
"""Called with a destination's name, scored runs, and `exported` or the reason why they were not."""


class DeliveryQueue:
    """A destination's queue and the task that empties it; `stats` may be read from any thread."""

    def __init__(self, destination: Destination, name: str, limits: Limits, ended: Ended | None) -> None:
        self.name = name
        self.destination = destination
        self._unaccepted = 0
        """Number of queued runs that have ended without being accepted."""
        self._counts = DestinationStats()
        """Its `pending` is minus the number of queued runs that have ended."""
        self.finished = anyio.Event()
        self._failed = False
        """True if the last attempt failed."""
        self._began = math.inf
        """When the current attempt began; infinity without one."""
        self._ended, self._limits, self._retry, self._clock = ended, limits, limits.retry, limits.clock
        own = getattr(destination, "batch_size", limits.batch_size)
        self._batch_size = max(1, min(own, limits.queue_size))
        self._pending = PendingDeliveries(limits.queue_size, limits.queue_size * _PARKED, limits.max_bytes)
        self._due: float | None = None
        self._quiet_until = self._soonest = -math.inf
        """When to send again after a failure, and when at the soonest if everything is flushed."""
        self._warned: set[str] = set()
        self._wake = anyio.Event()
        self._moved = anyio.Event()
        self._flush_to = 0
        self._closing = self._ending = self._released = False
        self._scope: anyio.CancelScope | None = None

    @property
    def failing(self) -> bool:
        """True if the last attempt failed, or this one takes too long. May be read from any thread."""
        return self._failed or self._clock() - self._began > self._retry.timeout

    @property
    def stats(self) -> DestinationStats:
        """The counts now. May be read from any thread."""
        counts = self._counts  # before the number of queued runs: none is missing
        return replace(counts, pending=counts.pending + self._pending.accepted)

    @property
    def capacity(self) -> int:
        """Number of further scored runs that are not dropped. May be called from any thread."""
        return self._pending.capacity

    def put(self, scored: ScoredRun, leaving: ScoredRun, *, kept: bool = False) -> None:
        """Queue a scored run, to be sent as `leaving`, or count it as dropped. Never waits or raises.

        A `kept` run is put again later, by this or another process, unless the destination refuses it.
        """
        if self._closing or self._pending.full:
            end = "shutdown" if self._closing else "queue_full"
            if not kept:
                self._counts = self._counts.ended(end, 1, {end: len(scored.evaluations)}, pending=False)
            self._report([scored], end)
            return
        self._pending.put(scored, leaving, kept=kept)
        # At other counts the task sleeps already until the right time.
        if self._pending.queued in (1, self._batch_size):
            self._wake.set()

    async def run(self) -> None:
        """Deliver until closed and empty; on cancellation, count the rest as dropped."""
        hide_task()
        # The destination's own HTTP client must not show up in traces.
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with anyio.CancelScope() as self._scope:
                while await self._filled():
                    await self._deliver(self._pending.batch(self._batch_size, self._clock()))
                    await anyio.lowlevel.checkpoint()  # a destination need not wait for anything
        finally:
            self._abandon()

    async def flush(self) -> bool:
        """Deliver the queue without waiting for full batches; returns whether nothing was lost."""
        before = self._unaccepted
        target = self._flush_to = self._pending.accepted
        self._hurry()
        while (oldest := self._pending.oldest) is not None and oldest <= target:
            await self._moved.wait()
        return self._unaccepted == before

    def close(self) -> None:
        """Accept no more; `run` ends when the queue is empty."""
        self._closing = True
        self._hurry()

    async def stop(self) -> None:
        """End `run`, count the rest as dropped, and shut the destination down, once.

        What is being sent has a last moment: a batch that counted as dropped and arrived nevertheless would
        be delivered again by the next process.
        """
        if self._scope is None:
            self._abandon()
        else:
            self._ending = True
            with anyio.move_on_after(_LAST_SECONDS if self._began < math.inf else 0.0):
                await self.finished.wait()
            self._scope.cancel()
        await self.finished.wait()
        if self._released:
            return
        self._released = True
        ended = await outcome_of(lambda: self.destination.shutdown())
        if isinstance(ended, BaseException):
            log_error(_log, "Destination %s failed to shut down", self.name, error=ended)

    # --- when to send ---

    @property
    def _flushing(self) -> bool:
        oldest = self._pending.oldest
        return self._closing or (oldest is not None and oldest <= self._flush_to)

    def _hurry(self) -> None:
        """Shorten waits, but not below those that the destination asked for."""
        self._pending.hasten()
        self._quiet_until = min(self._quiet_until, self._soonest)
        self._wake.set()

    async def _filled(self) -> bool:
        """Wait until there is a batch to send; returns False when closed and empty."""
        while not self._ending and (self._pending or not self._closing):
            now = self._clock()
            ready = self._ready_at(now)
            if ready <= now:
                return True
            self._wake = anyio.Event()
            with anyio.move_on_after(ready - now):
                await self._wake.wait()
        return False

    def _ready_at(self, now: float) -> float:
        ready = self._pending.next_due
        if self._pending.queued:
            self._due = self._due or now + self._limits.delay
            at_once = self._flushing or self._pending.queued >= self._batch_size
            ready = min(ready, now if at_once else self._due)
        return max(ready, self._quiet_until)

    # --- sending ---

    async def _deliver(self, batch: Sequence[PendingDelivery]) -> None:
        # The next batch has its own time to fill.
        self._due = None
        began = self._began = self._clock()
        answer = await self._attempt(batch)
        self._began, self._failed = math.inf, isinstance(answer, BaseException)
        failures = _failures(batch, answer)
        if not failures:
            self._warned.clear()
        now, tries = self._clock(), 1 + max((delivery.tries for delivery in batch), default=0)
        asked = max((asked_wait(error) for pairs in failures.values() for _, error in pairs), default=0.0)
        soonest = now + max(asked, self._retry.first)
        wait = self._retry.wait(tries, self._limits.draw())
        until = now + asked + (min(wait, self._retry.first) if self._flushing else wait)
        if isinstance(answer, BaseException) and may_pass(answer):
            self._quiet_until, self._soonest = until, soonest
        elif asked:
            self._quiet_until = self._soonest = now + asked
        ended: defaultdict[str, list[PendingDelivery]] = defaultdict(list)
        for delivery in batch:
            # Waits that the server asks for do not use up the time that a run has.
            delivery.first_try = min(delivery.first_try, began) + asked
            again = self._left(delivery, failures.get(delivery.number, ()), until)
            if again:
                kept = tuple(evaluation for evaluation in again if evaluation is not None)
                delivery.left = structs.replace(delivery.left, evaluations=kept)
                delivery.soonest = soonest
                # Parked runs that give way to it end here.
                ended["queue_full"] += self._pending.park(delivery, until)
            else:
                ended[next(iter(delivery.lost), "exported")].append(delivery)
        self._finish(ended)

    async def _attempt(self, batch: Sequence[PendingDelivery]) -> BaseException | Sequence[Unaccepted]:
        sent = [delivery.left for delivery in batch]
        answer = await outcome_of(lambda: self.destination.export(sent), self._retry.timeout)
        return answer if isinstance(answer, BaseException) else unaccepted(answer)

    def _left(
        self, delivery: PendingDelivery, failures: Sequence[_Failure], until: float
    ) -> list[Evaluation | None]:
        """Return what to send again of a delivery; the rest of what failed is lost."""
        delivery.tries += 1
        delivery.attempts += any(reason_of(error) != TRACE_NOT_FOUND for _, error in failures)
        again = []
        for evaluation, error in failures:
            reason = reason_of(error)
            worth_it = self._again(delivery, error, until)
            if not (worth_it and reason == TRACE_NOT_FOUND):  # spans may come after their scores
                self._warn(error, reason)
            if worth_it:
                again.append(evaluation)
            else:
                delivery.lost[reason] += evaluation is not None
        return again

    def _again(self, delivery: PendingDelivery, error: BaseException, until: float) -> bool:
        absent = reason_of(error) == TRACE_NOT_FOUND
        in_time = until <= delivery.first_try + (self._retry.absent if absent else self._retry.total)
        return may_pass(error) and in_time and (absent or delivery.attempts < self._retry.attempts)

    # --- counting ---

    def _finish(self, ended: Mapping[str, Sequence[PendingDelivery]]) -> None:
        for end, deliveries in ended.items():
            if not deliveries:
                continue
            lost: Counter[str] = Counter()
            counted = 0
            for delivery in deliveries:
                self._pending.done(delivery)
                if delivery.kept and end not in FINAL:
                    continue
                counted += 1
                lost += delivery.lost
                if end in NEVER_SENT:
                    lost[end] += len(delivery.left.evaluations)
            # A kept run counts here too: the flush did not deliver it.
            self._unaccepted += 0 if end == "exported" else len(deliveries)
            self._counts = replace(self._counts, pending=self._counts.pending - len(deliveries) + counted)
            if counted:
                self._counts = self._counts.ended(end, counted, lost, pending=True)
            self._report([delivery.scored for delivery in deliveries], end)
        # Replaced, because anyio's events cannot be reset.
        self._moved.set()
        self._moved = anyio.Event()

    def _abandon(self) -> None:
        self._closing = True
        self._finish({"shutdown": self._pending.clear()})
        self.finished.set()

    def _report(self, batch: Sequence[ScoredRun], end: str) -> None:
        if self._ended is not None:
            self._ended(self.name, batch, end)

    def _warn(self, error: BaseException, reason: str) -> None:
        """Log the first error of each kind, until a batch is accepted whole."""
        if reason in self._warned:
            return
        self._warned.add(reason)
        what = "a batch" if self._failed else "all of a batch"
        said = plain_text(error, 2_000) if content_is_shown() else reason
        _log.warning("Destination %s did not accept %s: %s: %s", self.name, what, type(error).__name__, said)


_Failure = tuple[Evaluation | None, BaseException]
"""An evaluation that was not accepted, or None for a run without any, and why."""


def _failures(
    batch: Sequence[PendingDelivery], answer: BaseException | Sequence[Unaccepted]
) -> Mapping[int, Sequence[_Failure]]:
    if isinstance(answer, BaseException):
        return {p.number: [(e, answer) for e in p.left.evaluations or (None,)] for p in batch}
    errors = {_key(each.evaluation): each.error for each in answer}
    found = {p.number: [(e, errors[_key(e)]) for e in p.left.evaluations if _key(e) in errors] for p in batch}
    return {number: failures for number, failures in found.items() if failures}


def _key(evaluation: Evaluation) -> tuple[str, str, int]:
    return evaluation.trace_id, evaluation.evaluation_id, evaluation.revision
