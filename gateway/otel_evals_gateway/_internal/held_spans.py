"""Held spans: spans that wait for their scores, for a bounded time, before they are forwarded.

The engine's thread adds scores; everything else happens on the receivers' event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_SWEEP_SECONDS = 0.05
_REMEMBERED = 10_000

_Key = tuple[int, int]
"""Trace id and span id."""


@dataclass(slots=True, eq=False)
class HeldSpan:
    """A span that waits for its scores."""

    key: _Key
    deadline: float
    """Time on the event loop's clock."""
    released: Callable[[HeldSpan], None]
    """Called on the event loop once it may be forwarded."""
    attributes: dict[str, Any] = field(default_factory=dict)


class HeldSpans:
    """The held spans: up to `limit`, each for up to `hold` seconds."""

    def __init__(self, limit: int, hold: float) -> None:
        self._limit = limit
        self._hold = hold
        self._held: dict[_Key, HeldSpan] = {}
        self._ended: deque[_Key] = deque()
        self._scored: dict[_Key, dict[str, Any]] = {}
        """Scores of spans that could not be forwarded: their sender will send them again."""
        self._armed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.passed_unheld = 0
        """Spans that were not held because the limit was reached."""

    def __len__(self) -> int:
        return len(self._held)

    # --- on the event loop ---

    def start(self) -> None:
        """Start to release expired spans."""
        self._loop = asyncio.get_running_loop()
        self._sweeping = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Release every span with the scores it has."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        for key in list(self._held):
            self._release(key)

    def room_for(self, count: int) -> bool:
        """Return True if so many more may be held; count them otherwise."""
        if len(self._held) + count <= self._limit:
            return True
        self.passed_unheld += count
        return False

    def hold(self, key: _Key, released: Callable[[HeldSpan], None]) -> HeldSpan:
        """Hold a span, unless its scores are known already."""
        loop = asyncio.get_running_loop()
        span = HeldSpan(key, loop.time() + self._hold, released)
        known = self._scored.pop(key, None)
        if known is not None:
            span.attributes = known
            loop.call_soon(released, span)
            return span
        before = self._held.pop(key, None)
        self._held[key] = span
        if before is not None:  # sent again while held: the first one leaves with its scores so far
            before.released(before)
        return span

    def keep_scores(self, span: HeldSpan) -> None:
        """Keep the scores of a span that its sender will send again."""
        self._scored[span.key] = span.attributes
        if len(self._scored) > _REMEMBERED:
            self._scored.pop(next(iter(self._scored)))

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            while self._held and (span := next(iter(self._held.values()))).deadline <= now:
                self._release(span.key)

    def _release(self, key: _Key) -> None:
        span = self._held.pop(key, None)
        if span is not None:
            span.released(span)

    def _release_ended(self) -> None:
        self._armed = False
        while self._ended:
            self._release(self._ended.popleft())

    # --- on the engine's thread: `otel_evals.sdk.pipeline.SpanScores` ---

    def add(self, trace_id: int, span_id: int, attributes: Mapping[str, Any]) -> None:
        """Add attributes to a span, if it is held."""
        span = self._held.get((trace_id, span_id))
        if span is not None:
            span.attributes.update(attributes)

    def release(self, trace_id: str, span_id: str) -> None:
        """Release a span, given by its ids in hex: it gets no more attributes."""
        with contextlib.suppress(ValueError):
            self.finish(int(trace_id, 16), int(span_id, 16))

    def finish(self, trace_id: int, span_id: int) -> None:
        """Release a span: it gets no more attributes."""
        span = self._held.get((trace_id, span_id))
        if span is None or self._loop is None:
            return
        self._ended.append(span.key)
        if not self._armed:
            self._armed = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._release_ended)
