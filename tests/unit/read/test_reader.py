"""From stored traces to runs: one at a time, and runs that a framework cut in two joined again."""

from __future__ import annotations

from collections.abc import Iterator

from otel_evals._internal.read.runs import read_runs
from otel_evals.model import SpanRecord
from tests.support.replacing import replace
from tests.support.trace_builder import KNOWN_CONVENTIONS, TraceBuilder
from tests.support.traffic import said

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def a_trace(question: str, trace_id: str = "b" * 32) -> list[SpanRecord]:
    attributes = {**AGENT, "gen_ai.input.messages": said("user", question)}
    builder = TraceBuilder("app").add("invoke_agent support", attributes).add("chat m", CHAT)
    return [replace(s, trace_id=trace_id) for s in builder.spans]


def test_runs_are_handed_on_while_traces_are_read() -> None:
    """A file of any length need not fit into memory."""
    read: list[str] = []

    def traces() -> Iterator[list[SpanRecord]]:
        for number in range(1, 1_000):
            read.append(str(number))
            yield a_trace("hello", f"{number:032x}")

    runs = read_runs(traces(), KNOWN_CONVENTIONS)
    assert next(runs).trace_id == f"{1:032x}"
    assert len(read) < 10
