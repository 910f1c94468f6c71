"""Applications of many threads, and scorers with tasks of their own."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_evals
from otel_evals import Rule, Run, sampling, scorer
from tests.behaviour.app import App
from tests.support.waits import eventually

THREADS, RUNS = 8, 12


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Switch threads after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@scorer(inline=True, version="1")
def quick(run: Run) -> float:
    return len(run.tool_calls) / 10


@scorer(version="1")
def threaded(run: Run) -> float:
    return 1.0


def test_every_run_of_many_threads_is_scored_once_and_leaves_once_for_each_exporter() -> None:
    """Two exporters, one of them behind a batch processor, while others ask for whatever can be asked."""
    app = App(quick, Rule(threaded, sample=sampling.ratio(0.5)), hold=60.0)
    second = InMemorySpanExporter()
    app.provider.add_span_processor(BatchSpanProcessor(app.pipeline.hold(second), max_queue_size=10_000))
    gate, done = threading.Barrier(THREADS), threading.Event()
    wrong: list[object] = []
    traces: list[str] = []

    def watch() -> None:
        while not done.wait(0.002):
            wrong.extend(app.pipeline.stats().check())
            health = app.pipeline.health()
            wrong.extend([] if health.ok else [health])
            app.pipeline.explain(traces[-1] if traces else 1)
            app.pipeline.destination_stats()

    def work(number: int) -> None:
        gate.wait(30)
        for turn in range(RUNS):
            traces.append(app.run())
            if number == 0 and turn % 5 == 0:
                app.pipeline.force_flush(1_000)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    evaluations = app.settle()
    done.set()
    watcher.join()
    stats = app.pipeline.stats()
    assert (wrong, stats.losses) == ([], {})
    assert stats.seen == stats.rules["quick"].scored == THREADS * RUNS
    assert len(evaluations) == stats.rules["quick"].scored + stats.rules["threaded"].scored
    for exporter in (app.exported, second):
        names = Counter(span.name.split()[0] for span in exporter.get_finished_spans())
        assert names["invoke_agent"] == names["chat"] == names["execute_tool"] == THREADS * RUNS
    assert all(app.pipeline.explain(trace).status == "scored" for trace in traces)


@pytest.mark.parametrize(
    "raised", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("how", ["gathered", "in a task group", "detached", "in a callback"])
def test_what_ends_a_program_does_not_end_scoring(raised: BaseException, how: str) -> None:
    """Raised in a task of a scorer's own, it leaves the event loop itself; others are scored all the same."""

    async def fail() -> None:
        raise raised

    def fail_at_once() -> None:
        raise raised

    async def hostile(run: Run) -> float:
        match how:
            case "gathered":
                await asyncio.gather(fail(), asyncio.sleep(0.01))
            case "in a task group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
            case "detached":
                left = asyncio.ensure_future(fail())
                await asyncio.wait({left})
                left.exception()
            case _:
                asyncio.get_running_loop().call_soon(fail_at_once)
                await asyncio.sleep(0.01)
        return 1.0

    async def fine(run: Run) -> float:
        await asyncio.sleep(0.005)
        return 1.0

    rules = [Rule(scorer(id=f.__name__, version="1")(f)) for f in (hostile, fine)]
    app = App(*rules)
    for _ in range(5):
        app.run()
    app.settle()
    ended = app.rule("hostile")
    assert ended.scored + sum(ended.failed.values()) == 5
    assert app.rule("fine").scored == 5
    assert app.pipeline.health().thread_alive


def test_a_scorer_that_refuses_to_be_cancelled_keeps_no_engine() -> None:
    """Its pipeline would stay in memory for good, and with every configuration one more."""

    @scorer(version="1")
    async def refuses(run: Run) -> float:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    before = set(threading.enumerate())
    app = App(Rule(refuses, timeout=0.05), shutdown_timeout=1.0)
    app.run()
    app.pipeline.force_flush(2_000)
    pipeline = weakref.ref(app.pipeline)
    otel_evals.shutdown()
    eventually(lambda: not [t for t in threading.enumerate() if t not in before and t.name == "otel-evals"])
    App(quick)
    otel_evals.shutdown()
    del app
    gc.collect()
    assert pipeline() is None
