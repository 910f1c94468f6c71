"""What a check adds to the bare call of its scorer: p50 and p99, interleaved in one process.

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


def percentile(seconds: list[float], share: float) -> float:
    return sorted(seconds)[int(len(seconds) * share)]


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def one(judge: Any, bare: list[float], checked: list[float]) -> None:
    """Call the scorer and check, within one run, in turns first."""
    with agent("support", **TRACED) as span:
        span.set_input(QUESTION)
        lookup("A-1001")
        calls = [
            (bare, lambda: judge.score(RUN)),
            (checked, lambda: otel_evals.check(judge, ANSWER, deadline=10)),
        ]
        for into, call in calls if len(bare) % 2 else reversed(calls):
            into.append(await timed(call))
        span.set_output(ANSWER)


async def in_asyncio(judge: Any, calls: int, at_once: int) -> tuple[list[float], list[float]]:
    bare: list[float] = []
    checked: list[float] = []
    free = asyncio.Semaphore(at_once)

    async def limited() -> None:
        async with free:
            await one(judge, bare, checked)

    await asyncio.gather(*(limited() for _ in range(calls)))
    return bare, checked


def in_threads(judge: Any, calls: int, at_once: int) -> tuple[list[float], list[float]]:
    bare: list[float] = []
    checked: list[float] = []

    def call(_: int) -> None:
        with agent("support", **TRACED) as span:
            span.set_input(QUESTION)
            lookup("A-1001")
            began = time.perf_counter()
            asyncio.run(judge.score(RUN)) if judge is slow else judge.score_at_once(RUN)
            between = time.perf_counter()
            otel_evals.check_sync(judge, ANSWER, deadline=10)
            checked.append(time.perf_counter() - between)
            bare.append(between - began)
            span.set_output(ANSWER)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(call, range(calls)))
    return bare, checked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2_000)
    calls = parser.parse_args().calls
    rules = [otel_evals.Rule(GROUNDED), otel_evals.Rule(slow, concurrency=64)]
    otel_evals.configure(
        rules=rules, destinations=[InMemoryDestination()], tracer_provider=PROVIDER, evaluation_events=False
    )
    asyncio.run(in_asyncio(GROUNDED, 50, 1))
    print(f"{'ms':28}{'bare p50':>10}{'p99':>8}{'check p50':>12}{'p99':>8}{'added p50':>12}{'p99':>8}")
    for name, judge, at_once, count in (
        ("code", GROUNDED, 1, calls),
        ("code, 16 at once", GROUNDED, 16, calls),
        (f"judge of {JUDGE_SECONDS * 1000:g} ms, 16 at once", slow, 16, calls // 4),
    ):
        for where in ("asyncio", "threads"):
            bare, checked = (
                asyncio.run(in_asyncio(judge, count, at_once))
                if where == "asyncio"
                else in_threads(judge, count, at_once)
            )
            figures = [percentile(each, share) * 1000 for each in (bare, checked) for share in (0.5, 0.99)]
            added = figures[2] - figures[0], figures[3] - figures[1]
            row = "".join(
                f"{figure:{width}.2f}"
                for figure, width in zip((*figures, *added), (10, 8, 12, 8, 12, 8), strict=True)
            )
            print(f"{name + ', ' + where:28}{row}")
    otel_evals.shutdown()


if __name__ == "__main__":
    main()
