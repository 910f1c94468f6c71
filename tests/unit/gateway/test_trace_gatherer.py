"""Received spans, in whatever order, become complete traces within bounds."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals._internal.capture.items import CapturedLog, IntakeItem, RecordedSpan, UnclaimedSpan
from otel_evals._internal.gather.gatherer import AssemblyLimits, SpanGroup
from otel_evals.model import Loss, SpanEvent, SpanRecord
from otel_evals_gateway._internal.closed_spans import ClosedSpans
from otel_evals_gateway._internal.trace_gatherer import (
    LostItems,
    SourceClocks,
    SourceItems,
    TraceGatherer,
)

TRACE = "a" * 32


def gatherer(room: Callable[[], float] = lambda: inf, **limits: Any) -> TraceGatherer:
    given = {"grace": 0.0, "max_age": 600.0, "max_traces": 100, "max_spans_per_trace": 50, "max_bytes": 10**9}
    return TraceGatherer(
        AssemblyLimits(**{**given, **limits}),
        quiet=5.0,
        idle=30.0,
        opens_run=lambda span: span.name == "agent",
        room=room,
    )


def span(
    number: int, parent: int | None = None, *, trace: str = TRACE, name: str = "chat", start: float = 0.0
) -> RecordedSpan:
    above = None if parent is None else f"{parent:016x}"
    begun = int(start * 1e9)
    record = SpanRecord(
        trace_id=trace, span_id=f"{number:016x}", parent_span_id=above, name=name, start_time=begun
    )
    return RecordedSpan(record, 0)


def link(number: int, parent: int | None = None, *, trace: str = TRACE) -> UnclaimedSpan:
    return UnclaimedSpan(trace, f"{number:016x}", None if parent is None else f"{parent:016x}")


def ids(group: SpanGroup) -> set[int]:
    return {int(each.span_id, 16) for each in group.spans}


def open_spans(traces: TraceGatherer) -> int:
    """How many spans wait for their traces to be complete."""
    return sum(map(traces.waiting, traces.open_traces))


def test_a_trace_with_its_root_closes_when_it_is_quiet() -> None:
    traces = gatherer()
    traces.add([span(2, 1)], 0.0)
    traces.add([span(1)], 3.0)
    assert traces.next_close == 8.0
    assert traces.close_due(7.9) == []
    traces.add([span(3, 1)], 7.0)
    assert traces.close_due(8.0) == []
    (group,) = traces.close_due(12.0)
    assert ids(group) == {1, 2, 3}
    assert open_spans(traces) == 0
    assert traces.close_due(30.0) == []
    assert traces.next_close == inf


def test_a_trace_without_its_root_waits_until_it_is_idle() -> None:
    traces = gatherer()
    traces.add([span(2, 1)], 0.0)
    assert traces.close_due(29.9) == []
    (group,) = traces.close_due(30.0)
    assert ids(group) == {2}


def test_a_trace_is_quiet_by_the_clock_of_its_source() -> None:
    """The source is behind: what it has read by 200 s are the messages up to 6 s, then up to 10.5 s."""
    traces = gatherer()
    traces.add([SourceClocks({"a": 2.0}), SourceItems("a", 2.0), span(1), SourceItems()], 100.0)
    assert traces.close_due(150.0) == []
    traces.add([SourceItems("a", 5.5), span(2, 1), SourceItems(), SourceClocks({"a": 6.0})], 200.0)
    assert traces.close_due(210.0) == []
    traces.add([SourceClocks({"a": 10.5})], 211.0)
    (group,) = traces.close_due(212.0)
    assert ids(group) == {1, 2}


def test_only_the_traces_of_a_source_that_is_behind_wait_for_it() -> None:
    traces = gatherer()
    traces.add([SourceItems("a", 2.0), span(1), SourceItems("b", 99.0), span(2, trace="c" * 32)], 100.0)
    traces.add([SourceItems(), span(3, trace="b" * 32), SourceClocks({"a": 2.0, "b": 104.0})], 100.0)
    assert [ids(group) for group in traces.close_due(105.0)] == [{2}, {3}]
    assert open_spans(traces) == 1


def test_a_trace_of_several_sources_waits_for_each() -> None:
    traces = gatherer()
    traces.add([SourceItems("a", 2.0), span(1), SourceItems("b", 2.0), span(2, 1)], 100.0)
    traces.add([SourceClocks({"a": 90.0, "b": 3.0})], 100.0)
    assert traces.close_due(105.0) == []
    traces.add([SourceClocks({"a": 90.0, "b": 90.0})], 100.0)
    assert [ids(group) for group in traces.close_due(106.0)] == [{1, 2}]


def test_a_source_that_was_lost_and_came_back_starts_again() -> None:
    """Its clock of before is of no use: another reader may have left it further behind."""
    traces = gatherer()
    traces.add([SourceClocks({"a": 90.0}), SourceClocks({})], 100.0)
    traces.add([SourceItems("a", 2.0), span(1)], 100.0)
    assert traces.close_due(110.0) == []


def test_late_and_repeated_spans_of_runs_that_another_process_judged_start_no_run() -> None:
    traces = gatherer()
    traces.add([SourceItems(finished=True), span(2, 1), span(3, 2), SourceItems()], 0.0)
    assert (open_spans(traces), traces.close_due(100.0)) == (0, [])
    assert [loss.reason for loss in traces.add([span(2, 1)], 100.0).losses] == ["span_repeated"]
    late = traces.add([span(1), span(4, 3), span(5, 4)], 100.0).late
    assert [record.span_id[-1] for record, _ in late] == ["1", "4", "5"], "the root, and what is below"
    traces.add([span(6, 9)], 100.0)
    assert open_spans(traces) == 1, "another run of the trace"


def test_complete_traces_stay_open_while_there_is_no_room_to_judge_them() -> None:
    room = [0.0]
    traces = gatherer(room=lambda: room[0])
    for number in range(1, 6):
        traces.add([span(number, trace=f"{number:032x}")], 0.0)
    assert traces.close_due(10.0) == []
    assert traces.next_close > 10.0, "the engine must not spin"
    room[0] = 2.0
    assert len(traces.close_due(11.0)) == 2
    assert len(traces.close_due(inf)) == 2
    room[0] = inf
    assert len(traces.close_due(inf)) == 1


def test_spans_of_judged_runs_are_remembered_for_the_time_and_number_that_are_set() -> None:
    closed = ClosedSpans(10.0, 100)
    for number in range(40):
        closed.add(TRACE, f"{number:016x}", True, 1.0)
    closed.add(TRACE, "ff" * 8, False, 11.5)
    found = [closed.get(TRACE, each) for each in (f"{5:016x}", "ff" * 8, "ee" * 8)]
    assert found == [True, False, None]
    assert closed.get("b" * 32, f"{5:016x}") is None, "a span of the same id in another trace"
    closed.add(TRACE, "ee" * 8, True, 22.0)
    assert closed.get(TRACE, f"{5:016x}") is None
    assert closed.forgotten == 0
    for number in range(1_000):
        closed.add(TRACE, f"{number:016x}", True, 23.0)
    assert len(closed) <= 100
    assert closed.forgotten > 0


def test_a_trace_that_is_let_go_of_is_gathered_anew() -> None:
    traces = gatherer()
    traces.add([span(2, 1), link(9, trace="c" * 32)], 0.0)
    traces.forget([TRACE, "c" * 32, "d" * 32])
    assert (traces.open_traces, traces.size) == (set(), (0, 0))
    gathered = traces.add([span(2, 1), span(1)], 1.0)
    assert (gathered.losses, gathered.late) == ([], [])
    (group,) = traces.close_due(40.0)
    assert ids(group) == {1, 2}


def test_a_root_that_no_dialect_claims_ends_the_trace_too_and_links_lead_through_it() -> None:
    traces = gatherer()
    traces.add([span(3, 2), link(2, 1), span(1)], 0.0)
    traces.add([link(9)], 0.0)
    (group,) = traces.close_due(5.0)
    assert ids(group) == {1, 3}
    assert group.links == {f"{2:016x}": f"{1:016x}", f"{9:016x}": None}


def test_unclaimed_spans_alone_are_nothing_to_judge() -> None:
    traces = gatherer()
    traces.add([link(1), link(2, 1)], 0.0)
    assert traces.close_due(inf) == []
    assert traces.end(()) == []
    assert traces.waiting(TRACE) == 0


def test_a_span_that_links_connect_with_a_closed_run_is_late() -> None:
    """The trace is open again, and the links arrived before the run they lead to was known."""
    traces = gatherer()
    traces.add([span(1)], 0.0)
    traces.close_due(5.0)
    traces.add([span(7, 8), link(3, 2), link(2, 1)], 6.0)
    assert [record.span_id for record, _ in traces.add([span(4, 3)], 6.0).late] == [f"{4:016x}"]


def test_late_spans_are_told_from_repeated_ones_and_from_new_runs() -> None:
    traces = gatherer()
    traces.add([span(1, 100), span(2, 1)], 0.0)
    assert len(traces.close_due(30.0)) == 1
    again = traces.add([span(2, 1)], 31.0)
    assert [loss.reason for loss in again.losses] == ["span_repeated"]
    late = traces.add([span(3, 2), span(100)], 31.0)
    assert [record.span_id for record, _ in late.late] == [f"{3:016x}", f"{100:016x}"]
    new = traces.add([span(200, 300)], 31.0)
    assert (new.late, new.losses) == ([], [])
    (group,) = traces.close_due(61.0)
    assert ids(group) == {200}


def test_a_span_that_ended_is_not_replaced_by_another_with_its_ids() -> None:
    """Whoever knows the ids of a run could replace its spans otherwise."""
    traces = gatherer()
    ids_of = {"trace_id": TRACE, "span_id": f"{1:016x}"}
    first, forged = (
        RecordedSpan(SpanRecord(**ids_of, end_time=end, attributes=attributes), 0)
        for end, attributes in ((9, {"said": "no"}), (8, {"said": "yes", "more": 1}))
    )
    begun = RecordedSpan(SpanRecord(**ids_of, attributes={"said": "not yet"}), 0)
    losses = traces.add([begun, first, forged, begun], 0.0).losses
    assert [loss.reason for loss in losses] == ["span_repeated", "span_repeated"]
    (group,) = traces.close_due(5.0)
    assert [span.attributes for span in group.spans] == [{"said": "no"}]


def test_a_span_id_of_another_trace_is_no_repeated_span() -> None:
    traces = gatherer()
    traces.add([span(1)], 0.0)
    assert len(traces.close_due(5.0)) == 1
    assert traces.add([span(1, trace="b" * 32)], 6.0).losses == []


def test_log_records_join_their_span_whichever_comes_first() -> None:
    traces = gatherer()
    early, later = SpanEvent(name="early", time=1), SpanEvent(name="later", time=2)
    number = int(TRACE, 16)
    traces.add([CapturedLog(number, 1, later), span(1), CapturedLog(number, 1, early)], 0.0)
    (group,) = traces.close_due(5.0)
    assert group.spans[0].logs == (early, later)
    gathered = traces.add([CapturedLog(number, 1, later)], 6.0)
    assert [loss.reason for loss in gathered.losses] == ["log_late"]


def test_a_trace_that_goes_on_for_hours_is_kept_and_its_ended_agents_are_judged() -> None:
    """A session's span lasts all day; below it an agent ran and ended, and another one is at work."""
    traces = gatherer(max_age=100.0)
    traces.add([span(10, 1, name="agent"), span(11, 10)], 0.0)
    closed: list[set[int]] = []
    for second in range(10, 300, 10):
        traces.add([span(1_000 + second, 20)], float(second))
        closed += [ids(group) for group in traces.close_due(float(second))]
    assert closed == [{10, 11}]
    assert open_spans(traces) == 29
    (rest,) = traces.close_due(1_000.0)
    assert len(rest.spans) == 29


