"""Many threads at once, with the interpreter switching between them as often as it can, or without a lock."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Rule, Run, sampling
from otel_evals._internal.attach.hold import PendingScores
from otel_evals.scorers import scorer
from tests.support.traffic import Live, agent_run
from tests.support.waits import eventually

THREADS, RUNS = 12, 25


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Switch threads after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """Call `work` with each number in a thread of its own, all at the same moment."""
    gate = threading.Barrier(threads)

    def enter(number: int) -> Any:
        gate.wait(10)
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(enter, range(threads)))


@scorer(inline=True, version="1")
def quick(run: Run) -> float:
    return len(run.tool_calls) / 10


@scorer(version="1")
def threaded(run: Run) -> float:
    return 1.0


@pytest.mark.slow
def test_every_run_of_many_threads_is_scored_once_and_leaves_once_for_each_exporter() -> None:
    """Two exporters, one of them behind a batch processor, while others ask for whatever can be asked."""
    rules = (Rule(quick), Rule(threaded, sample=sampling.ratio(0.5)))
    second = InMemorySpanExporter()
    with Live(*rules, hold=30.0, grace=0.05) as live:
        batch = BatchSpanProcessor(live.pipeline.hold(second), max_queue_size=100_000)
        live.provider.add_span_processor(batch)
        wrong: list[object] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.002):
                wrong.extend(live.pipeline.stats().check())
                wrong.extend([] if live.pipeline.health().ok else ["not healthy"])
                live.pipeline.explain(traces[-1] if traces else 1)
                live.pipeline.destination_stats()

        traces: list[int] = []
        watcher = threading.Thread(target=watch)
        watcher.start()

        def work(number: int) -> None:
            for turn in range(RUNS):
                traces.append(agent_run(live.tracer, agent=f"agent{number}"))
                if number == 0 and turn % 10 == 0:
                    live.pipeline.force_flush(1_000)

        at_once(work)
        assert live.flush()
        done.set()
        watcher.join()
        live.provider.force_flush()
        stats = live.pipeline.stats()
        assert wrong == []
        assert stats.check() == []
        assert stats.losses == {}
        assert stats.seen == stats.eligible == stats.rules["quick"].scored == THREADS * RUNS
        assert len(live.scored.evaluations) == stats.rules["quick"].scored + stats.rules["threaded"].scored
        for exporter in (live.exported, second):
            names = Counter(s.name.split()[0] for s in exporter.get_finished_spans())
            assert names["invoke_agent"] == names["chat"] == names["execute_tool"] == THREADS * RUNS
        assert all(live.pipeline.explain(trace).status == "scored" for trace in traces)


def test_announced_spans_are_forgotten_once_every_exporter_has_them() -> None:
    """However many threads take at once, nothing stays behind and nothing is mixed up."""
    scores, takers, keys = PendingScores(), 4, [(number, 1) for number in range(400)]
    for _ in range(takers):
        scores.listen(lambda _: None)
    for key in keys:
        scores.expect(*key)
        scores.add(*key, "quick", 1, {"is": key[0]})
        scores.finish(*key)
    taken = at_once(lambda _: [scores.take(key, 1) for key in keys], takers)
    assert all(t == [{"is": number} for number in range(400)] for t in taken)
    assert all(scores.take(key, 1) == {} for key in keys), "they are forgotten"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_that_fork_at_once_leave_the_store_usable(tmp_path: Path) -> None:
    """Two threads fork again and again while runs are written: every run is in the file."""
    with Live(Rule(quick), store=tmp_path / "runs.db", grace=0.0) as live:
        live.run()

        def work(number: int) -> None:
            for _ in range(10):
                live.run()
                if number < 2:
                    pid = os.fork()
                    if pid == 0:
                        os._exit(0)
                    os.waitpid(pid, 0)

        at_once(work, 4)
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.rules["quick"].scored == stats.store.written == 41
        assert stats.store.not_written == {}


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
    with Live(*rules) as live:
        for _ in range(5):
            live.run()
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.check() == []
        assert stats.rules["fine"].scored == 5
        ended = stats.rules["hostile"]
        assert ended.scored + sum(ended.failed.values()) == 5
        assert live.pipeline.health().thread_alive


def test_a_scorer_that_refuses_to_be_cancelled_keeps_no_engine() -> None:
    """Its pipeline would stay in memory for good, and with every configuration one more."""

    @scorer(version="1")
    async def refuses(run: Run) -> float:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    before = set(threading.enumerate())
    with Live(Rule(refuses, timeout=0.05), shutdown_timeout=2.0) as live:
        agent_run(live.tracer)
        live.pipeline.force_flush(3_000)
        pipeline = weakref.ref(live.pipeline)
        live.pipeline.shutdown()
    eventually(lambda: not [t for t in threading.enumerate() if t not in before and t.name == "otel-evals"])
    del live
    gc.collect()
    assert pipeline() is None
