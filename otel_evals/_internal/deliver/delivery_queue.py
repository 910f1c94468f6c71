"""Delivery to one destination: batches, attempts, parked runs, and counts."""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

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
)
from otel_evals._internal.model import Evaluation, ScoredRun
from otel_evals._internal.util.calls import outcome_of
from otel_evals._internal.util.error_log import content_is_shown, log_error
from otel_evals._internal.util.plain import plain_text
from otel_evals._internal.util.retry import backoff
from otel_evals.errors import DestinationError

_log = logging.getLogger(__name__)
_LAST_SECONDS = 0.05
_PARKED = 4  # times the size of the queue

Ended = Callable[[str, Sequence[PendingDelivery], str], object]
"""Called with a destination's name, its deliveries, and `exported` or the reason why they were not."""


class DeliveryQueue:
    """A destination's queue and the task that empties it."""

    def __init__(self, destination: Destination, name: str, limits: Limits, ended: Ended | None) -> None:
        self.name = name
        self.destination = destination
        self.stats = DestinationStats()
        """The counts now, replaced as a whole: any thread may read them."""
        self._unaccepted = 0
        """Number of runs that have ended without being accepted."""
        self.finished = anyio.Event()
        self._failed = False
        """True if the last attempt failed."""
        self._began = math.inf
        """When the current attempt began; infinity without one."""
        self._ended, self._limits, self._clock = ended, limits, limits.clock
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
        return self._failed or self._clock() - self._began > self._limits.timeout

    @property
    def capacity(self) -> int:
        """Number of further scored runs that are not dropped. May be called from any thread."""
        return self._pending.capacity

    def put(self, scored: ScoredRun, leaving: ScoredRun, *, kept: bool = False) -> None:
        """Queue a scored run, to be sent as `leaving`, or count it as dropped. Never waits or raises.

        A `kept` run is put again later, by this or another process, unless the destination refuses it.
        """
        self.stats = replace(self.stats, pending=self.stats.pending + 1)
        delivery = PendingDelivery(scored, leaving, kept)
        if self._closing or self._pending.full:
            self._finish("shutdown" if self._closing else "queue_full", [delivery])
            return
        self._pending.put(delivery)
        # At other counts the task sleeps already until the right time.
        if self._pending.queued in (1, self._batch_size):
            self._wake.set()

    async def run(self) -> None:
        """Deliver until closed and empty; on cancellation, count the rest as dropped."""
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
        self._pending.hasten(self._soonest)
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
        sent = [delivery.left for delivery in batch]
        answer = await outcome_of(lambda: self._export(sent), self._limits.timeout)
        self._began, self._failed = math.inf, isinstance(answer, BaseException)
        failures = _failures(batch, answer)
        errors = [error for each in failures.values() for _, error in each]
        until = self._back_off(errors, 1 + max(delivery.tries for delivery in batch))
        ended: defaultdict[str, list[PendingDelivery]] = defaultdict(list)
        for delivery in batch:
            delivery.first_try = min(delivery.first_try, began)
            again = self._left(delivery, failures[delivery.number], until)
            if again:
                kept = tuple(evaluation for evaluation in again if evaluation is not None)
                delivery.left = structs.replace(delivery.left, evaluations=kept)
                # Parked runs that give way to it end here.
                ended["queue_full"] += self._pending.park(delivery, until)
            else:
                ended[next(iter(delivery.lost), "exported")].append(delivery)
        for end, deliveries in ended.items():
            self._finish(end, deliveries)

    async def _export(self, sent: Sequence[ScoredRun]) -> dict[_Key, DestinationError]:
        """Send; returns why evaluations were not accepted."""
        answer = await self.destination.export(sent)
        # A destination of yours may return anything; it is then taken as accepted.
        given = answer if isinstance(answer, list | tuple) else ()
        return {_key(each.evaluation): each.error for each in given if isinstance(each, Unaccepted)}

    def _back_off(self, errors: Sequence[BaseException], tries: int) -> float:
        """Decide when to send at all after these errors; returns when to send again what failed."""
        limits, now = self._limits, self._clock()
        asked = max(map(asked_wait, errors), default=0.0)
        wait = backoff(tries, first=limits.first, longest=limits.longest, draw=limits.draw)
        until = now + asked + (min(wait, limits.first) if self._flushing else wait)
        if not errors:
            self._warned.clear()
            return until
        self._soonest = now + max(asked, limits.first)
        if self._failed and may_pass(errors[0]):
            self._quiet_until = until
        elif asked:
            self._quiet_until = self._soonest
        return until

    def _left(
        self, delivery: PendingDelivery, failures: Sequence[_Failure], until: float
    ) -> list[Evaluation | None]:
        """Return what to send again of a delivery; the rest of what failed is lost."""
        delivery.tries += 1
        delivery.attempts += any(reason_of(error) != TRACE_NOT_FOUND for _, error in failures)
        again = []
        for evaluation, error in failures:
            reason = reason_of(error)
            absent = reason == TRACE_NOT_FOUND
            in_time = until <= delivery.first_try + self._limits.absent
            worth_it = may_pass(error) and (in_time if absent else delivery.attempts < self._limits.attempts)
            if not (worth_it and absent):  # spans may come after their scores
                self._warn(error, reason)
            if worth_it:
                again.append(evaluation)
            else:
                delivery.lost[reason] += evaluation is not None
        return again

    # --- counting ---

    def _finish(self, end: str, deliveries: Sequence[PendingDelivery]) -> None:
        if not deliveries:
            return
        counted = [delivery for delivery in deliveries if end in FINAL or not delivery.kept]
        lost = sum([delivery.lost for delivery in counted], Counter[str]())
        if end in NEVER_SENT:
            lost[end] += sum(len(delivery.left.evaluations) for delivery in counted)
        for delivery in deliveries:
            self._pending.done(delivery)
        # A kept run counts here too: the flush did not deliver it.
        self._unaccepted += 0 if end == "exported" else len(deliveries)
        self.stats = self.stats.ended(end, len(counted), lost, left=len(deliveries))
        if self._ended is not None:
            self._ended(self.name, deliveries, end)
        # Replaced, because anyio's events cannot be reset.
        self._moved.set()
        self._moved = anyio.Event()

    def _abandon(self) -> None:
        self._closing = True
        self._finish("shutdown", self._pending.clear())
        self.finished.set()

    def _warn(self, error: BaseException, reason: str) -> None:
        """Log the first error of each kind, until a batch is accepted whole."""
        if reason in self._warned:
            return
        self._warned.add(reason)
        what = "a batch" if self._failed else "all of a batch"
        said = plain_text(error, 2_000) if content_is_shown() else reason
        _log.warning("Destination %s did not accept %s: %s: %s", self.name, what, type(error).__name__, said)


_Key = tuple[str, str, int]
_Failure = tuple[Evaluation | None, BaseException]
"""An evaluation that was not accepted, or None for a run without any, and why."""


def _failures(batch: Sequence[PendingDelivery], answer: Any) -> Mapping[int, Sequence[_Failure]]:
    """Return what failed of each delivery, by its number."""
    if isinstance(answer, BaseException):
        return {p.number: [(e, answer) for e in p.left.evaluations or (None,)] for p in batch}
    return {p.number: [(e, answer[_key(e)]) for e in p.left.evaluations if _key(e) in answer] for p in batch}


def _key(evaluation: Evaluation) -> _Key:
    return evaluation.trace_id, evaluation.evaluation_id, evaluation.revision
