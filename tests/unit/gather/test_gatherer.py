"""Spans in whatever order become the spans of complete runs, within bounds, in process and in the gateway."""

from __future__ import annotations

import json
from collections import Counter
from math import inf
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_evals._internal.capture.items import CapturedLog, IntakeItem, OpenSpans, RecordedSpan, UnclaimedSpan
from otel_evals._internal.gather.closing import AssemblyLimits, QuietClosing
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.gather.traces import LiveClosing
from otel_evals._internal.model.spans import size_of_span
from otel_evals.model import Loss, SpanEvent, SpanRecord
from tests.support.lines_run import lines_run

DEFAULTS = {
    "grace": 0.5,
    "max_age": 600.0,
    "max_traces": 10_000,
    "max_spans_per_trace": 2_000,
    "max_bytes": 256 * 1024 * 1024,
}
QUIET, IDLE = 5.0, 30.0


def limits_of(limits: dict[str, Any]) -> AssemblyLimits:
    return AssemblyLimits(**{**DEFAULTS, **limits})


def live(**limits: Any) -> Gatherer:
    return Gatherer(limits_of(limits), LiveClosing(limits_of(limits)))


def gateway(*, capacity: Any = lambda: inf, remember_bytes: int = 10**6, **limits: Any) -> Gatherer:
    given = limits_of(limits)
    closing = QuietClosing(
        QUIET, IDLE, given.max_age, lambda span: span.name == "agent", remember_bytes=remember_bytes
    )
    return Gatherer(given, closing, capacity=capacity)


def span(
    number: int,
    parent: int | None = None,
    *,
    trace: int = 1,
    owner: int = 0,
    name: str = "chat",
    long: int = 0,
    start: int = 1,
) -> RecordedSpan:
    record = SpanRecord(
        trace_id=f"{trace:032x}",
        span_id=f"{number:016x}",
        parent_span_id=f"{parent:016x}" if parent else None,
        name=name,
        attributes={"text": "x" * long} if long else {},
        start_time=start,
        end_time=start + 1,
    )
    return RecordedSpan(record, owner)


def below(number: int, owner: int, **more: Any) -> RecordedSpan:
    """A span below a claimed one that is open."""
    return span(number, owner, owner=owner, **more)


def link(number: int, parent: int | None = None, *, trace: int = 1) -> UnclaimedSpan:
    return UnclaimedSpan(f"{trace:032x}", f"{number:016x}", f"{parent:016x}" if parent else None)


def log(number: int, *, name: str = "said", trace: int = 1, body: Any = None, time: int = 1) -> CapturedLog:
    return CapturedLog(trace, number, SpanEvent(name=name, body=body, time=time))


def ids(group: SpanGroup) -> set[int]:
    return {int(each.span_id, 16) for each in group.spans}


def closed(gatherer: Gatherer, now: float) -> list[set[int]]:
    return [ids(group) for group in gatherer.close_due(now)]