def test_bounds_evict_the_oldest_and_count_them() -> None:
    traces = gatherer(max_traces=2)
    gathered = [traces.add([span(n, 9, trace=f"{n:032x}")], 0.0) for n in (1, 2, 3)]
    assert [loss.reason for each in gathered for loss in each.losses] == ["too_many_traces"]
    assert traces.waiting(f"{1:032x}") == 0
    several = gatherer(max_traces=1)
    several.add([span(1, 9), span(2, 8), span(3, 2)], 0.0)
    (loss,) = several.add([span(1, 9, trace="b" * 32)], 0.0).losses
    assert (loss.trace_id, loss.count) == (TRACE, 2), "its runs, one below each missing parent"
    large = gatherer(max_bytes=900)
    large.add([span(1, 9, trace=f"{1:032x}")], 0.0)
    assert [x.reason for x in large.add([span(2, 9, trace=f"{2:032x}")], 0.0).losses] == ["too_many_bytes"]


def test_a_trace_with_its_root_is_never_evicted_and_others_make_room() -> None:
    traces = gatherer(max_traces=4)
    order = [span(1, trace=f"{1:032x}"), *(span(n, 99, trace=f"{n:032x}") for n in range(2, 30))]
    order += [span(n, n + 100, trace=f"{n:032x}") for n in range(30, 40)]
    order += [span(n + 100, trace=f"{n:032x}") for n in range(37, 40)]  # the roots of the newest
    gathered = traces.add(order, 0.0)
    reasons = [loss.reason for loss in gathered.losses]
    assert reasons == ["too_many_traces"] * 35
    assert (traces.size[0], traces.rooted[0]) == (4, 4)
    traces.add([span(50, 99, trace=f"{50:032x}")], 1.0)
    traces.add([span(51, 99, trace=f"{51:032x}"), span(99, trace=f"{51:032x}")], 1.0)
    assert (traces.size[0], traces.rooted[0]) == (5, 5), "the one whose root came stays, the other does not"


