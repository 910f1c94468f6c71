"""Sends a recording to an OTLP/HTTP endpoint on schedule, and counts the answers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.replay.recording import Recorded
from otel_evals_gateway._internal.replay.renewal import Renewal

_TOGETHER = 0.1
"""Items due within these seconds share a request."""
_MOST_ITEMS = 512
_MOST_BYTES = 4 * 1024 * 1024
_REQUESTS = 4
"""Requests in progress at once."""
_APART = 1_000
"""Maximum distance in nanoseconds between two traces if one has to move back for the other."""


@dataclass(slots=True)
class _Batch:
    signal: str
    first: float
    """Sending time of the first item, in seconds."""
    due: float = 0.0
    """Sending time of the last item."""
    size: int = 0
    items: list[tuple[Recorded, int]] = field(default_factory=list)

    def add(self, item: Recorded, at: float, shift: int) -> None:
        self.due = at
        self.size += len(item.data)
        self.items.append((item, shift))


@dataclass(slots=True)
class Sent:
    """Results of a replay, in spans and log records."""

    accepted: Counter[str] = field(default_factory=Counter)
    """By signal."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Rejected in accepted requests (partial success), by signal."""
    refused: Counter[str] = field(default_factory=Counter)
    """In permanently refused requests, by signal."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Messages of the endpoint about rejected and refused items."""
    requests: int = 0
    again: int = 0
    """Retries, because the endpoint asked for them or was unavailable."""
    seconds: float = 0.0
    """From the first request to the last answer."""
    behind: float = 0.0
    """Maximum delay of a request, in seconds."""
    unsent: int = 0
    """Items that were not sent or not answered."""
    stopped: str = ""
    """Reason for unsent items."""


class Replay:
    """Sends a recording once; `waits` gets the first answer that asks to send again."""

    def __init__(
        self,
        items: Sequence[Recorded],
        forwarder: Forwarder,
        speed: float,
        max_gap: float,
        patience: float,
        waits: Callable[[ExportAnswer], object] = lambda _: None,
    ) -> None:
        self._items = items
        self._times = sending_times(items, speed, max_gap)
        self._shifts = shifts(items, self._times)
        self._forwarder = forwarder
        self._patience = patience
        self._waits = waits
        self._renewal = Renewal()
        self._not_before = 0.0
        self._slots = asyncio.Semaphore(_REQUESTS)
        self.sent = Sent(unsent=len(items))

    async def run(self) -> None:
        """Send everything within the endpoint's patience; `sent` is up to date at any time."""
        began, wall = time.monotonic(), time.time_ns()
        sending: set[asyncio.Task[None]] = set()
        try:
            for batch in self._batches():
                await asyncio.sleep(max(0.0, began + batch.due - time.monotonic()))
                await self._slots.acquire()
                if self.sent.stopped:
                    break
                self.sent.behind = max(self.sent.behind, time.monotonic() - began - batch.due)
                sending.add(asyncio.create_task(self._send(batch, wall)))
                for task in [each for each in sending if each.done()]:
                    sending.discard(task)
                    task.result()
            await asyncio.gather(*sending)
        finally:
            for task in sending:
                task.cancel()
            await asyncio.gather(*sending, return_exceptions=True)
            await self._forwarder.close()
            self.sent.seconds = time.monotonic() - began

    def _batches(self) -> Iterator[_Batch]:
        gathered: dict[str, _Batch] = {}
        for item, at, shift in zip(self._items, self._times, self._shifts, strict=True):
            for signal, batch in list(gathered.items()):
                full = len(batch.items) >= _MOST_ITEMS or batch.size + len(item.data) > _MOST_BYTES
                if at > batch.first + _TOGETHER or (signal == item.signal and full):
                    yield gathered.pop(signal)
            gathered.setdefault(item.signal, _Batch(item.signal, at)).add(item, at, shift)
        yield from gathered.values()

    async def _send(self, batch: _Batch, began: int) -> None:
        try:
            body = self._renewal.request((item, shift + began) for item, shift in batch.items)
            answer = await self._until_answered(batch.signal, body)
            if answer is not None:
                self._count(batch.signal, len(batch.items), answer)
        finally:
            self._slots.release()

    async def _until_answered(self, signal: str, body: bytes) -> ExportAnswer | None:
        """Send a request until it is accepted or permanently refused; None if that took too long."""
        deadline = time.monotonic() + self._patience
        while not self.sent.stopped:
            await asyncio.sleep(max(0.0, self._not_before - time.monotonic()))
            self.sent.requests += 1
            answer = await self._forwarder.send(signal, body)
            if answer.retry_after is None:
                return answer
            now = time.monotonic()
            if now + answer.retry_after > deadline:
                self.sent.stopped = self.sent.stopped or answer.message
                return None
            if not self.sent.again:
                self._waits(answer)
            self.sent.again += 1
            self._not_before = max(self._not_before, now + answer.retry_after)
        return None

    def _count(self, signal: str, count: int, answer: ExportAnswer) -> None:
        sent = self.sent
        sent.unsent -= count
        if not answer.ok:
            sent.refused[signal] += count
            sent.reasons[answer.message] += count
            return
        rejected = min(max(answer.rejected, 0), count)
        sent.accepted[signal] += count - rejected
        sent.rejected[signal] += rejected
        if rejected:
            sent.reasons[answer.message or "no reason given"] += rejected


def sending_times(items: Sequence[Recorded], speed: float, max_gap: float) -> list[float]:
    """Return the sending time of each item in seconds after the first; pauses are cut to `max_gap`."""
    times: list[float] = []
    at, before = 0.0, None
    for item in items:
        if before is not None:
            at += min((item.known - before) / 1e9 / speed, max_gap)
        before = item.known
        times.append(at)
    return times


def shifts(items: Sequence[Recorded], times: Sequence[float]) -> list[int]:
    """Return the shift of each item's times in nanoseconds; the first item is sent at zero.

    A whole trace moves by one shift, which keeps its durations and distances. It moves as close to the
    present as possible without an item later than its own sending. Traces keep the order of their starts, and
    thereby conversations the order of their turns.
    """
    starts: dict[bytes | Recorded, int] = {}
    bounds: dict[bytes | Recorded, int] = {}
    keys: list[bytes | Recorded] = [item.trace or item for item in items]
    for key, item, at in zip(keys, items, times, strict=True):
        bound = round(at * 1e9) - item.known
        starts[key] = min(starts.get(key, item.start), item.start)
        bounds[key] = min(bounds.get(key, bound), bound)
    found: dict[bytes | Recorded, int] = {}
    next_start: int | None = None
    next_new = 0
    for key in sorted(starts, key=starts.__getitem__, reverse=True):
        new = starts[key] + bounds[key]
        if next_start is not None:
            new = min(new, next_new - min(_APART, next_start - starts[key]))
        found[key] = new - starts[key]
        next_start, next_new = starts[key], new
    return [found[key] for key in keys]
