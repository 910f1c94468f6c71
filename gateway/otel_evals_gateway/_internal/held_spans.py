"""Spans that wait for their scores on the receivers' event loop before they are forwarded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from otel_evals.sdk.pipeline import Hold, PendingScores

_SWEEP_SECONDS = 0.05
_MOST_SCORES = 10_000

Key = tuple[int, int]
"""Trace id and span id."""
Released = Callable[[Mapping[str, Any]], object]
"""Called on the event loop with a span's scores, as attributes, once it may be forwarded."""


class _Held(NamedTuple):
    released: Released
    size: int


class HeldSpans:
    """The held spans: up to `limit` of `max_bytes`, each for up to `seconds`.

    The engine's thread adds scores to `scores`; everything else happens on the event loop.
    """

    def __init__(self, limit: int, seconds: float, max_bytes: int) -> None:
        # Spans that are sent again have scores here, besides the held ones.
        self.scores = PendingScores(max(_MOST_SCORES, 2 * limit))
        self._hold = Hold[_Held](
            self.scores,
            limit=limit,
            seconds=seconds,
            max_bytes=max_bytes,
            measure=lambda held: held.size,
            changed=self._changed,
        )
        self._armed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._hold)

    def start(self) -> None:
        """Start to release spans."""
        self._loop = asyncio.get_running_loop()
        self._sweeping = asyncio.ensure_future(self._sweep())

    async def stop(self) -> None:
        """Release every span with the scores it has."""
        self._sweeping.cancel()
        await asyncio.wait({self._sweeping})
        self._release(everything=True)

    def has_capacity(self, count: int, size: int) -> bool:
        """Return True if so many more spans of so many bytes may be held; count them otherwise."""
        return self._hold.has_capacity(size, count)

    def hold(self, key: Key, size: int, released: Released) -> None:
        """Hold a span of so many bytes, unless its scores are known already."""
        # Scores may be complete before the span is held: then it need not wait.
        self.scores.expect(*key)
        attributes = self.scores.take(key, 0)
        if attributes is None and not self._hold.put(key, _Held(released, size), time.time_ns()):
            attributes = self.scores.take(key, 0, anyway=True)
        if attributes is not None:
            asyncio.get_running_loop().call_soon(released, attributes)

    def keep_scores(self, key: Key, attributes: Mapping[str, Any]) -> None:
        """Keep the scores of a span that its sender will send again."""
        self.scores.expect(*key)
        self.scores.add(*key, "", 0, attributes)
        self.scores.finish(*key)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._release()

    def _release(self, *, everything: bool = False) -> None:
        self._armed = False
        for held, attributes in self._hold.release(everything=everything):
            held.released(attributes)

    def _changed(self) -> None:
        if self._loop is not None and not self._armed:
            # One call for all scores until it runs: each would wake the loop otherwise.
            self._armed = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._release)