def test_runs_that_lack_items_without_room_say_so() -> None:
    traces = gatherer()
    log = CapturedLog(3, 3, SpanEvent(name="said", time=1))
    lost: list[Any] = [span(2, 1), link(7, 6, trace=f"{2:032x}"), log]
    traces.add([span(1), LostItems(lost), *(span(n, trace=f"{n:032x}") for n in (2, 3, 4))], 0.0)
    dropped = {g.spans[0].trace_id: g.spans[0].spans_dropped for g in traces.close_due(5.0)}
    assert dropped == {TRACE: True, f"{2:032x}": True, f"{3:032x}": True, f"{4:032x}": False}


def test_a_trace_of_too_many_spans_keeps_its_root() -> None:
    traces = gatherer(max_spans_per_trace=3)
    gathered = traces.add([span(n, 1) for n in range(2, 8)] + [span(1)], 0.0)
    assert [loss.reason for loss in gathered.losses] == ["span_limit_per_trace"] * 3
    (group,) = traces.close_due(5.0)
    assert ids(group) == {1, 2, 3, 4}


def test_a_trace_that_has_too_much_already_is_not_idle_while_more_of_it_arrives() -> None:
    traces = gatherer(max_spans_per_trace=2)
    traces.add([span(2, 1), span(3, 1)], 0.0)
    for second in range(10, 100, 10):
        more = CapturedLog(int(TRACE, 16), 2, SpanEvent(name="said", time=1))
        traces.add([span(second, 1)] if second < 50 else [more] * 2, float(second))
        assert traces.close_due(float(second)) == []
    traces.add([span(1)], 100.0)
    (group,) = traces.close_due(105.0)
    assert ids(group) == {1, 2, 3}