def reasons(losses: list[Loss]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for loss in losses:
        counts[loss.reason] += loss.count
    return counts


# --- in process ---


def test_a_run_closes_after_its_grace_and_later_spans_are_late() -> None:
    gatherer = live()
    gatherer.add([span(10)], 0.0)
    assert closed(gatherer, 0.4) == []
    gatherer.add([span(11, 10)], 0.4)
    assert closed(gatherer, 0.5) == [{10, 11}]
    assert reasons(gatherer.add([span(12, 10), span(13, 12), span(10)], 0.6)) == {
        "span_late": 2,
        "span_repeated": 1,
    }
    assert closed(gatherer, 9.0) == []


class Opened:
    """A gatherer in process that knows which spans are open."""

    def __init__(self) -> None:
        spans, limits = OpenSpans(), limits_of({})
        self.open = spans.by_id
        self.gatherer = Gatherer(limits, LiveClosing(limits, spans))

    def start(self, above: Any = None) -> tuple[Any, int, int]:
        tracer = TracerProvider().get_tracer("app")
        started = tracer.start_span("s", set_span_in_context(above) if above else None)
        context = started.get_span_context()
        self.open[context.span_id] = started
        return started, context.trace_id, context.span_id


def test_a_run_closes_20_ms_after_its_root_if_no_span_of_its_trace_is_open() -> None:
    opened = Opened()
    outer, trace, top = opened.start()
    _, _, root = opened.start(outer)
    opened.gatherer.add([span(root, top, trace=trace)], 0.0)
    assert closed(opened.gatherer, 0.0199) == []
    opened.gatherer.add([log(root, trace=trace), below(7, root, trace=trace)], 0.0199)
    (group,) = opened.gatherer.close_due(0.02)
    assert ids(group) == {root, 7}
    assert group.spans[0].logs


def test_a_run_waits_for_its_grace_while_another_span_of_its_trace_is_open() -> None:
    """The other, which may continue it, closes no earlier."""
    opened = Opened()
    outer, trace, top = opened.start()
    _, _, other = opened.start(outer)
    _, _, root = opened.start(outer)
    opened.gatherer.add([span(root, 99, trace=trace)], 0.0)
    del opened.open[other], opened.open[root]
    opened.gatherer.add([span(other, top, trace=trace)], 0.1)
    assert closed(opened.gatherer, 0.4) == []
    assert closed(opened.gatherer, 0.5) == [{root}, {other}]


def test_spans_below_unclaimed_spans_find_their_owner() -> None:
    """The nearest claimed span above is a link where the parent itself was not captured."""
    gatherer = live()
    gatherer.add([span(12, 99, owner=10), span(10)], 0.0)
    (group,) = gatherer.close_due(1.0)
    assert group.links == {f"{12:016x}": f"{10:016x}"}


def test_at_the_end_each_open_run_counts_once_however_many_of_its_spans_were_added() -> None:
    gatherer = live()
    gatherer.add([below(11, 10), below(12, 11), span(10), below(21, 20, trace=2)], 0.0)
    lost = gatherer.end([below(22, 20, trace=2), span(31, trace=3)])
    assert reasons(lost) == {"undecided_at_shutdown": 2, "root_not_ended_at_shutdown": 1}
    assert gatherer.usage == (0, 0)


# --- in the gateway ---


def test_links_lead_through_unclaimed_spans_and_their_root_ends_the_trace() -> None:
    gatherer = gateway()
    gatherer.add([span(3, 2), link(2, 1), link(1)], 0.0)
    (group,) = gatherer.close_due(5.0)
    assert ids(group) == {3}
    assert group.links == {f"{2:016x}": f"{1:016x}", f"{1:016x}": None}
    assert reasons(gatherer.add([span(4, 2)], 6.0)) == {"span_late": 1}


def test_complete_traces_stay_open_while_there_is_no_capacity_to_score_them() -> None:
    capacity = [2]
    gatherer = gateway(capacity=lambda: capacity[0], max_traces=3)
    gatherer.add([span(number, trace=number) for number in range(1, 6)], 0.0)
    assert gatherer.rooted[0] == 5, "a trace with its root is never evicted"
    assert closed(gatherer, 5.0) == [{1}, {2}]
    assert gatherer.waits
    assert gatherer.next_close == 5.05
    capacity[0] = 0
    assert closed(gatherer, 6.0) == closed(gatherer, inf) == []
    capacity[0] = 9
    assert closed(gatherer, 7.0) == [{3}, {4}, {5}]
    assert not gatherer.waits


def test_a_trace_that_goes_on_for_hours_is_kept_and_its_ended_agents_are_closed() -> None:
    gatherer = gateway(max_age=100.0)
    found = []
    for minute in range(60):
        now = 20.0 * minute
        gatherer.add([span(10 * minute + 12, 10 * minute + 11), span(10 * minute + 11, 1, name="agent")], now)
        found += closed(gatherer, now + 10)
    assert found[0] == {11, 12}
    assert len(found) > 50
    assert reasons(gatherer.add([span(1)], 1_200.0)) == {"span_late": 1}
    left = closed(gatherer, 1_300.0)
    assert {*range(11, 602, 10), *range(12, 603, 10)} == set().union(*found, *left)


def test_traces_that_are_over_are_reported_once_nothing_of_them_is_open() -> None:
    gatherer = gateway()
    gatherer.reports_left = True
    gatherer.add([span(1, 5, trace=1), span(1, 5, trace=2), link(9, 6, trace=3), log(9, trace=4)], 0.0)
    assert gatherer.take_left() == []
    gatherer.add([link(7, trace=1)], 1.0)
    closed(gatherer, 6.0)
    assert gatherer.take_left() == [f"{1:032x}"]
    closed(gatherer, 30.0)
    assert gatherer.take_left() == [f"{number:032x}" for number in (2, 3, 4)]
    gatherer.add([span(1, 5, trace=2)], 31.0)
    assert gatherer.take_left() == [f"{2:032x}"], "it is repeated"
    gatherer.add([link(9, 6, trace=3)], 31.0)
    assert gatherer.is_open(f"{3:032x}")


def test_runs_that_lack_items_say_so() -> None:
    gatherer = gateway()
    gatherer.add([span(1)], 0.0)
    gatherer.lack([span(2, 1), link(3, 1), log(1)], 0.0)
    gatherer.add([span(4, 1)], 0.0)
    assert reasons(gatherer.add([span(5, 2)], 0.0)) == {"span_late": 1}
    (group,) = gatherer.close_due(5.0)
    assert [each.spans_dropped for each in group.spans] == [True, True]


def test_at_the_end_what_has_its_root_closes_and_the_rest_is_counted_or_kept() -> None:
    for keeps in (False, True):
        gatherer = gateway()
        gatherer.keeps = lambda trace_id, keeps=keeps: keeps
        gatherer.add([span(1), span(2, 9, trace=2)], 0.0)
        assert closed(gatherer, inf) == [{1}]
        assert reasons(gatherer.end([])) == ({} if keeps else {"root_not_ended_at_shutdown": 1})
        assert gatherer.usage == (0, 0)


def test_closed_traces_are_remembered_for_the_time_and_the_bytes_that_are_set() -> None:
    gatherer = gateway(remember_bytes=3_000)
    gatherer.add([span(number, trace=number) for number in (1, 2, 3)], 0.0)
    closed(gatherer, 5.0)
    assert reasons(gatherer.add([span(30, 3, trace=3), span(10, 1)], 7.0)) == {"span_late": 1}
    gatherer.evict_old(605.0)
    assert gatherer.add([span(31, 3, trace=3)], 605.0) == []


def test_a_trace_that_closes_after_the_last_look_back_is_forgotten_in_its_time() -> None:
    gatherer = gateway()
    gatherer.add([span(1)], 0.0)
    gatherer.evict_old(1.0)
    assert closed(gatherer, 5.0) == [{1}]
    assert gatherer.next_eviction <= 605.0


# --- both ---


@pytest.mark.parametrize("new", [live, gateway])
def test_log_records_join_their_span_whichever_comes_first(new: Any) -> None:
    gatherer = new()
    gatherer.add([log(10, name="before"), span(10), log(10, name="after", time=2)], 0.0)
    (group,) = gatherer.close_due(QUIET)
    assert [event.name for event in group.spans[0].logs] == ["before", "after"]
    assert group.size == 0, "unknown with log records"
    assert reasons(gatherer.add([log(10)], 6.0)) == {"log_late": 1}


@pytest.mark.parametrize("new", [live, gateway])
def test_a_group_has_the_size_of_its_spans(new: Any) -> None:
    gatherer = new()
    gatherer.add([below(3, 2, long=300), span(2)], 0.0)
    (group,) = gatherer.close_due(inf)
    assert group.size == sum(map(size_of_span, group.spans)) > 300


@pytest.mark.parametrize("new", [live, gateway])
def test_a_trace_of_too_many_spans_keeps_its_root_and_says_so_on_each(new: Any) -> None:
    gatherer = new(max_spans_per_trace=3)
    losses = gatherer.add([*(below(number, 1) for number in range(2, 8)), span(1)], 0.0)
    assert reasons(losses) == {"span_limit_per_trace": 3}
    (group,) = gatherer.close_due(QUIET)
    assert ids(group) == {1, 2, 3, 4}
    assert all(each.spans_dropped for each in group.spans)
    later = [span(100 + number, number) for number in range(2, 8)]
    assert reasons(gatherer.add(later, 6.0)) == {"span_late": 6}
    assert gatherer.usage == (0, 0)


@pytest.mark.parametrize("new", [live, gateway])
def test_an_item_that_cannot_be_read_is_a_loss_of_its_kind(new: Any) -> None:
    broken: list[Any] = [CapturedLog(1, 10, None), RecordedSpan(None, 0)]  # type: ignore[arg-type]  # broken
    losses = new().add([*broken, span(1)], 0.0)
    assert losses == [Loss("log", "log_unreadable", ""), Loss("span", "span_unreadable", "")]


@pytest.mark.parametrize("new", [live, gateway])
def test_very_many_complete_runs_close_in_parts(new: Any) -> None:
    """So that whoever scores them has a moment for other things; at the end, all at once."""
    gatherer = new()
    gatherer.add([span(number, trace=number) for number in range(1, 1_001)], 0.0)
    counts = []
    while gatherer.next_close <= QUIET:
        counts.append(len(gatherer.close_due(QUIET)))
    assert sum(counts) == 1_000
    assert max(counts) <= 256
    gatherer.add([span(number, trace=number) for number in range(2_001, 3_001)], 9.0)
    assert len(gatherer.close_due(inf)) == 1_000


def deep(depth: int) -> list[IntakeItem]:
    return [*(below(number, number - 1) for number in range(depth, 1, -1)), span(1)]


def linked(depth: int) -> list[IntakeItem]:
    above: list[IntakeItem] = [link(number, number - 1) for number in range(depth, 1, -1)]
    return [*(span(10_000 + number, depth - number) for number in range(depth // 2)), *above, span(1)]


def wide(runs: int) -> list[IntakeItem]:
    return [*(span(number, 9_999) for number in range(1, runs))]


@pytest.mark.parametrize(("new", "items"), [(live, deep), (live, wide), (gateway, deep), (gateway, linked)])
def test_time_is_linear_in_the_spans(new: Any, items: Any) -> None:
    def lines(count: int) -> int:
        gatherer = new()

        def all_of_it() -> None:
            gatherer.add(items(count), 0.0)
            gatherer.close_due(IDLE)

        return lines_run(all_of_it)

    assert lines(800) < 5 * lines(200)


@pytest.mark.parametrize("new", [live, gateway])
def test_circles_end(new: Any) -> None:
    """Spans that claim to be each other's parents are survived."""
    gatherer = new(max_age=1.0)
    gatherer.add([below(10, 11), below(11, 10), span(12, 12), link(13, 14), link(14, 13), span(15, 13)], 0.0)
    gatherer.add([log(12), span(20, 21), span(21, 20)], 0.0)
    found = closed(gatherer, 99.0)
    lost = gatherer.evict_old(99.0)
    assert found or lost
    assert gatherer.usage == (0, 0)


def nested(depth: int, mapping: bool) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value} if mapping else [value]
    return value


@pytest.mark.parametrize("depth", [61, 980, 20_000])
@pytest.mark.parametrize("mapping", [True, False])
@pytest.mark.parametrize("where", ["body", "attributes"])
def test_a_log_record_is_cut_where_it_is_too_deep_to_be_stored(depth: int, mapping: bool, where: str) -> None:
    value = nested(depth, mapping)
    given: dict[str, Any] = {where: {"a": value} if where == "attributes" else value}
    event = SpanEvent(name="l", **given)
    gatherer = live()
    gatherer.add([CapturedLog(1, 10, event), span(10)], 0.0)
    (group,) = gatherer.close_due(1.0)
    (held,) = group.spans[0].logs
    assert len(json.dumps([held.body, dict(held.attributes)])) < 1_000
