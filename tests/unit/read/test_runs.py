"""Spans of a trace become its runs: one per turn, whole, with nothing told twice."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from otel_evals import semconv
from otel_evals._internal.read.runs import find_runs, subruns
from otel_evals._internal.read.split_runs import SplitRuns, is_unfinished, join_split_runs
from otel_evals._internal.trust.keys import proof_of
from otel_evals.conventions import Conventions, load_conventions
from otel_evals.model import Operation, Run, SpanRecord, Usage
from tests.support.lines_run import lines_run

KNOWN_CONVENTIONS = load_conventions()


def span(
    number: int,
    parent: int | None = None,
    operation: str | None = None,
    /,
    *,
    start: int | None = None,
    **more: Any,
) -> SpanRecord:
    """A span whose attributes are given with `__` for `.`; times follow the number."""
    names = ("name", "end_time", "status", "scope_name", "trace_id", "logs", "events", "status_message")
    record = {name: more.pop(name) for name in names if name in more}
    attributes = {key.replace("__", "."): value for key, value in more.items()}
    if operation is not None:
        attributes["gen_ai.operation.name"] = operation
    begin = number * 10 if start is None else start
    defaults: dict[str, Any] = {"trace_id": "a" * 32, "end_time": begin + 5, "scope_name": "lib"}
    return SpanRecord(
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        start_time=begin,
        attributes=attributes,
        **{**defaults, **record},
    )


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def called(call_id: str | None, name: str = "search", **arguments: Any) -> dict[str, Any]:
    part = {"type": "tool_call", "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part if call_id is None else {**part, "id": call_id}]}


def got(call_id: str | None, result: Any) -> dict[str, Any]:
    part = {"type": "tool_call_response", "response": result}
    return {"role": "tool", "parts": [part if call_id is None else {**part, "id": call_id}]}


def chat(number: int, parent: int | None, inputs: list[Any], outputs: list[Any], **more: Any) -> SpanRecord:
    return span(
        number,
        parent,
        "chat",
        gen_ai__input__messages=json.dumps(inputs),
        gen_ai__output__messages=json.dumps(outputs),
        **more,
    )


def runs_of(*spans: SpanRecord) -> list[Run]:
    return find_runs(spans, KNOWN_CONVENTIONS)


USAGE = {"gen_ai__usage__input_tokens": 40, "gen_ai__usage__output_tokens": 10}


def test_unclaimed_spans_between_operations_are_bridged() -> None:
    spans = [span(1, None, "invoke_agent"), span(2, 1, name="SELECT"), chat(3, 2, [said("user", "Hi")], [])]
    (run,) = runs_of(*spans)
    assert run.children == {f"{1:016x}": (f"{3:016x}",)}


def test_links_stand_in_for_dropped_spans() -> None:
    root, dropped, call = span(1, None, "invoke_agent"), span(2, 1), chat(3, 2, [said("user", "Hi")], [])
    links = {call.span_id: root.span_id}
    assert find_runs([root, call], KNOWN_CONVENTIONS, links) == find_runs(
        [root, dropped, call], KNOWN_CONVENTIONS
    )
    assert len(find_runs([root, call], KNOWN_CONVENTIONS)) == 2  # without the link nobody knows


def test_every_agent_inside_is_a_run_of_its_own_on_request() -> None:
    (run,) = runs_of(
        span(1, None, "invoke_agent", gen_ai__agent__name="boss", end_time=100),
        span(2, 1, "execute_tool", gen_ai__tool__name="ask_helper"),
        span(3, 2, "invoke_agent", gen_ai__agent__name="helper"),
        chat(4, 3, [said("user", "sub question")], [said("assistant", "sub answer")], **USAGE),
    )
    boss, helper = subruns(run)
    assert boss is run
    assert (helper.agent_name, helper.input, helper.output) == ("helper", "sub question", "sub answer")
    assert helper.usage == run.usage == Usage(input_tokens=40, output_tokens=10)
    assert [o.span_id for o in helper.operations] == [f"{3:016x}", f"{4:016x}"]


def test_a_tool_is_told_once_though_span_and_messages_tell_it() -> None:
    asked = said("user", "Hi")
    (run,) = runs_of(
        span(1, None, "invoke_agent", end_time=100),
        chat(2, 1, [asked], [called("c1", q=1)]),
        span(3, 1, "execute_tool", gen_ai__tool__name="search", gen_ai__tool__call__id="c1"),
        chat(4, 1, [asked, called("c1", q=1), got("c1", {"n": 2})], [said("assistant", "done")]),
    )
    (call,) = run.tool_calls
    assert (call.id, call.arguments, call.result, call.source) == ("c1", {"q": 1}, {"n": 2}, "both")
    assert call.span_id == f"{3:016x}"


def roots(count: int) -> list[SpanRecord]:
    return [span(n, None, "invoke_agent") for n in range(1, count)]


def parallel_tools(count: int, kind: str = "INTERNAL") -> list[SpanRecord]:
    arguments = {"gen_ai__tool__call__arguments": '{"q": 1}'}
    tools = [
        replace(
            span(n, 1, "execute_tool", gen_ai__tool__name="search", **arguments, end_time=10**6), kind=kind
        )
        for n in range(2, count)
    ]
    return [span(1, None, "invoke_agent", end_time=10**6), *tools]


def nested_tools(count: int) -> list[SpanRecord]:
    tools = (span(n, n - 1, "execute_tool", gen_ai__tool__name=f"t{n}") for n in range(2, count))
    return [span(1, None, "invoke_agent", end_time=10**6), *tools]


def calls_of_one_message(count: int) -> list[SpanRecord]:
    calls = [{"role": "assistant", "parts": [called(None, q=n)["parts"][0] for n in range(count)]}]
    return [
        span(1, None, "invoke_agent", end_time=10**6),
        chat(2, 1, [said("user", "Hi")], calls),
        *(
            span(
                *(n, 1, "execute_tool"),
                gen_ai__tool__name="search",
                gen_ai__tool__call__arguments=json.dumps({"q": n}),
            )
            for n in range(3, count)
        ),
    ]


@pytest.mark.parametrize(
    "shape",
    [
        roots,
        parallel_tools,
        lambda count: parallel_tools(count, "SERVER"),
        nested_tools,
        calls_of_one_message,
    ],
    ids=["roots", "tools", "servers", "nested tools", "calls of one message"],
)
def test_reading_takes_time_linear_in_the_number_of_spans(shape: Callable[[int], list[SpanRecord]]) -> None:
    def lines(count: int) -> int:
        spans = shape(count)
        return lines_run(lambda: [run.tool_calls for run in find_runs(spans, KNOWN_CONVENTIONS)])

    assert lines(400) < 5 * lines(100)


def test_a_turn_scattered_over_traces_is_joined() -> None:
    asked = said("user", "Hi")
    first = chat(1, None, [asked], [called("c1", q=1)], trace_id="b" * 32)
    second = chat(
        2, None, [asked, called("c1", q=1), got("c1", "r")], [said("assistant", "done")], trace_id="c" * 32
    )
    other = chat(3, None, [asked], [called("c9", q=1)], trace_id="d" * 32)
    traces = [find_runs([s], KNOWN_CONVENTIONS) for s in (second, other, first)]
    assert is_unfinished(traces[2][0])
    assert not is_unfinished(traces[0][0])
    other_run, joined = sorted(
        join_split_runs(r for runs in traces for r in runs), key=lambda r: -len(r.trace_id)
    )
    if len(joined.trace_ids) == 1:
        other_run, joined = joined, other_run
    assert joined.trace_ids == ("b" * 32, "c" * 32)
    assert (joined.input, joined.output, joined.tool_calls[0].result) == ("Hi", "done", "r")
    assert other_run.output is None


def closed_one_by_one(spans: list[SpanRecord], turns: SplitRuns) -> list[Run]:
    """The spans as a live pipeline meets them: each model call closes by itself."""
    return [
        done for s in spans for run in find_runs([s], KNOWN_CONVENTIONS) for done in turns.add(run, now=0.0)
    ]


def test_a_turn_that_closes_call_by_call_is_the_run_that_a_file_gives() -> None:
    asked = said("user", "Hi")
    spans = [
        chat(2, 1, [asked], [called("c1", q=1)]),
        chat(3, 1, [asked, called("c1", q=1), got("c1", "r")], [called("c2", q=2)]),
        chat(
            4, 1, [asked, called("c1", q=1), got("c1", "r"), called("c2", q=2)], [said("assistant", "done")]
        ),
    ]
    assert closed_one_by_one(spans, SplitRuns()) == find_runs(
        [span(1, None, name="app"), *spans], KNOWN_CONVENTIONS
    )


def test_a_turn_that_never_goes_on_is_let_go() -> None:
    turns = SplitRuns(patience=5.0, window=2)
    spans = [chat(n, None, [said("user", str(n))], [called(f"c{n}")]) for n in range(1, 5)]
    assert [r.input for r in closed_one_by_one(spans, turns)] == ["1", "2"]
    assert turns.due(4.9) == []
    assert [r.input for r in turns.due(5.0)] == ["3", "4"]
    assert turns.flush() == []
    answered = chat(9, None, [said("user", "Hi")], [said("assistant", "Hello")])
    assert [r.output for r in closed_one_by_one([answered], turns)] == ["Hello"]


def test_joining_holds_no_more_runs_than_its_window() -> None:
    spans = [
        chat(n, None, [said("user", str(n))], [called(f"c{n}")], trace_id=f"{n:032x}") for n in range(1, 40)
    ]
    runs = [run for s in spans for run in find_runs([s], KNOWN_CONVENTIONS)]
    assert [r.input for r in join_split_runs(iter(runs), window=5)] == [str(n) for n in range(1, 40)]


def test_what_we_made_ourselves_is_never_read() -> None:
    hi = [said("user", "Hi")]
    assert runs_of(span(1, None, "invoke_agent", scope_name=semconv.SCOPE_NAME), chat(2, 1, hi, hi)) == []
    marked = span(1, None, "invoke_agent", otel_evals__internal=True)
    assert runs_of(marked, span(2, 1), chat(3, 2, hi, hi)), "anyone can write the mark"
    for proof, runs in ((proof_of(marked.trace_id, marked.span_id), 0), (proof_of("b" * 32, "f" * 16), 1)):
        proven = replace(marked, attributes={**marked.attributes, semconv.MARK_PROOF: proof})
        assert len(runs_of(proven, span(2, 1), chat(3, 2, hi, hi))) == runs


@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "children first"])
def test_the_work_for_nested_agents_grows_with_their_number(backwards: bool) -> None:
    """Counted in lines of Python, for twice as many agents; each level is a run of its own."""

    def lines(count: int) -> int:
        starts = range(count, 0, -1) if backwards else range(count)
        agents = [span(n + 1, n or None, "invoke_agent", start=start) for n, start in enumerate(starts)]
        parts: list[Run] = []

        def work() -> None:
            (run,) = find_runs(agents, KNOWN_CONVENTIONS)
            parts.extend(subruns(run))

        counted = lines_run(work)
        assert len(parts) == 100
        return counted

    assert lines(800) < 2.2 * lines(400)


def test_the_order_of_spans_does_not_matter() -> None:
    spans = [
        span(1, None, "invoke_agent", end_time=100),
        chat(2, 1, [said("user", "Hi")], [called("c1", q=1)]),
        span(3, 1, "execute_tool", gen_ai__tool__name="search", gen_ai__tool__call__id="c1"),
        chat(4, 1, [said("user", "Hi"), called("c1", q=1), got("c1", "r")], [said("assistant", "done")]),
    ]
    expected = runs_of(*spans)
    for seed in range(10):
        random.Random(seed).shuffle(spans)
        assert runs_of(*spans, *spans[:2]) == expected


class Broken:
    """A convention of somebody else's that raises."""

    name = "broken"
    scopes = ("broken",)
    markers = ()

    def read(self, span: SpanRecord) -> Operation | None:
        raise RuntimeError("boom")


def test_a_convention_that_raises_does_not_take_the_trace_down() -> None:
    conventions = Conventions([Broken(), *KNOWN_CONVENTIONS])
    spans = [
        span(1, None, "invoke_agent"),
        span(2, 1, scope_name="broken"),
        chat(3, 2, [said("user", "Hi")], []),
    ]
    (run,) = find_runs(spans, conventions)
    assert run.input == "Hi"