def test_at_the_end_what_has_its_root_closes_and_the_rest_is_counted_or_kept() -> None:
    for keeps in (False, True):
        traces = gatherer()
        traces.keeps_open = keeps
        traces.add([span(1), span(2, 9, trace="b" * 32)], 0.0)
        assert [ids(group) for group in traces.close_due(inf)] == [{1}]
        lost = [loss.reason for loss in traces.end(())]
        assert lost == ([] if keeps else ["root_not_ended_at_shutdown"])
        assert open_spans(traces) == 0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12), st.booleans(), st.integers(0, 40))))
def test_every_claimed_span_ends_in_one_group_or_is_counted(
    arrivals: list[tuple[int, int, bool, int]],
) -> None:
    """Whatever order, cycles, repetitions and pauses: each accepted span closes once, none is forgotten."""
    traces = gatherer(max_traces=3, max_spans_per_trace=4)
    now, put, counted, closed = 0.0, 0, 0, []
    for number, parent, claimed, pause in arrivals:
        now += pause
        above = parent or None
        trace = f"{number % 5 + 1:032x}"
        item: IntakeItem = span(number, above, trace=trace) if claimed else link(number, above, trace=trace)
        before = open_spans(traces)
        gathered = traces.add([item], now)
        if claimed:
            put += 1
            counted += len(gathered.late)
            counted += sum(loss.count for loss in gathered.losses if loss.what == "span")
            evicted = any(loss.what == "run" for loss in gathered.losses)
            repeated = open_spans(traces) == before and not gathered.late and not gathered.losses
            counted += repeated  # it replaced the one that was there
            if evicted:
                counted += before + 1 - open_spans(traces)
        closed += [each.span_id for group in traces.close_due(now) for each in group.spans]
        assert traces.size[0] <= max(3, traces.rooted[0] + 1)
    closed += [each.span_id for group in traces.close_due(now + 1_000) for each in group.spans]
    assert (open_spans(traces), traces.size, traces.rooted) == (0, (0, 0), (0, 0))
    assert put == counted + len(closed)


