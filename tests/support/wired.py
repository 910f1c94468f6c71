"""The stages of one process, wired by hand: spans in, scored runs out, on the caller's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.items import CapturedItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.capture.processors import CaptureLogRecords, CaptureSpans
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.pipeline.steps import Stages
from otel_evals.model import Evaluation
from otel_evals.testing import InMemoryDestination
from tests.support.trace_builder import DIALECTS

__all__ = ["Wired", "wired"]

SECONDS = 5.0


class Wired:
    """Stages with an in-memory destination, fed by a tracer whose spans they capture."""

    def __init__(
        self, *rules: Any, store: DurableQueue | None = None, attacher: Attacher | None = None, **options: Any
    ) -> None:
        self.scored = InMemoryDestination()
        destinations = options.pop("destinations", [self.scored])
        self.config = build_config(rules, destinations, **{"grace": 0.0, **options})
        self.ledger = Ledger([rule.name for rule in self.config.rules])
        self.loop = asyncio.get_running_loop()
        open_spans = OpenSpans()
        self.stages = Stages(
            self.config,
            DIALECTS,
            self.ledger,
            attacher or Attacher(None, None, None, None),
            store or DurableQueue(),
            post=self.loop.call_soon_threadsafe,
            losses=dict,
            open_spans=lambda: open_spans.now(lambda: len(self.captured)),
        )
        self.captured: list[CapturedItem] = []
        self.backlog = Backlog(1, 1)
        self.capture = CaptureSpans(self, DIALECTS, self.config.ceiling, open_spans=open_spans)
        self.logs = CaptureLogRecords(self, self.capture.keeps)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.capture)
        self.tracer = provider.get_tracer("tests.app")

    def put(self, item: CapturedItem) -> None:
        """Take a captured item; it waits for `feed`."""
        self.captured.append(item)

    def feed(self) -> None:
        """Give the stages what was captured, as the engine's thread does."""
        items, self.captured = self.captured, []
        self.stages.take(items)
        self.stages.tick()

    async def settled(self) -> list[Evaluation]:
        """Everything scored and delivered; returns the evaluations."""
        assert await self.stages.flush(time.monotonic() + SECONDS)
        assert self.ledger.stats().check() == []
        return list(self.scored.evaluations)

    async def until(self, condition: Callable[[], object]) -> None:
        """Turn the stages until something is so."""
        async with asyncio.timeout(SECONDS):
            while not condition():
                self.stages.tick()
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def wired(*rules: Any, **options: Any) -> AsyncIterator[Wired]:
    """Stages that deliver while the block lasts, and that are ended with it."""
    made = Wired(*rules, **options)
    running = asyncio.ensure_future(made.stages.run())
    try:
        yield made
    finally:
        await made.stages.finish_all(time.monotonic() + SECONDS)
        running.cancel()
        await asyncio.wait({running})
        made.stages.close()
        assert made.ledger.stats().check() == []
        assert made.ledger.pending == 0
