"""Measures what a check adds to a call of its scorer: p50 and p99, interleaved in one process.

python benchmarks/verdicts.py [--calls 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

import otel_evals
from otel_evals import Run, scorer
from otel_evals.destinations import InMemoryDestination
from otel_evals.model import Message, OperationKind, Part, ToolCall
from otel_evals.scorers import grounded_in_tools
from otel_evals_instrumentation import agent, tool

QUESTION, ANSWER = "Where is order A-1001?", "It arrives on 2026-11-25 and costs $12.50."
FOUND = {"eta": "2026-11-25", "total": 12.5}
JUDGE_SECONDS = 0.05
PROVIDER = TracerProvider(shutdown_on_exit=False)
TRACED: Any = {"capture_content": True, "tracer_provider": PROVIDER}
GROUNDED = grounded_in_tools()
RUN = Run(
    trace_id="a" * 32,
    root_span_id="b" * 16,
    root_kind=OperationKind.AGENT,
    input_messages=(Message(role="user", parts=(Part(kind="text", text=QUESTION),)),),
    output=ANSWER,
    tool_calls=(ToolCall(name="lookup", result=FOUND, status="ok"),),
)


@scorer(id="slow", version="1")
async def slow(run: Run) -> float:
    """Stands for a judge."""
    await asyncio.sleep(JUDGE_SECONDS)
    return 1.0


@tool("lookup", **TRACED)
def lookup(order_id: str) -> dict[str, Any]:
    return FOUND


Clock = Callable[[], float]
Series = tuple[list[float], list[float]]
"""Seconds of bare calls of the scorer, and of checks."""


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[int(len(seconds) * share)]


async def timed(call: Callable[[], Awaitable[object]], clock: Clock) -> float:
    began = clock()
    await call()
    return clock() - began


async def in_asyncio(judge: Any, calls: int, at_once: int, clock: Clock) -> Series:
    series: Series = [], []
    free = asyncio.Semaphore(at_once)

    async def one(number: int) -> None:
        async with free:
            with agent("support", **TRACED) as span:
                span.set_input(QUESTION)
                lookup("A-1001")
                pair = [lambda: judge.score(RUN), lambda: otel_evals.check(judge, ANSWER, deadline=10)]
                for index in (0, 1) if number % 2 else (1, 0):
                    series[index].append(await timed(pair[index], clock))
                span.set_output(ANSWER)

    await asyncio.gather(*map(one, range(calls)))
    return series


def in_threads(judge: Any, calls: int, at_once: int, clock: Clock) -> Series:
    bare: list[float] = []
    checked: list[float] = []

    def one(_: int) -> None:
        with agent("support", **TRACED) as span:
            span.set_input(QUESTION)
            lookup("A-1001")
            began = clock()
            judge.score_at_once(RUN) if judge is GROUNDED else time.sleep(JUDGE_SECONDS)
            between = clock()
            otel_evals.check_sync(judge, ANSWER, deadline=10)
            checked.append(clock() - between)
            bare.append(between - began)
            span.set_output(ANSWER)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, range(calls)))
    return bare, checked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2_000)
    calls = parser.parse_args().calls
    otel_evals.configure(
        rules=[GROUNDED, otel_evals.Rule(slow, sample=otel_evals.sampling.never())],
        destinations=[InMemoryDestination()],
        tracer_provider=PROVIDER,
        evaluation_events=False,
    )
    asyncio.run(in_asyncio(GROUNDED, 100, 1, time.perf_counter))
    print(f"{'ms':36}{'bare p50':>10}{'p99':>8}{'check p50':>12}{'p99':>8}{'added p50':>12}{'p99':>8}")
    for name, judge, at_once, count, clock in (
        ("code", GROUNDED, 1, calls, time.perf_counter),
        ("code, CPU of the process", GROUNDED, 1, calls, time.process_time),
        (f"judge of {JUDGE_SECONDS * 1000:g} ms, 8 at once", slow, 8, calls // 4, time.perf_counter),
    ):
        for where in ("asyncio", "threads"):
            if where == "asyncio":
                bare, checked = asyncio.run(in_asyncio(judge, count, at_once, clock))
            else:
                bare, checked = in_threads(judge, count, at_once, clock)
            figures = [percentile(each, share) * 1000 for each in (bare, checked) for share in (0.5, 0.99)]
            figures += [figures[2] - figures[0], figures[3] - figures[1]]
            cells = zip(figures, (10, 8, 12, 8, 12, 8), strict=True)
            print(f"{name + ', ' + where:36}" + "".join(f"{each:{width}.2f}" for each, width in cells))
    otel_evals.shutdown()


if __name__ == "__main__":
    main()
