"""An engine of one process on the caller's event loop: spans in, scored runs out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from math import inf
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem, OpenSpans
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.engine.engine import Engine
from otel_evals.model import Evaluation
from otel_evals.testing import InMemoryDestination
from tests.support.trace_builder import KNOWN_CONVENTIONS
from tests.support.waits import SECONDS

__all__ = ["Wired", "wired"]


class Wired:
    """An engine with an in-memory destination, fed by a tracer; it takes the place of the engine's thread."""

    def __init__(self, *rules: Any, attacher: Attacher | None = None, **options: Any) -> None:
        self.scored = InMemoryDestination()
        destinations = options.pop("destinations", [self.scored])
        source = options.pop("source", None)
        self.config = build_config(rules, destinations, **{"grace": 0.0, **options})
        self.loop = asyncio.get_running_loop()
        open_spans = OpenSpans()
        attacher = attacher or Attacher(None, None, None, None)
        self.engine = Engine(self.config, KNOWN_CONVENTIONS, attacher, open_spans=open_spans, source=source)
        self.engine.thread = self  # type: ignore[assignment]
        self.ledger = self.engine.ledger
        self.taken = 0
        self.captured: list[CapturedItem] = []
        self.backlog = Backlog(1, 1)
        self.capture = CaptureSpans(self, KNOWN_CONVENTIONS, self.config.ceiling, open_spans=open_spans)
        self.logs = CaptureLogRecords(self, self.capture.keeps)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.capture)
        self.tracer = provider.get_tracer("tests.app")

    @property
    def waiting(self) -> int:
        """Items that wait for `feed`."""
        return len(self.captured)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, from any thread."""
        self.loop.call_soon_threadsafe(function)

    def put(self, item: CapturedItem, ends_run: bool = False) -> None:
        """Take a captured item; it waits for `feed`."""
        self.captured.append(item)

    def feed(self) -> None:
        """Give the engine what was captured, as its thread does."""
        items, self.captured = self.captured, []
        self.taken += len(items)
        self.engine.take(items)
        self.engine.tick()

    def drain(self, until: float = inf) -> None:
        """Take everything that was captured."""
        self.feed()

    async def flush(self, *, ending: bool = False) -> bool:
        """Score and deliver everything."""
        return await self.engine._flush(time.monotonic() + SECONDS, ending=ending)

    async def settled(self) -> list[Evaluation]:
        """Everything scored and delivered; returns the evaluations."""
        assert await self.flush()
        assert self.ledger.stats().check() == []
        return list(self.scored.evaluations)

    async def until(self, condition: Callable[[], object]) -> None:
        """Turn the engine until something is so."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                self.engine.tick()
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def wired(*rules: Any, **options: Any) -> AsyncIterator[Wired]:
    """An engine that delivers while the block lasts, and that is ended with it."""
    made = Wired(*rules, **options)
    running = asyncio.ensure_future(made.engine.background())
    try:
        yield made
    finally:
        await made.engine._finish(time.monotonic() + SECONDS)
        made.engine.end([])
        running.cancel()
        await asyncio.wait({running})
        assert made.ledger.stats().check(ended=True) == []
