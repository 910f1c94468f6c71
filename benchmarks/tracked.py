"""Objects that the garbage collector walks for each run whose judge is waiting, by type.

A full collection walks all tracked objects of the process, so its length follows from this number and the
number of runs in flight. Runs are recorded as in `calls.py`; their async scorer waits for an event.

    python benchmarks/tracked.py [--list]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections import Counter
from typing import Any

from calls import OFF, one_run
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

import otel_evals
from otel_evals import Rule, Run, scorer

RUNS = 512
SETUPS: dict[str, dict[str, Any]] = {"attachment off": OFF, "default attachment": {}}


def by_type() -> Counter[str]:
    """Count the tracked objects after a full collection."""
    gc.collect()
    return Counter(f"{type(o).__module__}.{type(o).__qualname__}" for o in gc.get_objects())


def measure(options: dict[str, Any]) -> Counter[str]:
    """Return the number of objects that a burst of waiting runs adds, by type."""
    started: list[asyncio.AbstractEventLoop] = []
    gates = [asyncio.Event()]

    @scorer(id="waiting")
    async def waiting(run: Run) -> bool:
        started.append(asyncio.get_running_loop())
        await gates[-1].wait()
        return bool(run.output)

    provider = TracerProvider()
    otel_evals.configure(
        rules=[Rule(waiting, concurrency=RUNS)],
        tracer_provider=provider,
        logger_provider=LoggerProvider(),
        meter_provider=MeterProvider(),
        grace=0.05,
        **options,
    )
    tracer = provider.get_tracer("app")

    def burst(runs: int) -> None:
        awaited = len(started) + runs
        for _ in range(runs):
            one_run(tracer)
        while len(started) < awaited:
            time.sleep(0.01)
        time.sleep(0.1)

    gates[-1].set()
    burst(RUNS)
    otel_evals.force_flush()
    before = by_type()
    gates.append(asyncio.Event())
    burst(RUNS)
    after = by_type()
    started[0].call_soon_threadsafe(gates[-1].set)
    otel_evals.shutdown()
    return after - before


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the types")
    listed = parser.parse_args().list
    for name, options in SETUPS.items():
        added = measure(options)
        print(f"{added.total() / RUNS:6.1f} {name}")
        for kind, count in added.most_common() if listed else ():
            if count >= RUNS / 10:
                print(f"       {count / RUNS:5.1f} {kind}")


if __name__ == "__main__":
    main()
