"""Time and memory of a decorated call, next to the SDK's own decorator.

    python benchmarks/decorators.py

Both make one recorded span per call with the same attributes, in a provider that drops it when it ends. The
last lines record content, which the SDK's decorator does not do.
"""

from __future__ import annotations

import gc
import timeit
import tracemalloc
from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_evals_instrumentation import tool

NUMBER = 5_000
REPEATS = 9
HELD = 2_000
provider = TracerProvider()
provider.add_span_processor(SpanProcessor())
tracer = provider.get_tracer("bench")
ATTRIBUTES = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "add",
    "gen_ai.tool.type": "function",
}


def add(one: int, other: int) -> int:
    return one + other


async def add_later(one: int, other: int) -> int:
    return one + other


def sdk(function: Any) -> Any:
    return tracer.start_as_current_span("execute_tool add", attributes=ATTRIBUTES)(function)


def ours(function: Any, capture: bool | None = None) -> Any:
    return tool("add", tracer_provider=provider, capture_content=capture)(function)


def interleaved(*calls: Callable[[], object]) -> list[float]:
    """Best time of each, in µs per call; they take turns, because a busy machine slows all of them alike."""
    best = [float("inf")] * len(calls)
    for _ in range(REPEATS):
        for i, call in enumerate(calls):
            best[i] = min(best[i], timeit.timeit(call, number=NUMBER) / NUMBER * 1e6)
    return best


def awaited(function: Any) -> Callable[[], None]:
    """Drives a coroutine that never waits, without an event loop's own cost."""

    def run() -> None:
        try:
            function(1, 2).send(None)
        except StopIteration:
            return

    return run


def nested(enter: Callable[[], Any], depth: int) -> int:
    """Bytes held while that many spans are open inside each other."""
    gc.collect()
    tracemalloc.start()
    held = [enter() for _ in range(depth)]
    for block in held:
        block.__enter__()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for block in reversed(held):
        block.__exit__(None, None, None)
    return size // depth


def main() -> None:
    plain, dear, dear_later = sdk(add), ours(add), ours(add_later)
    sync = interleaved(lambda: plain(1, 2), lambda: dear(1, 2))
    later = interleaved(awaited(sdk(add_later)), awaited(dear_later))
    print(f"{'':22}{'SDK':>8}{'ours':>8}{'ratio':>8}")
    for name, (theirs, our) in (("sync, µs per call", sync), ("async, µs per call", later)):
        print(f"{name:22}{theirs:8.2f}{our:8.2f}{our / theirs:8.2f}")
    theirs = nested(lambda: tracer.start_as_current_span("execute_tool add", attributes=ATTRIBUTES), HELD)
    our = nested(lambda: tool("add", tracer_provider=provider), HELD)
    print(f"{'bytes per open block':22}{theirs:8}{our:8}{our / theirs:8.2f}")
    recorded = ours(add, capture=True)
    print(f"{'with content, µs':22}{'':8}{interleaved(lambda: recorded(1, 2))[0]:8.2f}")


if __name__ == "__main__":
    main()
