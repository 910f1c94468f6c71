"""Delivery to one destination: a bounded queue, batches, retries with backoff, and counts."""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.export.destination import Destination
from otel_evals.model import ScoredRun
from otel_evals.scoring.cancellation import is_cancelled
from otel_evals.util.retry import backoff

__all__ = ["DeliveryCallback", "DeliveryQueue", "DestinationStats", "Retry"]

_log = logging.getLogger(__name__)

DeliveryCallback = Callable[[str, Sequence[ScoredRun], str], None]
"""Called with a destination's name, scored runs, and `exported` or the reason why they were not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a batch is sent again after a failure: exponential backoff with full jitter."""

    attempts: int = 8
    """Attempts per batch, the first one included."""
    first: float = 0.5
    """Upper bound of the first wait, in seconds; it doubles with every attempt."""
    longest: float = 30.0
    """Upper bound of every wait, in seconds."""
    total: float = 300.0
    """Seconds after which a batch is given up, even if attempts are left."""
    timeout: float = 30.0
    """Seconds that one attempt may take."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"retry.{name}", "must be greater than zero")

    def wait(self, attempt: int, draw: float) -> float:
        """Seconds to wait after the given attempt (1 is the first); `draw` is a random number in [0, 1)."""
        return backoff(attempt, first=self.first, longest=self.longest, draw=lambda: draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStats:
    """Counts of the scored runs for one destination.

    Every run is in exactly one of `exported`, `failed`, `dropped` and `pending` at every moment.
    """

    exported: int = 0
    """Accepted by the destination."""
    failed: int = 0
    """Refused permanently, or given up after the last attempt."""
    dropped: int = 0
    """Never sent: the queue was full, or the shutdown timeout expired."""
    pending: int = 0
    """Queued or being sent."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Failed and dropped runs by reason: `queue_full`, `shutdown`, `refused`, or an exception's name."""


