"""Late spans join the judged spans around them, and what was judged without them does not stand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals._internal.capture.items import CapturedLog
from otel_evals._internal.gather.gatherer import AssemblyLimits, Evaluated, SpanGroup
from otel_evals._internal.model import Sampled
from otel_evals.model import SpanEvent
from otel_evals_gateway._internal.judged_traces import JudgedTraces
from otel_evals_gateway._internal.trace_gatherer import SourceClocks, SourceItems, TraceGatherer
from tests.support.lines_run import lines_run
from tests.unit.gateway.test_trace_gatherer import TRACE, ids, link, span

SAMPLED = Sampled(1.0, "always")


class Judge:
    """A gatherer, and what its engine does: each group is judged at its first span, by one rule."""

    def __init__(self, *, most_bytes: int = 10**9, most: int = 100, **limits: Any) -> None:
        self.judged = JudgedTraces(600.0, most_bytes, most)
        given = {"grace": 0.0, "max_age": 600.0, "max_traces": 100, "max_spans_per_trace": 50}
        self.traces = TraceGatherer(
            AssemblyLimits(**{"max_bytes": 10**9, **given, **limits}),
            quiet=5.0,
            idle=30.0,
            opens_run=lambda span: span.name == "agent",
            judged=self.judged,
        )
        self.groups: list[SpanGroup] = []

    def add(self, items: Iterable[Any], now: float) -> list[str]:
        """Return the reasons of the losses, with the late spans that were lost."""
        gathered = self.traces.add(items, now)
        return [*(loss.reason for loss in gathered.losses), *("late" for _ in gathered.late)]

    def close(self, now: float, *, sampled: bool = True) -> list[SpanGroup]:
        """Return the groups that are complete now, and judge them."""
        groups = self.traces.close_due(now)
        for group in groups:
            self.judged.note(group, evaluated(group) if sampled and group.spans else {})
        self.groups += groups
        return groups


def evaluated(group: SpanGroup) -> Evaluated:
    first = group.spans[0]
    return {("rule", first.trace_id, first.span_id): (SAMPLED, len(group.spans))}


def test_a_late_span_opens_its_trace_again_until_it_is_quiet() -> None:
    judge = Judge()
    judge.add([span(1), span(2, 1)], 0.0)
    assert [group.judged for group in judge.close(5.0)] == [None]
    assert judge.add([span(3, 2)], 20.0) == []
    assert judge.add([span(4, 3), span(1)], 23.0) == ["span_repeated"]
    assert judge.traces.open_traces == {TRACE}
    assert judge.close(27.9) == []
    (again,) = judge.close(28.0)
    assert ids(again) == {1, 2, 3, 4}
    assert again.judged is not None
    assert again.judged.evaluated == {("rule", TRACE, f"{1:016x}"): (SAMPLED, 2)}
    assert again.judged.revision > 1
    judge.add([span(5, 4)], 100.0)
    (third,) = judge.close(105.0)
    assert third.judged is not None
    assert third.judged.revision > again.judged.revision


def test_a_trace_that_is_open_again_when_its_source_is_lost_stays_known() -> None:
    """The same process may read the source on, and the judged spans are repeated then."""
    judge = Judge()
    judge.add([span(1), span(2, 1)], 0.0)
    judge.close(5.0)
    judge.add([span(3, 2)], 20.0)
    judge.traces.forget([TRACE])
    assert judge.add([span(1), span(2, 1), span(3, 2)], 21.0) == ["span_repeated"] * 2
    (again,) = judge.close(26.0)
    assert ids(again) == {1, 2, 3}


def test_spans_of_other_systems_change_nothing_unless_they_join_what_was_apart() -> None:
    judge = Judge()
    judge.add([span(1), span(4, 3)], 0.0)
    assert len(judge.close(5.0)) == 1
    judge.add([link(2, 1), link(9, 4)], 20.0)
    assert judge.close(60.0) == []
    judge.add([link(3, 2)], 61.0)
    (again,) = judge.close(66.0)
    assert (ids(again), again.judged is not None) == ({1, 4}, True)


def test_a_judged_span_stays_known_when_a_link_below_it_closes_with_others() -> None:
    judge = Judge(max_age=10.0)
    judge.add([span(1)], 0.0)
    judge.close(5.0)
    judge.add([link(3, 1), span(4, 2)], 5.0)
    assert [ids(group) for group in judge.close(35.0)] == [{4}]
    judge.add([span(5, 1)], 35.0)
    assert [ids(group) for group in judge.close(40.0)] == [{1, 5}]


def test_runs_that_were_not_sampled_are_not_kept() -> None:
    judge = Judge()
    judge.add([span(1)], 0.0)
    judge.close(5.0, sampled=False)
    assert judge.judged.size == (0, 0, 0)
    assert judge.add([span(2, 1)], 20.0) == ["late"]


def test_without_room_for_their_spans_the_scores_of_judged_runs_are_replaced() -> None:
    judge = Judge(most_bytes=3_000)
    for number in (1, 2, 3, 4):
        judge.add([span(number, trace=f"{number:032x}")], 0.0)
        judge.close(5.0)
    whole, size, others = judge.judged.size
    assert (whole + others, whole > 0, size <= 3_000) == (4, True, True)
    assert judge.add([span(9, 1, trace=f"{1:032x}")], 6.0) == ["late"], "the span is lost"
    (outdated,) = judge.close(6.0)
    assert (outdated.spans, judge.traces.open_traces) == ((), set())
    assert outdated.judged is not None
    assert list(outdated.judged.evaluated or ()) == [("rule", f"{1:032x}", f"{1:016x}")]
    assert outdated.judged.revision > 1


def test_traces_beyond_the_bounds_are_forgotten_and_counted() -> None:
    judge = Judge(most_bytes=0, most=10)
    for number in range(1, 101):
        judge.add([span(number, trace=f"{number:032x}")], 0.0)
        judge.close(5.0)
    assert judge.judged.size[::2] == (1, 10)
    assert judge.traces.closed_spans["forgotten_early"] == 89
    judge.add([span(1_000, trace="b" * 32)], 700.0)
    judge.close(705.0)
    assert judge.traces.closed_spans["forgotten_early"] == 89, "their time was over"
    assert judge.judged.size[::2] == (1, 0)


def test_only_the_agents_around_a_late_span_are_judged_again_in_a_trace_that_lasts_all_day() -> None:
    judge = Judge(max_age=100.0)
    judge.add([span(n, 1, name="agent") for n in (10, 20, 30)], 0.0)
    judge.add([span(40, 1)], 90.0)
    assert sorted(map(ids, judge.close(101.0)), key=min) == [{10}, {20}, {30}]
    judge.add([span(21, 20), span(41, 1)], 110.0)
    judge.close(120.0)
    judge.add([span(42, 1)], 130.0)
    assert [ids(group) for group in judge.close(145.0)] == [{20, 21}]


def test_an_active_trace_that_has_its_root_is_quiet_soon_after_a_late_span_too() -> None:
    judge = Judge(max_age=100.0)
    judge.add([span(n, n - 1, name="agent") for n in (10, 20)], 0.0)
    judge.add([span(40, 1)], 90.0)
    assert sorted(map(ids, judge.close(101.0)), key=min) == [{10}, {20}]
    judge.add([span(1), span(21, 20)], 102.0)
    assert judge.close(106.9) == []
    assert [ids(group) for group in judge.close(107.0)] == [{1, 20, 21, 40}]


def test_a_new_agent_below_the_place_of_judged_ones_leaves_these_alone() -> None:
    judge = Judge(max_age=100.0)
    judge.add([link(1, 9), *(span(n, 1, name="agent") for n in (10, 20))], 0.0)
    judge.add([span(40, 1)], 90.0)
    assert sorted(map(ids, judge.close(101.0)), key=min) == [{10}, {20}]
    judge.add([span(30, 1, name="agent"), span(31, 30)], 110.0)
    assert [ids(group) for group in judge.close(145.0)] == [{30, 31, 40}]


def test_agents_of_a_long_trace_are_kept_without_the_links_of_the_others() -> None:
    judge = Judge(max_age=100.0, max_spans_per_trace=1_000)
    judge.add([link(n, n + 1) for n in range(1, 1_001)], 0.0)
    judge.add([span(2_000 + n, n, name="agent") for n in range(1, 201)], 0.0)
    judge.add([span(9_000, 1)], 90.0)
    groups = judge.close(101.0)
    assert (len(groups), sum(len(group.links) for group in groups)) == (200, 200)
    assert judge.add([span(1_001, name="agent")], 102.0) == [], "which is above all of them"
    (whole,) = judge.close(107.0)
    assert len(whole.spans) == 202


@pytest.mark.parametrize("is_above", [True, False])
def test_long_chains_of_unclaimed_spans_take_time_linear_in_their_length(is_above: bool) -> None:
    def lines(length: int) -> int:
        judge = Judge(max_spans_per_trace=10_000)
        chain = [link(n, n - 1) for n in range(2, length)]
        claimed = [span(length + n, length - 1) for n in range(length)] if is_above else []

        def work() -> None:
            judge.add([span(1), *chain, *claimed], 0.0)
            judge.close(5.0)
            judge.add([link(10**6 + n, 10**6 + n - 1) for n in range(length)], 20.0)
            judge.close(60.0)

        return lines_run(work)

    assert lines(800) < 5 * lines(200)


def test_a_reopened_trace_that_finds_no_room_loses_its_scores() -> None:
    judge = Judge(max_bytes=4_000)
    judge.add([span(1)], 0.0)
    judge.close(5.0)
    log = CapturedLog(int(TRACE, 16), 2, SpanEvent(name="e", body="x" * 6_000))
    assert judge.add([span(2, 1), log], 20.0) == ["too_many_bytes"]
    (outdated,) = judge.close(20.0)
    assert (outdated.spans, outdated.judged is None) == ((), False)


def finished(*items: Any, since: float = 0.0) -> list[Any]:
    """Return items that another process has judged."""
    return [SourceItems("a", since, finished=True), *items, SourceItems()]


def test_spans_that_another_process_judged_are_judged_again_if_all_of_them_are_known() -> None:
    log = CapturedLog(int(TRACE, 16), 1, SpanEvent(name="said", time=1))
    for since, rooted, whole in ((0.0, True, True), (1.0, True, False), (0.0, False, False)):
        judge = Judge()
        judge.add(finished(span(1, None if rooted else 9), span(2, 1), log, since=since), 0.0)
        assert judge.add([SourceItems("a", 20.0), span(3, 2), SourceItems()], 20.0) == []
        judge.add([SourceClocks({"a": 30.0})], 30.0)
        (again,) = judge.close(30.0)
        assert again.judged is not None
        assert (ids(again), again.judged.evaluated) == ({1, 2, 3}, None)
        assert len(again.spans[0].logs) == 1
        assert [each.spans_dropped for each in again.spans] == [not whole] * 3
    judge = Judge()
    judge.add(finished(span(1)), 0.0)
    judge.traces.forget_judged({"a"})
    assert judge.add([span(2, 1)], 20.0) == ["late"]


def test_what_another_process_judged_is_whole_once_the_rest_of_it_was_read() -> None:
    """A commit may lie between the messages of a judged trace."""
    judge = Judge()
    judge.add(finished(span(2, 1, start=50), since=20.0), 0.0)
    judge.add([SourceItems("a", 20.0), span(1, start=40), SourceItems()], 20.0)
    judge.add([SourceClocks({"a": 30.0})], 30.0)
    (again,) = judge.close(30.0)
    assert [each.spans_dropped for each in again.spans] == [False] * 2


def test_a_run_that_lacks_spans_still_does_when_others_arrive_late() -> None:
    judge = Judge(max_spans_per_trace=3)
    judge.add([span(n, 1) for n in (2, 3, 4, 5)], 0.0)
    judge.close(30.0)
    judge.add([span(1)], 40.0)
    (again,) = judge.close(45.0)
    assert [each.spans_dropped for each in again.spans] == [True] * 4
    judge = Judge()
    judge.add(finished(span(1, start=10), since=20.0), 0.0)
    for second, number in ((20.0, 2), (40.0, 3)):
        judge.add([span(number, 1, start=30)], second)
        (again,) = judge.close(second + 5.0)
        assert [each.spans_dropped for each in again.spans] == [True] * number


def test_what_another_process_judged_is_whole_when_its_source_is_read_again() -> None:
    judge = Judge()
    for _ in range(2):
        judge.add(finished(span(1), span(2, 1)), 0.0)
        judge.traces.forget_judged({"a"})
    judge.add(finished(span(1), span(2, 1)), 0.0)
    assert judge.add([SourceItems("a", 20.0), span(3, 1), SourceItems()], 20.0) == []
    judge.add([SourceClocks({"a": 30.0})], 30.0)
    (again,) = judge.close(30.0)
    assert [each.spans_dropped for each in again.spans] == [False] * 3


def test_what_another_process_judged_is_kept_within_the_bytes() -> None:
    long = SpanEvent(name="said", body="x" * 20_000)
    for number, items in enumerate(
        (
            [CapturedLog(int(TRACE, 16), 1, long)] * 100,
            [link(n, n + 1) for n in range(2, 2_000)],
            [span(n, 1) for n in range(2, 2_000)],
        )
    ):
        judge = Judge(most_bytes=100_000)
        judge.add(finished(span(1), *items), 0.0)
        assert judge.judged.size[1] <= 100_000, number
        for trace in range(1, 50):
            ids_of = CapturedLog(trace, 1, long)
            judge.add(finished(span(1, trace=f"{trace:032x}"), ids_of), 0.0)
        assert judge.judged.size[1] <= 100_000, number


def test_what_another_process_judged_does_not_stand_for_the_whole_once_a_part_was_forgotten() -> None:
    judge = Judge(most_bytes=100_000)
    judge.add(finished(span(2, 1)), 0.0)
    for trace in range(1, 50):
        log = CapturedLog(trace, 1, SpanEvent(name="said", body="x" * 20_000))
        judge.add(finished(span(1, trace=f"{trace:032x}"), log), 0.0)
    judge.add(finished(span(1)), 0.0)
    assert judge.add([SourceItems("a", 20.0), span(3, 1), SourceItems()], 20.0) == []
    judge.add([SourceClocks({"a": 30.0})], 30.0)
    (again,) = judge.close(30.0)
    assert [each.spans_dropped for each in again.spans] == [True, True]


@pytest.mark.parametrize("max_age", [600.0, 10.0])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.sets(st.integers(2, 7)),
    st.randoms(use_true_random=False),
    st.lists(st.integers(0, 40), min_size=7, max_size=7),
)
def test_the_last_judgement_of_a_trace_has_all_of_its_spans(
    max_age: float, parents: list[int], unclaimed: set[int], rng: Any, pauses: list[int]
) -> None:
    """Whatever the tree, the order and the pauses, and revisions grow with what is known.

    After `max_age`, agents are judged while their trace goes on.
    """
    tree = {1: None} | {n: 1 + parent % (n - 1) for n, parent in enumerate(parents, 2)}
    order = list(tree.items())
    rng.shuffle(order)
    judge, now = Judge(max_age=max_age), 0.0
    for (number, parent), pause in zip(order, pauses, strict=False):
        now += pause
        judge.close(now)
        item: Any = link(number, parent) if number in unclaimed else span(number, parent, name="agent")
        assert judge.add([item], now) == []
    while judge.traces.open_traces - {TRACE} or judge.traces.size[0]:
        now += 100.0
        judge.close(now)
    claimed = tree.keys() - unclaimed
    assert ids(judge.groups[-1]) == claimed
    newest: dict[str, int] = {}
    for group in judge.groups:
        revision = 1 if group.judged is None else group.judged.revision
        for _, _, span_id in () if group.judged is None else group.judged.evaluated or ():
            assert revision > newest[span_id]
        newest[group.spans[0].span_id] = max(revision, newest.get(group.spans[0].span_id, 0))
