"""The steps of one process, wired by hand: spans in, scored runs out, on the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.pipeline.steps import Steps

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.config.loader import build_config
from otel_evals.model import Evaluation
from otel_evals.testing import InMemoryDestination
from tests.support.trace_builder import DIALECTS
from tests.support.waits import SECONDS

__all__ = ["Wired", "wired"]


class Wired:
    """Steps with an in-memory destination, fed by a tracer whose spans they capture."""

    def __init__(
        self, *rules: Any, store: DurableQueue | None = None, attacher: Attacher | None = None, **options: Any
    ) -> None:
        self.scored = InMemoryDestination()
        destinations = options.pop("destinations", [self.scored])
        self.config = build_config(rules, destinations, **{"grace": 0.0, **options})
        self.ledger = Ledger([rule.name for rule in self.config.rules])
        self.loop = asyncio.get_running_loop()
        open_spans = OpenSpans()
        self.steps = Steps(
            self.config,
            DIALECTS,
            self.ledger,
            attacher or Attacher(None, None, None, None),
            store or DurableQueue(),
            self,  # type: ignore[arg-type]  # takes the place of the engine's thread
            open_spans,
        )
        self.captured: list[CapturedItem] = []
        self.backlog = Backlog(1, 1)
        self.capture = CaptureSpans(self, DIALECTS, self.config.ceiling, open_spans=open_spans)
        self.logs = CaptureLogRecords(self, self.capture.keeps)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.capture)
        self.tracer = provider.get_tracer("tests.app")

    refused = 0

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
        """Give the steps what was captured, as the engine's thread does."""
        items, self.captured = self.captured, []
        self.steps.take(items)
        self.steps.tick()

    async def settled(self) -> list[Evaluation]:
        """Everything scored and delivered; returns the evaluations."""
        assert await self.steps.flush(time.monotonic() + SECONDS)
        assert self.ledger.stats().check() == []
        return list(self.scored.evaluations)

    async def until(self, condition: Callable[[], object]) -> None:
        """Turn the steps until something is so."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                self.steps.tick()
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def wired(*rules: Any, **options: Any) -> AsyncIterator[Wired]:
    """Steps that deliver while the block lasts, and that are ended with it."""
    made = Wired(*rules, **options)
    running = asyncio.ensure_future(made.steps.run())
    try:
        yield made
    finally:
        await made.steps.finish_all(time.monotonic() + SECONDS)
        running.cancel()
        await asyncio.wait({running})
        made.steps.close()
        assert made.ledger.stats().check() == []
        assert made.ledger.pending == 0
