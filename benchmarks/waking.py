"""How soon a run reaches its scorer, and how often the engine's thread wakes up for that.

The first table is deterministic: the engine's thread runs on a loop with a virtual clock, and an application
records runs of three spans at a steady rate. A wake-up is a call from the application's thread or a timer.
The last line is measured on the real clock: one run at a time in an idle process.

    python benchmarks/waking.py [--runs N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from calls import OFF, one_run
from opentelemetry.sdk.trace import TracerProvider

import otel_evals
from otel_evals import Run, scorer
from otel_evals._internal.engine.event_loop import ContextExecutor
from otel_evals._internal.engine.thread import EngineThread

RATES = 1, 10, 100, 150, 300, 1_000, 3_000
SECONDS = 10.0
SPACING = 0.0001
"""Seconds between two spans of a run."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """Seconds of the virtual clock."""
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # asyncio's
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class Counted(EngineThread):
    """Takes the times at which runs ended; counts its wake-ups and the time until each run is taken."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(self)
        self.loop = loop
        self.wakeups = 0
        self.delays: list[float] = []
        self._thread: Any = self  # it never starts: the loop is run by the caller
        self._executor = ContextExecutor()

    def take(self, items: Sequence[float]) -> float:
        """Note how long runs have waited."""
        self.delays += [self.loop.now - ended for ended in items if ended]
        return self.tick()

    def tick(self) -> float:
        """Do nothing for a second, as the engine does without work."""
        return time.monotonic() + 1.0

    async def run(self) -> None:  # type: ignore[override]  # the work, not the thread's method
        """Nothing runs in the background."""

    def end(self, items: Sequence[float]) -> None:
        """Nothing is counted."""

    def _call_soon(self, loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
        self.wakeups += 1
        super()._call_soon(loop, function)

    def _pump(self) -> None:
        self.wakeups += self._gathered is not None and self._gathered.when() <= self.loop.now
        super()._pump()


def virtual(rate: int) -> Counted:
    """Record runs at a steady rate."""
    loop = VirtualLoop()
    engine = Counted(loop)

    async def application() -> None:
        serving = asyncio.ensure_future(engine._serve())
        await asyncio.sleep(1.0)
        engine.wakeups = 0
        begun = loop.now
        for number in range(int(SECONDS * rate)):
            await asyncio.sleep(max(0.0, begun + number / rate - loop.now))
            for ends in (False, False, True):
                await asyncio.sleep(SPACING)
                engine.put(loop.now if ends else 0.0, ends)
        await asyncio.sleep(1.0)
        serving.cancel()

    loop.run_until_complete(application())
    loop.close()
    return engine


def real(runs: int) -> list[float]:
    """Milliseconds from each root's end to its scorer's start."""
    started: list[float] = []

    @scorer(inline=True)
    def noted(_: Run) -> bool:
        started.append(time.perf_counter())
        return True

    provider = TracerProvider()
    otel_evals.configure(rules=[noted], tracer_provider=provider, grace=0.05, **OFF)
    tracer, delays = provider.get_tracer("app"), []
    for _ in range(40):  # the first wait for late spans
        one_run(tracer)
    time.sleep(0.5)
    for number in range(41, 41 + runs):
        one_run(tracer)
        ended = time.perf_counter()
        time.sleep(0.02)
        if len(started) == number:
            delays.append((started[-1] - ended) * 1e3)
    otel_evals.shutdown()
    return delays


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    print("runs/s  wake-ups/s  ms until taken: median, longest")
    for rate in RATES:
        engine = virtual(rate)
        milliseconds = [delay * 1e3 for delay in engine.delays]
        print(
            f"{rate:6,}{engine.wakeups / SECONDS:12.0f}"
            f"{statistics.median(milliseconds):20.2f}{max(milliseconds):9.2f}"
        )
    delays = real(runs)
    print(f"from the end of a root to its scorer: median {statistics.median(delays):.2f} ms", end="")
    print(f", p90 {sorted(delays)[int(0.9 * len(delays))]:.2f}, of {len(delays)} runs")


if __name__ == "__main__":
    main()