def test_late_children_of_spans_beyond_the_limit_are_late_and_no_trace_of_their_own() -> None:
    traces = gatherer(max_spans_per_trace=3)
    traces.add([span(1), *(span(number, 1) for number in range(2, 20))], 0.0)
    (group,) = traces.close_due(5.0)
    assert ids(group) == {1, 2, 3}
    gathered = traces.add([span(100 + number, number) for number in range(2, 20)], 6.0)
    assert len(gathered.late) == 18
    assert open_spans(traces) == 0


def test_what_was_never_taken_counts_as_lost_at_the_end() -> None:
    traces = gatherer()
    traces.add([span(2, 1)], 0.0)
    lost = traces.end([span(1), span(1, trace="c" * 32)])
    assert {loss.trace_id: loss.count for loss in lost} == {TRACE: 1, "c" * 32: 1}


def test_a_trace_that_had_too_many_spans_says_so_on_each() -> None:
    some = gatherer(max_spans_per_trace=2)
    losses = [loss for n in range(2, 6) for loss in some.add([span(n, parent=1)], 0.0).losses]
    some.add([span(1)], 0.0)
    (group,) = some.close_due(inf)
    assert [loss.reason for loss in losses] == ["span_limit_per_trace"] * 2
    assert all(record.spans_dropped for record in group.spans)


def test_log_records_and_places_count_as_bytes_too() -> None:
    some = gatherer(max_bytes=100_000)
    some.add([span(1)], 0.0)
    log = SpanEvent(name="e", body="x" * 60_000)
    losses = some.add([CapturedLog(int(TRACE, 16), 1, log), CapturedLog(int(TRACE, 16), 1, log)], 0.0).losses
    assert [(loss.what, loss.reason) for loss in losses] == [("run", "too_many_bytes")]
    assert some.size == (0, 0)


def test_traces_without_a_claimed_span_are_bounded_in_bytes() -> None:
    some = gatherer(max_bytes=100_000)
    log = SpanEvent(name="e", body="x" * 60_000)
    for number in range(1, 6):
        some.add([CapturedLog(number, number, log)], float(number))
    assert some.open_traces == {f"{5:032x}"}
    some.add([span(5, trace=f"{5:032x}")], 6.0)
    assert some.size[1] > 60_000  # its log record waits with it


def test_what_comes_of_an_evicted_trace_is_late() -> None:
    """Its run is lost, once: what is left of it would be judged as if it were the whole."""
    some = gatherer(max_traces=1)
    some.add([span(1, parent=9)], 0.0)
    assert [loss.reason for loss in some.add([span(2, 9, trace=f"{2:032x}")], 1.0).losses] == [
        "too_many_traces"
    ]
    late = some.add([span(9)], 2.0).losses
    assert [(loss.what, loss.reason, loss.count) for loss in late] == [("span", "span_late", 1)]
    assert [s.span_id for group in some.close_due(31.0) for s in group.spans] == [f"{2:016x}"]


def test_an_item_that_cannot_be_read_is_a_loss_of_its_kind() -> None:
    broken: list[Any] = [CapturedLog(1, 10, None), RecordedSpan(None, 0)]  # type: ignore[arg-type]  # broken
    gathered = gatherer().add([*broken, span(1)], 0.0)
    assert gathered.losses == [Loss("log", "log_unreadable", ""), Loss("span", "span_unreadable", "")]


def test_very_many_complete_traces_are_closed_in_parts() -> None:
    """So that whoever judges them has a moment for other things; at the end, all at once."""
    some = gatherer(max_traces=10_000)
    for number in range(1, 1_001):
        some.add([span(number, trace=f"{number:032x}")], 0.0)
    counts = []
    while some.next_close <= 10.0:
        counts.append(len(some.close_due(10.0)))
    assert sum(counts) == 1_000
    assert max(counts) <= 256
    for number in range(2_001, 3_001):
        some.add([span(number, trace=f"{number:032x}")], 0.0)
    assert len(some.close_due(inf)) == 1_000
