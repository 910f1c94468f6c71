"""Long agents: what a limit removes of a run is told, and no part of a run is judged as the whole."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace

from otel_evals import Rule, Run
from otel_evals.model import Availability, NotScored
from otel_evals.scorers import scorer
from tests.support.traffic import Live
from tests.support.waits import eventually


def messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


AGENT = {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "support",
    "gen_ai.input.messages": messages("user", "Where is it?"),
    "gen_ai.output.messages": messages("assistant", "On its way."),
}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "lookup",
    "gen_ai.tool.call.arguments": "{}",
    "gen_ai.tool.call.result": "shipped",
}


@pytest.fixture
def seen() -> list[Run]:
    return []


@pytest.fixture
def judge(seen: list[Run]) -> Any:
    @scorer(id="calls", version="1", inline=True)
    def calls(run: Run) -> float:
        seen.append(run)
        return len(run.tool_calls) / 6

    return calls


@contextmanager
def agent(live: Live, **attributes: Any) -> Iterator[trace.Span]:
    with live.tracer.start_as_current_span("invoke_agent", attributes={**AGENT, **attributes}) as span:
        yield span


def tool(live: Live, **attributes: Any) -> None:
    with live.tracer.start_as_current_span("execute_tool", attributes={**TOOL, **attributes}):
        pass


def reasons(live: Live) -> dict[str, int]:
    return dict(live.pipeline.stats().rules["calls"].not_scored)


def test_a_run_with_more_spans_than_are_kept_is_not_scored(judge: Any, seen: list[Run]) -> None:
    with Live(Rule(judge), limits={"max_spans_per_trace": 3}) as live:
        with agent(live):
            for _ in range(6):
                tool(live)
        with agent(live):
            tool(live)
        assert live.flush()
        (told,) = [s for s in live.scored.runs if s.evaluations[0].status == "not_scored"]
        stats = live.pipeline.stats()
    assert told.evaluations[0].outcome == NotScored(reason="run_truncated")
    available = [told.run.availability[name] for name in ("input", "output", "tool_results", "documents")]
    assert available == [Availability.PRESENT] * 2 + [Availability.TRUNCATED] * 2
    assert [len(run.tool_calls) for run in seen] == [1]  # the other one is whole
    assert (stats.seen, stats.losses) == (2, {"span_limit_per_trace": 3})
    assert stats.check() == []


def test_what_is_below_a_dropped_span_is_no_run_of_its_own(judge: Any, seen: list[Run]) -> None:
    with Live(Rule(judge), limits={"max_spans_per_trace": 2}) as live:
        with agent(live):
            tool(live)
            tool(live)
            with agent(live):  # one too many, and open while its own tools end
                tool(live)
        assert live.flush()
        assert (live.pipeline.stats().seen, seen, reasons(live)) == (1, [], {"run_truncated": 1})


def test_a_run_that_was_given_up_is_lost_although_its_root_ends(judge: Any, seen: list[Run]) -> None:
    with Live(Rule(judge), limits={"max_age": 0.1}) as live:
        with agent(live):
            tool(live)
            eventually(lambda: live.pipeline.stats().ignored)
            tool(live)
        assert live.flush()
        stats = live.pipeline.stats()
    assert (stats.seen, stats.ignored, stats.losses) == (1, {"root_never_ended": 1}, {"span_late": 2})
    assert seen == []


@pytest.mark.parametrize("limit", [{"max_open_traces": 1}, {"max_bytes": 20_000}])
def test_a_run_that_made_room_is_lost_once_and_as_a_whole(
    judge: Any, seen: list[Run], limit: dict[str, int]
) -> None:
    """Its earlier spans were evicted while it went on: what comes later of it is late, and no run."""
    with Live(Rule(judge), limits=limit) as live:
        with agent(live):
            for _ in range(3):
                tool(live)
            empty = trace.set_span_in_context(trace.INVALID_SPAN)
            with live.tracer.start_as_current_span("invoke_agent", context=empty, attributes=AGENT):
                for _ in range(3):
                    tool(live, padding="x" * 8_000)
            time.sleep(0.05)
            for _ in range(3):
                tool(live)
        assert live.flush()
        stats = live.pipeline.stats()
    reason = "too_many_traces" if "max_open_traces" in limit else "too_many_bytes"
    assert (stats.seen, stats.ignored) == (2, {reason: 1})
    assert [len(run.tool_calls) for run in seen] == [3 if "max_open_traces" in limit else 6]
    assert stats.losses.get("span_late", 0) >= 1
    assert stats.check() == []


def test_a_run_some_of_whose_spans_were_refused_is_not_scored() -> None:
    """The intake was full when a tool ended; nothing is wrong with the runs of other traces."""
    with Live(Rule(answered), destinations=[]) as live:
        live.run()
        assert live.flush()
        backlog = live.pipeline.engine.thread.backlog
        with agent(live):
            before, backlog.capacity, backlog.free = (backlog.capacity, backlog.free), 0, 0
            tool(live)
            backlog.capacity, backlog.free = before
        live.run()
        assert live.flush()
        stats = live.pipeline.stats()
    assert (stats.rules["answered"].scored, stats.rules["answered"].not_scored) == (2, {"run_truncated": 1})
    assert stats.losses == {"intake_full": 1}


@scorer(version="1")
def answered(run: Run) -> bool:
    return bool(run.output)
