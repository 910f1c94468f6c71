"""Spans that are held until their scores are complete, for a bounded time, before they are forwarded.

The engine's thread adds scores; everything else happens on the receivers' event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HeldSpan", "HeldSpans"]

_SWEEP_SECONDS = 0.05
_REMEMBERED = 10_000

_Key = tuple[int, int]
"""Trace id and span id."""


@dataclass(slots=True, eq=False)
class HeldSpan:
    """A span that waits for its scores."""

    key: _Key
    deadline: float
    """On the clock of the event loop."""
    passed: Callable[[HeldSpan], None]
    """Called on the event loop once it may pass."""
    attributes: dict[str, Any] = field(default_factory=dict)
    complete: bool = False


class HeldSpans:
    """The spans that are held.

    Args:
        limit: how many at most.
        hold: seconds that each is held at most.
    """

    def __init__(self, limit: int, hold: float) -> None:
        self._limit = limit
        self._hold = hold
        self._held: dict[_Key, HeldSpan] = {}
        self._ended: deque[_Key] = deque()
        self._scored: dict[_Key, dict[str, Any]] = {}
        """Scores of spans that were not forwarded after all: their sender will send them again."""
        self._armed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.passed_unheld = 0
        """Spans that were not held because the limit was reached."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def seconds(self) -> float:
        """How long a span is held at most."""
        return self._hold

    # --- on the event loop ---

    def start(self) -> None:
        """Begin to let spans pass whose time is over."""
        self._loop = asyncio.get_running_loop()
        self._sweeping = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Let everything pass."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeping
        self.release_all()

    def room_for(self, count: int) -> bool:
        """Whether so many more may be held; counts them if not."""
        if len(self._held) + count <= self._limit:
            return True
        self.passed_unheld += count
        return False

    def hold(self, key: _Key, passed: Callable[[HeldSpan], None]) -> HeldSpan:
        """Hold a span from now on, unless its scores are known already."""
        loop = asyncio.get_running_loop()
        span = HeldSpan(key, loop.time() + self._hold, passed)
        known = self._scored.pop(key, None)
        if known is not None:
            span.attributes, span.complete = known, True
            loop.call_soon(passed, span)
            return span
        before = self._held.pop(key, None)
        self._held[key] = span
        if before is not None:  # sent again while it was held: both leave with what there is
            before.passed(before)
        return span

    def keep_scores(self, span: HeldSpan) -> None:
        """A span could not be forwarded, and its sender was told: keep its scores for the next time."""
        self._scored[span.key] = span.attributes
        if len(self._scored) > _REMEMBERED:
            self._scored.pop(next(iter(self._scored)))

    def release_all(self) -> None:
        """Let every span pass with the scores there are."""
        for key in list(self._held):
            self._pass(key)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = loop.time()
            while self._held and (span := next(iter(self._held.values()))).deadline <= now:
                self._pass(span.key)

    def _pass(self, key: _Key) -> None:
        span = self._held.pop(key, None)
        if span is not None:
            span.passed(span)

    def _pass_ended(self) -> None:
        self._armed = False
        while self._ended:
            self._pass(self._ended.popleft())

    # --- on the engine's thread: `otel_evals._internal.attach.attacher.SpanScores` ---

    def add(self, trace_id: int, span_id: int, attributes: Mapping[str, Any]) -> None:
        """Add attributes to a span, if it is held."""
        span = self._held.get((trace_id, span_id))
        if span is not None:
            span.attributes.update(attributes)

    def finish(self, trace_id: int, span_id: int) -> None:
        """Let a span pass: it gets no more attributes."""
        span = self._held.get((trace_id, span_id))
        if span is None or self._loop is None:
            return
        span.complete = True
        self._ended.append(span.key)
        if not self._armed:
            self._armed = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._pass_ended)
