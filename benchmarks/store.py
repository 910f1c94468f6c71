"""Cost of the store: runs per second with and without it, engine and writer time per run, latency.

    python benchmarks/store.py [runs]

Feeds three-span runs with 2 KB of messages to a pipeline as fast as the engine takes them, scored by a scorer
that does nothing, and measures from the first span to the last delivered score. CPU is the process's whole,
so the store's share is the difference between the rows; `engine` is the time of the engine's own thread.
At the end processes are killed, and lost and duplicated runs are counted (five minutes).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Pipeline, Rule, Run
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.durable_queue.database import open_database
from otel_evals._internal.util.sqlite_file import transaction
from otel_evals.scorers import scorer
from otel_evals.testing import InMemoryDestination
from tests.support.kills import kill_often
from tests.support.traffic import agent_run

TEXT = "Where is order A-1001? " * 40
WINDOW = 1_000


@scorer(inline=True, version="1")
def one(run: Run) -> float:
    return 1.0


@contextmanager
def pipeline(**options: Any) -> Iterator[tuple[Pipeline, Any]]:
    provider = TracerProvider()
    config = build_config(
        [Rule(one)],
        [InMemoryDestination()],
        span_attributes=False,
        evaluation_spans=False,
        grace=0.0,
        **options,
    )
    built = Pipeline(config, tracer_provider=provider)
    provider.add_span_processor(built.spans)
    try:
        yield built, provider.get_tracer("bench")
    finally:
        provider.shutdown()


def thread_seconds() -> dict[str, float]:
    """CPU seconds of this process's threads by name, on systems that report them."""
    times: dict[str, float] = {}
    for thread in threading.enumerate():
        try:
            stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="ascii")
        except OSError:
            continue
        fields = stat.rpartition(")")[2].split()
        times[thread.name] = (int(fields[11]) + int(fields[12])) / 100
    return times


def measure(runs: int, **options: Any) -> dict[str, float]:
    """Per run: microseconds of CPU, of the engine's thread and of the store's; and runs per second."""
    with pipeline(**options) as (built, tracer):
        for _ in range(200):
            agent_run(tracer, TEXT, TEXT)
        built.force_flush(30_000)
        threads, cpu, began = thread_seconds(), time.process_time(), time.perf_counter()
        issued = 0
        while issued < runs:
            if issued - built.stats().rules["one"].scored < WINDOW:
                for _ in range(50):
                    agent_run(tracer, TEXT, TEXT)
                issued += 50
            else:
                time.sleep(0.005)
        built.force_flush(60_000)
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        after = thread_seconds()
        spent = {name: (after[name] - threads.get(name, 0.0)) / runs * 1e6 for name in after}
        stats = built.stats()
        assert stats.rules["one"].scored == runs + 200, stats
        assert stats.check() == []
        if "store" in options and "store_keep" not in options:
            assert stats.store.written == runs + 200, stats.store
        return {
            "runs/s": runs / wall,
            "cpu": cpu / runs * 1e6,
            "engine": spent.get("otel-evals", 0.0),
            "writer": spent.get("otel-evals-store", 0.0),
        }


def commit_seconds(folder: str) -> list[float]:
    """Time that the disk takes for one small commit."""
    connection = open_database(Path(folder) / "commits.db")
    taken = []
    for number in range(50):
        began = time.perf_counter()
        with transaction(connection):
            connection.execute("INSERT INTO owner VALUES (?, 1, '', 0)", (str(number),))
        taken.append(time.perf_counter() - began)
    connection.close()
    return taken


def safe_after(folder: str) -> list[float]:
    """Seconds from a run's root span's end until it is in the file, its grace being 0."""
    taken = []
    with pipeline(store=Path(folder) / "safe.db") as (built, tracer):
        for number in range(20):
            agent_run(tracer, TEXT, TEXT)
            began = time.perf_counter()
            while built.stats().store.written <= number:
                time.sleep(0.001)
            taken.append(time.perf_counter() - began)
            time.sleep(0.05)
    return taken


def killed(folder: str, pause: float, end: Literal["kill", "exit"], count: int = 20) -> str:
    """Processes on one file, each ended a pause after the end of a run: what became of all runs."""
    place = Path(folder) / f"{end}{pause}"
    place.mkdir()
    damage = kill_often(place, count, pause, end)
    return (
        f"{count} times {end} {pause * 1e3:.0f} ms after a run: {sum(damage.lost)} of {damage.issued} lost "
        f"(at most {max(damage.lost)} in one, ended {damage.oldest * 1e3:.0f} ms before it), "
        f"{damage.doubled} doubled"
    )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    print(f"{'':34}{'runs/s':>8}{'CPU':>8}{'engine':>8}{'writer':>8}   µs per run")
    with tempfile.TemporaryDirectory() as folder:
        for name, options in (
            ("no store", {}),
            ("store, scored runs kept", {"store": Path(folder) / "kept.db"}),
            ("store, scored runs not kept", {"store": Path(folder) / "gone.db", "store_keep": 0}),
        ):
            row = measure(runs, **options)
            print(f"{name:34}" + "".join(f"{row[key]:8.0f}" for key in ("runs/s", "cpu", "engine", "writer")))
        kept = Path(folder) / "kept.db"
        print(f"{kept.stat().st_size / (runs + 200):.0f} bytes per kept run")
        print(f"one commit: {statistics.median(commit_seconds(folder)) * 1e3:.2f} ms (median)")
        print(f"safe after: {statistics.median(safe_after(folder)) * 1e3:.0f} ms (median)")
        for end in ("kill", "exit"):
            for pause in (0.0, 0.005, 0.02, 0.1, 0.25):
                print(killed(folder, pause, end))


if __name__ == "__main__":
    main()
