"""Each pass from spans to runs, alone; a pass without work returns the trace as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_evals import semconv
from otel_evals._internal.read import passes
from otel_evals._internal.read.passes import Trace
from otel_evals.model import SpanRecord
from tests.support.trace_builder import KNOWN_CONVENTIONS

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c"}
QUESTION = '[{"role": "user", "content": "%s?"}]'
ANSWER = '[{"role": "assistant", "content": "%s of course."}]'


def span(
    number: int, parent: int | None, attributes: dict[str, Any] | None = None, **more: Any
) -> SpanRecord:
    times = {"start_time": number * 10, "end_time": 1_000 if parent is None else number * 10 + 5}
    return SpanRecord(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        attributes=attributes or {},
        **{**times, **more},
    )


def linked(*spans: SpanRecord) -> Trace:
    return passes.link(passes.drop_ours(passes.collect(spans, None)), KNOWN_CONVENTIONS)


def ids(operations: Any) -> list[int]:
    return [int(operation.span_id, 16) for operation in operations]


def test_collect_keeps_the_most_complete_of_equal_spans() -> None:
    trace = passes.collect(
        [span(1, None, end_time=None), span(1, None, MODEL), span(2, 1)], {f"{2:016x}": None}
    )
    assert [record.attributes for record in trace.records.values()] == [MODEL, {}]
    assert trace.parents[f"{2:016x}"] is None


def test_drop_ours_drops_evaluations_with_all_inside_them() -> None:
    spans = span(1, None, AGENT), span(2, 1, MODEL, scope_name=semconv.SCOPE_NAME), span(3, 2, MODEL)
    trace = passes.drop_ours(passes.collect(spans, None))
    assert trace.ours == {f"{2:016x}"}
    assert list(passes.link(trace, KNOWN_CONVENTIONS).tree.operations) == [f"{1:016x}"]


def test_link_bridges_spans_that_are_no_operations() -> None:
    tree = linked(span(1, None, AGENT), span(2, 1), span(3, 2, MODEL)).tree
    assert tree.below == {f"{1:016x}": (f"{3:016x}",)}


def test_roots_are_outermost_agents_and_the_rest_is_loose() -> None:
    trace = passes.roots(linked(span(1, None), span(2, 1, AGENT), span(3, 2, AGENT), span(4, 1, MODEL)))
    assert (ids(trace.roots), ids(trace.loose)) == ([2], [4])


def test_adopt_loose_gives_what_is_below_lost_spans_to_the_only_agent() -> None:
    trace = passes.roots(linked(span(1, None, AGENT), span(2, 1, MODEL), span(3, 77, TOOL)))
    adopted = passes.adopt_loose(trace)
    assert ids(trace.loose) == [3]
    assert ids(adopted.loose) == []
    assert adopted.tree.above[f"{3:016x}"] == f"{1:016x}"
    assert trace.tree.above[f"{3:016x}"] is None, "the trace before is as it was"


def test_drop_foreign_tools_drops_calls_that_were_asked_for_elsewhere() -> None:
    lone = passes.roots(linked(span(1, None, TOOL)))
    assert ids(passes.drop_foreign_tools(lone).loose) == []
    with_model = passes.roots(linked(span(1, None, TOOL), span(2, 1, MODEL)))
    assert ids(passes.drop_foreign_tools(with_model).loose) == [2]


def test_split_groups_makes_each_invocation_below_an_application_span_a_run() -> None:
    workflow = {"traceloop.span.kind": "workflow"}
    spans = [span(1, None, workflow, scope_name="traceloop.tracer")]
    for number, words in ((2, "one"), (3, "two")):
        messages = {"gen_ai.input.messages": QUESTION % words, "gen_ai.output.messages": ANSWER % words}
        spans.append(span(number, 1, AGENT | messages))
    trace = passes.split_groups(passes.roots(linked(*spans)))
    assert [(ids([g.root]), g.part_of is not None) for g in trace.groups] == [([2], True), ([3], True)]


def test_group_turns_makes_each_turn_of_model_calls_a_run() -> None:
    one, two = ({"gen_ai.input.messages": QUESTION % words} for words in ("one", "two"))
    trace = passes.roots(linked(span(1, None), span(2, 1, MODEL | one), span(3, 1, MODEL | two)))
    assert [ids(group.members) for group in passes.group_turns(trace).groups] == [[2], [3]]


@pytest.mark.parametrize(
    "step", [passes.drop_ours, passes.adopt_loose, passes.drop_foreign_tools, passes.group_turns]
)
def test_a_pass_without_work_changes_nothing(step: Callable[[Trace], Trace]) -> None:
    trace = passes.roots(linked(span(1, None, AGENT), span(2, 1, MODEL)))
    assert step(trace) is trace
