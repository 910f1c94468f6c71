"""The outbox: sends released spans to the next endpoint in batches, until they are accepted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque

from otel_evals.sdk.util import backoff
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.journal import HeldPart, Journal
from otel_evals_gateway._internal.traffic_counters import TrafficCounters

_logger = logging.getLogger(__name__)
_BATCH = 512
_GATHER_SECONDS = 0.01
_FIRST, _LONGEST = 0.5, 10.0


class Outbox:
    """A queue of parts, on the receivers' event loop."""

    def __init__(self, forwarder: Forwarder, journal: Journal, traffic: TrafficCounters) -> None:
        self._forwarder = forwarder
        self._journal = journal
        self._traffic = traffic
        self._parts: deque[HeldPart] = deque()
        self._work = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sending = asyncio.ensure_future(self._send_always())

    def put(self, part: HeldPart) -> None:
        self._parts.append(part)
        self._empty.clear()
        self._work.set()

    async def stop(self, seconds: float) -> None:
        """Send the queued parts within this time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), max(0.0, seconds))
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})
        if self._parts:
            _logger.warning(
                "%d held spans could not be forwarded; they stay in the journal", len(self._parts)
            )

    async def _send_always(self) -> None:
        attempt = 0
        while True:
            await self._work.wait()
            await asyncio.sleep(_GATHER_SECONDS)  # spans that are released together leave in one batch
            batch = [self._parts[i] for i in range(min(_BATCH, len(self._parts)))]
            if not batch:
                self._work.clear()
                self._empty.set()
                continue
            answer = await self._forwarder.send("traces", b"".join(part.data for part in batch))
            if answer.ok or answer.retry_after is None:
                attempt = 0
                self._done(batch, accepted=answer.ok, message=answer.message)
            else:
                attempt += 1
                wait = backoff(attempt, first=_FIRST, longest=_LONGEST)
                await asyncio.sleep(max(wait, answer.retry_after))

    def _done(self, batch: list[HeldPart], *, accepted: bool, message: str) -> None:
        for _ in batch:
            self._parts.popleft()
        self._journal.forwarded([part.key for part in batch])
        self._traffic.count("traces", "forwarded" if accepted else "lost", len(batch))
        if not accepted:
            _logger.error("%d held spans were refused for good: %s", len(batch), message)
