"""Cost of capture on the application's thread, per span: on_start and on_end, best of many repeats.

python benchmarks/caller_thread.py
"""

from __future__ import annotations

import timeit

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.processors import CaptureSpans
from otel_evals.conventions import load_conventions

REPEATS, NUMBER = 40, 2_000


class Sink:
    """A stand-in for the engine that discards its items."""

    backlog = Backlog(1, 1)

    def put(self, item: object, ends_run: bool = False) -> None:
        pass


def cost(ceiling: float, attributes: dict[str, str], scope: str, *, below: bool) -> float:
    """Microseconds for one span's start and end."""
    capture = CaptureSpans(Sink(), load_conventions(), ceiling, lambda trace_id, span_id: None)
    tracer = TracerProvider().get_tracer(scope)
    parent = tracer.start_span("parent")
    if below:
        capture.on_start(parent)
    span = tracer.start_span(
        "s", context=set_span_in_context(parent) if below else None, attributes=attributes
    )
    ended = span._readable_span()

    def once() -> None:
        capture.on_start(span)
        capture.on_end(ended)

    return min(timeit.repeat(once, number=NUMBER, repeat=REPEATS)) / NUMBER * 1e6


def main() -> None:
    genai = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    http = {"http.request.method": "GET", "url.path": "/", "server.address": "x"}
    print(f"{'span':34}{'root':>8}{'child':>8}   µs, start and end together")
    for name, ceiling, attributes, scope in (
        ("lost by the ratio", 0.0, genai, "app"),
        ("unclaimed, known scope", 1.0, http, "opentelemetry.instrumentation.requests"),
        ("unclaimed, application's scope", 1.0, http, "app"),
        ("claimed by its scope", 1.0, genai, "pydantic-ai"),
        ("claimed by its attributes", 1.0, genai, "app"),
        ("claimed, ratio 0.999", 0.999, genai, "app"),
    ):
        costs = [cost(ceiling, attributes, scope, below=below) for below in (False, True)]
        print(f"{name:34}{costs[0]:8.2f}{costs[1]:8.2f}")


if __name__ == "__main__":
    main()