class DeliveryQueue:
    """The queue of one destination and the task that empties it.

    Used on one event loop; `stats` may be read from any thread.
    """

    def __init__(
        self,
        destination: Destination,
        *,
        name: str,
        queue_size: int,
        batch_size: int,
        delay: float,
        retry: Retry,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        on_result: DeliveryCallback | None = None,
    ) -> None:
        self.name = name
        self._on_result = on_result
        self._in_flight: Sequence[ScoredRun] = ()
        self.stats = DestinationStats()
        self.finished = anyio.Event()
        self._destination = destination
        self._queue_size = queue_size
        self._batch_size = batch_size
        self._delay = delay
        self._retry = retry
        self._clock = clock
        self._draw = draw
        self._queue: deque[ScoredRun] = deque()
        self._wake = anyio.Event()
        self._moved = anyio.Event()
        self._accepted = 0
        self._flush_to = 0
        self._closing = False
        self._released = False
        self._scope: anyio.CancelScope | None = None
        self.failing = False
        """Whether the last attempt failed."""

    def put(self, scored: ScoredRun) -> None:
        """Queue a scored run, or count it as dropped. Never waits, never raises."""
        if self._closing or len(self._queue) >= self._queue_size:
            self._lose([scored], "shutdown" if self._closing else "queue_full", queued=False)
            return
        self._queue.append(scored)
        self._accepted += 1
        self.stats = replace(self.stats, pending=self.stats.pending + 1)
        if len(self._queue) == 1 or len(self._queue) == self._batch_size:
            self._wake.set()

    async def holds(self, evaluation_ids: Collection[str], revision: int) -> bool:
        """Whether the destination already has all of these evaluations, as far as it can tell."""
        ask = getattr(self._destination, "holds", None)
        try:
            return ask is not None and bool(await ask(evaluation_ids, revision))
        except BaseException as error:
            if is_cancelled(error):
                raise
            _log.warning("Destination %s failed to tell which evaluations it has", self.name, exc_info=True)
            return False

    async def run(self) -> None:
        """Deliver until closed and empty. What is left on cancellation is counted as dropped."""
        # The destination's own HTTP client must not show up in the application's traces.
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with anyio.CancelScope() as self._scope:
                while await self._filled():
                    size = min(self._batch_size, len(self._queue))
                    await self._deliver([self._queue.popleft() for _ in range(size)])
        finally:
            self._abandon()

    async def flush(self) -> bool:
        """Deliver what is queued now without waiting for full batches; whether nothing was lost."""
        lost = self.stats.failed + self.stats.dropped
        target = self._flush_to = self._accepted
        self._wake.set()
        while self._settled < target:
            await self._moved.wait()
        return lost == self.stats.failed + self.stats.dropped

    def close(self) -> None:
        """Accept no more; `run` ends when the queue is empty."""
        self._closing = True
        self._wake.set()

    async def stop(self) -> None:
        """Cancel `run`, count what is left as dropped, and shut the destination down, once."""
        if self._scope is None:
            self._abandon()
        else:
            self._scope.cancel()
        await self.finished.wait()
        if self._released:
            return
        self._released = True
        try:
            await self._destination.shutdown()
        except BaseException as error:
            if is_cancelled(error):
                raise
            _log.exception("Destination %s failed to shut down", self.name)

    @property
    def _settled(self) -> int:
        return self._accepted - self.stats.pending

    @property
    def _flushing(self) -> bool:
        return self._closing or self._settled < self._flush_to

    async def _filled(self) -> bool:
        """Wait until there is a batch to send; False when closed and empty."""
        while not self._queue:
            if self._closing:
                return False
            await self._pause(math.inf)
        due = self._clock() + self._delay
        while (
            len(self._queue) < self._batch_size and not self._flushing and (left := due - self._clock()) > 0
        ):
            await self._pause(left)
        return True

    async def _pause(self, seconds: float) -> None:
        self._wake = anyio.Event()
        with anyio.move_on_after(seconds):
            await self._wake.wait()

    async def _deliver(self, batch: Sequence[ScoredRun]) -> None:
        self._in_flight = batch
        give_up_at = self._clock() + self._retry.total
        for attempt in range(1, self._retry.attempts + 1):
            error = await self._attempt(batch)
            if error is None:
                self._delivered(batch)
                return
            self._warn(error)
            if isinstance(error, GeneratorExit):
                break  # this coroutine itself may be being closed: it must not wait any more
            asked = 0.0
            if isinstance(error, DestinationError):
                if not error.retryable:
                    break
                asked = error.retry_after or 0.0
            wait = asked + self._retry.wait(attempt, self._draw())
            if attempt == self._retry.attempts or self._clock() + wait > give_up_at:
                break
            await self._back_off(wait, at_least=asked)
        self._lose(batch, _reason(error), queued=True)

    async def _attempt(self, batch: Sequence[ScoredRun]) -> BaseException | None:
        try:
            with anyio.fail_after(self._retry.timeout):
                await self._destination.export(batch)
        except BaseException as error:
            if is_cancelled(error):
                raise
            return error
        return None

    async def _back_off(self, seconds: float, *, at_least: float) -> None:
        """Wait; a flush or shutdown shortens the wait, but not below what the destination asked for."""
        start = self._clock()
        while (left := start + seconds - self._clock()) > 0:
            if self._flushing:
                shortest = max(at_least, min(seconds, self._retry.first))
                await anyio.sleep(max(0.0, start + shortest - self._clock()))
                return
            await self._pause(left)

    def _delivered(self, batch: Sequence[ScoredRun]) -> None:
        stats, count, self._in_flight = self.stats, len(batch), ()
        self.stats = replace(stats, exported=stats.exported + count, pending=stats.pending - count)
        self._report(batch, "exported")
        self._notify()
        self.failing = False

    def _lose(self, lost: Sequence[ScoredRun], reason: str, *, queued: bool) -> None:
        if not (count := len(lost)):
            return
        if queued:
            self._in_flight = ()
        stats, never_sent = self.stats, reason in {"queue_full", "shutdown"}
        self.stats = replace(
            stats,
            failed=stats.failed + (0 if never_sent else count),
            dropped=stats.dropped + (count if never_sent else 0),
            pending=stats.pending - (count if queued else 0),
            losses={**stats.losses, reason: stats.losses.get(reason, 0) + count},
        )
        self._report(lost, reason)
        self._notify()

    def _abandon(self) -> None:
        self._closing = True
        left = [*self._in_flight, *self._queue]
        self._queue.clear()
        self._lose(left, "shutdown", queued=True)
        self.finished.set()

    def _report(self, batch: Sequence[ScoredRun], end: str) -> None:
        if self._on_result is not None:
            self._on_result(self.name, batch, end)

    def _notify(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()

    def _warn(self, error: BaseException) -> None:
        if not self.failing:
            _log.warning(
                "Destination %s did not accept a batch: %s: %s", self.name, type(error).__name__, error
            )
        self.failing = True


def _reason(error: BaseException | None) -> str:
    if isinstance(error, DestinationError):
        return "unavailable" if error.retryable else "refused"
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__
