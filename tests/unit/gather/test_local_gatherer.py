"""Assembly: in whatever order spans arrive, each run has its own; what does not fit is counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from math import inf
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id, format_trace_id

from otel_evals._internal.capture.items import CapturedItem, CapturedLog, CapturedSpan, RecordedSpan
from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.gather.gatherer import AssemblyLimits, SpanGroup
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals._internal.model.sizes import size_of_span
from otel_evals.model import Loss, SpanEvent, SpanRecord
from tests.support.lines_run import lines_run


def ended(trace: int, span: int, parent: int = 0, owner: int = 0, size: int = 10) -> CapturedSpan:
    """A claimed span that ended below `owner`."""

    def context(span_id: int) -> SpanContext:
        return SpanContext(trace, span_id, is_remote=False, trace_flags=TraceFlags(1))

    record = ReadableSpan(
        name=f"s{span}",
        context=context(span),
        parent=context(parent) if parent else None,
        attributes={"gen_ai.operation.name": "chat", "text": "x" * size},
        instrumentation_scope=InstrumentationScope("app"),
        start_time=1,
        end_time=2,
    )
    return CapturedSpan(record, owner)


DEFAULTS = {
    "grace": 0.5,
    "max_age": 600.0,
    "max_traces": 10_000,
    "max_spans_per_trace": 2_000,
    "max_bytes": 256 * 1024 * 1024,
}


class Collected:
    def __init__(self, **limits: float) -> None:
        self.ignored: Counter[str] = Counter()
        given = {**DEFAULTS, **limits}
        self.gatherer = LocalGatherer(AssemblyLimits(**given))  # type: ignore[arg-type]  # ints and floats

    def add(self, item: CapturedItem, now: float) -> None:
        gathered = self.gatherer.add([item], now)
        self.count(gathered.losses)
        self.count([Loss("span", "span_late", span.trace_id) for span, _ in gathered.late])

    def count(self, losses: list[Loss]) -> None:
        for loss in losses:
            assert loss.what in ("log", "run", "span"), loss
            assert len(loss.trace_id) == 32, loss
            self.ignored[loss.reason] += loss.count

    def close(self, now: float) -> list[SpanGroup]:
        return self.gatherer.close_due(now)


def ids(closed: SpanGroup) -> set[str]:
    return {s.span_id for s in closed.spans}


# A trace of up to three runs, each a tree whose spans end before their parents, runs interleaved at will.
TREES = st.lists(st.integers(1, 8), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(TREES, st.randoms(use_true_random=False), st.lists(st.integers(0, 30), max_size=3), st.integers(0, 6))
def test_any_interleaving_gives_each_run_its_spans_and_logs(
    sizes: list[int], rng: Random, doubled: list[int], logs: int
) -> None:
    """Runs of one trace stay apart, doubled spans count once, order among siblings does not matter."""
    runs = []
    for index, size in enumerate(sizes):
        first = 100 * (index + 1)  # half of its children are below a span that was not claimed
        children = [ended(7, first + i + 1, rng.choice([first, first + 50]), first) for i in range(size)]
        rng.shuffle(children)
        runs.append([*children, ended(7, first)])
    queues = [list(run) for run in runs]
    arrivals: list[CapturedItem] = []
    while any(queues):
        arrivals.append(rng.choice([q for q in queues if q]).pop(0))
    for position in doubled:
        if position < len(arrivals):
            arrivals.insert(position, arrivals[position])
    for number in range(logs):
        span_id = rng.choice(rng.choice(runs)).span.context.span_id
        arrivals.insert(rng.randrange(len(arrivals)), CapturedLog(7, span_id, SpanEvent(name=str(number))))
    said = defaultdict[str, list[str]](list)
    for item in arrivals:
        if isinstance(item, CapturedLog):
            said[format_span_id(item.span_id)].append(item.event.name)
    collected = Collected(grace=1)
    for item in arrivals:
        collected.add(item, 0.0)
    wanted = {}
    for run in runs:
        root = format_span_id(run[-1].span.context.span_id)
        apart = [s for s in run[:-1] if s.span.parent and s.span.parent.span_id != s.owner]
        links = {format_span_id(s.span.context.span_id): root for s in apart}
        spans = {format_span_id(s.span.context.span_id) for s in run}
        wanted[root] = ({span_id: said[span_id] for span_id in spans}, links)
    trace_id = format_trace_id(7)
    (open_now,) = told([collected.gatherer.so_far(trace_id)])
    assert open_now == tuple({k: v for each in wanted.values() for k, v in each[n].items()} for n in (0, 1))
    assert collected.gatherer.waiting(trace_id) == len(open_now[0])
    closed = collected.close(1.0)
    assert sorted(told(closed), key=repr) == sorted(wanted.values(), key=repr)
    assert not collected.ignored
    assert collected.gatherer.waiting(trace_id) == len(collected.gatherer.open_traces) == 0


def told(groups: Iterable[SpanGroup]) -> list[tuple[dict[str, list[str]], dict[str, str | None]]]:
    """Each group's spans with the names of their log records, and its links."""
    return [({s.span_id: [e.name for e in s.logs] for s in each.spans}, dict(each.links)) for each in groups]


def test_a_run_closes_after_its_grace_and_not_before() -> None:
    """Children that end within the grace still join; later ones are late."""
    collected = Collected(grace=0.5)
    collected.add(ended(1, 10), 0.0)
    assert collected.close(0.4) == []
    collected.add(ended(1, 11, parent=10), 0.4)
    (closed,) = collected.close(0.5)
    assert ids(closed) == {format_span_id(10), format_span_id(11)}
    collected.add(ended(1, 12, parent=10), 0.6)
    collected.add(ended(1, 13, parent=12), 0.7)
    assert collected.ignored == {"span_late": 2}
    assert collected.close(2.0) == []


def test_spans_below_unclaimed_spans_find_their_owner() -> None:
    """The nearest claimed span above is a link where the parent itself was not captured."""
    collected = Collected(grace=0)
    collected.add(ended(1, 12, parent=99, owner=10), 0.0)
    collected.add(ended(1, 10), 0.0)
    (closed,) = collected.close(0.0)
    assert closed.links == {format_span_id(12): format_span_id(10)}


def test_log_records_join_their_span_whichever_comes_first() -> None:
    """Before the span, or within the grace after it."""
    collected = Collected(grace=1)
    collected.add(CapturedLog(1, 10, SpanEvent(name="before")), 0.0)
    collected.add(ended(1, 10), 0.1)
    collected.add(CapturedLog(1, 10, SpanEvent(name="after")), 0.2)
    (closed,) = collected.close(1.1)
    assert [e.name for e in closed.spans[0].logs] == ["before", "after"]
    collected.add(CapturedLog(1, 10, SpanEvent(name="late")), 1.2)
    assert collected.ignored == {"log_late": 1}


def test_log_records_beyond_a_limit_are_counted_one_by_one() -> None:
    """At most as many per span as spans per trace; and the oldest make room for bytes."""
    collected = Collected(max_spans_per_trace=2, max_bytes=100_000)
    for number in range(5):
        collected.add(CapturedLog(1, 10, SpanEvent(name=str(number), body="x" * 1_000)), 0.0)
    assert collected.ignored == {"log_limit": 3}
    collected.add(CapturedLog(1, 20, SpanEvent(name="long", body="x" * 98_500)), 0.0)
    assert collected.ignored == {"log_limit": 5}
    collected.add(ended(1, 20), 0.0)
    (closed,) = collected.close(1.0)
    assert [event.name for event in closed.spans[0].logs] == ["long"]


def test_what_comes_for_a_trace_that_was_given_up_is_dropped_and_counted() -> None:
    collected = Collected(max_age=10)
    collected.add(ended(1, 12, parent=11, owner=11), 0.0)
    collected.count(collected.gatherer.evict_old(11.0))
    assert collected.ignored == {"root_never_ended": 1}
    collected.add(ended(1, 13, parent=15, owner=15), 12.0)
    collected.add(ended(1, 14, parent=11, owner=11), 12.0)
    collected.add(ended(1, 11, parent=10, owner=10), 12.0)
    assert collected.ignored == {"root_never_ended": 1, "span_late": 3}


def test_spans_below_one_that_began_before_its_trace_was_given_up_are_lost_with_it() -> None:
    def span(number: int, owner: int, begun: int) -> RecordedSpan:
        ids = {"trace_id": f"{1:032x}", "span_id": f"{number:016x}", "parent_span_id": f"{owner:016x}"}
        return RecordedSpan(SpanRecord(**ids, start_time=begun, end_time=begun + 1), owner)

    collected = Collected(max_age=10)
    collected.add(span(10, 9, 4), 0.0)
    collected.count(collected.gatherer.evict_old(11.0))
    for late in (span(21, 20, 6), span(22, 21, 6), span(31, 30, 6), span(20, 8, 3)):
        collected.add(late, 12.0)
    assert collected.ignored == {"root_never_ended": 1, "span_late": 3}
    assert collected.gatherer.waiting(f"{1:032x}") == 1
    collected.add(span(23, 21, 6), 12.0)
    assert collected.ignored == {"root_never_ended": 1, "span_late": 4}


def test_spans_of_closed_runs_are_not_counted_as_bytes_of_their_trace() -> None:
    collected = Collected(max_bytes=10_000, grace=0)
    for span in (ended(1, 21, owner=20), ended(1, 10, size=4_000), ended(2, 31, owner=30, size=8_000)):
        collected.add(span, 0.0)
        collected.close(0.0)
    collected.add(ended(1, 22, owner=20, size=1_000), 0.0)
    assert collected.gatherer.open_traces == {format_trace_id(1)}, "the older trace makes room"


def test_a_trace_whose_root_never_ends_is_given_up() -> None:
    """By age, counted as one run per tree."""
    collected = Collected(max_age=10)
    collected.add(ended(1, 11, parent=10, owner=10), 0.0)
    collected.add(ended(1, 21, parent=20, owner=20), 1.0)
    collected.count(collected.gatherer.evict_old(9.0))
    assert not collected.ignored
    collected.count(collected.gatherer.evict_old(11.0))
    assert collected.ignored == {"root_never_ended": 2}


def test_the_oldest_traces_make_room() -> None:
    """By number and by bytes; the one that just grew stays."""
    collected = Collected(max_traces=3)
    for trace in range(1, 6):
        collected.add(ended(trace, trace * 10 + 1, owner=trace * 10), float(trace))
    assert collected.ignored == {"too_many_traces": 2}
    collected = Collected(max_bytes=10_000)
    for trace in range(1, 6):
        collected.add(ended(trace, trace * 10 + 1, owner=trace * 10, size=4_000), float(trace))
    assert collected.ignored["too_many_bytes"] == 3


def test_a_deep_run_closes_in_time_linear_in_its_spans() -> None:
    def lines(depth: int) -> int:
        collected = Collected()
        collected.gatherer.add([ended(1, n, n - 1, n - 1) for n in range(depth, 1, -1)], 0.0)
        collected.gatherer.add([ended(1, 1)], 0.0)
        return lines_run(lambda: collected.gatherer.close_due(10.0))

    assert lines(800) < 5 * lines(200)


def test_circles_end() -> None:
    """Spans that claim to be each other's parents are survived."""
    collected = Collected(grace=0, max_age=1)
    collected.add(ended(1, 10, parent=11, owner=11), 0.0)
    collected.add(ended(1, 11, parent=10, owner=10), 0.0)
    collected.add(ended(1, 12, parent=12), 0.0)
    closed = collected.close(0.0)
    assert all(closed)
    collected.count(collected.gatherer.evict_old(5.0))


# --- runs that close at their root's end ---


class Learning:
    """A gatherer that knows which spans are open; the clock stands still unless told otherwise."""

    def __init__(self) -> None:
        self.open: dict[int, Span] = {}
        self.waiting = 0
        self.trace = 0
        self.gatherer = LocalGatherer(
            AssemblyLimits(**DEFAULTS),  # type: ignore[arg-type]  # ints and floats
            open_spans=lambda: OpenSpansNow(self.open, self.waiting),
        )

    def root(self, *more: CapturedItem) -> None:
        self.trace += 1
        self.gatherer.add([*more, ended(self.trace, 10 * self.trace)], 0.0)

    def closed(self, now: float = 0.0) -> int:
        return len(self.gatherer.close_due(now))

    def teach(self, runs: int = 32) -> None:
        for _ in range(runs):
            self.root()
            assert self.closed(0.4) == 0
            assert self.closed(0.5) == 1


def test_a_run_closes_at_once_when_its_scope_was_always_complete() -> None:
    learning = Learning()
    learning.teach()
    learning.root()
    assert learning.gatherer.next_close <= 0.0
    assert learning.closed() == 1


def test_a_run_waits_while_a_span_of_its_trace_is_open() -> None:
    learning = Learning()
    learning.teach()
    child = TracerProvider(shutdown_on_exit=False).get_tracer("app").start_span("child")
    assert isinstance(child, Span)
    child._context = SpanContext(33, 5, is_remote=False)
    learning.open[5] = child
    learning.root()
    assert learning.closed() == 0
    assert learning.closed(0.5) == 1


def test_what_was_handed_over_before_is_added_first() -> None:
    learning = Learning()
    learning.teach()
    learning.waiting = 1
    learning.root()
    assert learning.closed() == 0
    learning.gatherer.add([ended(33, 2, 330, 330)], 0.0)
    (group,) = learning.gatherer.close_due(0.0)
    assert len(group.spans) == 2


def test_a_scope_that_logs_keeps_waiting() -> None:
    learning = Learning()
    learning.teach(31)
    event = SpanEvent(name="gen_ai.choice", time=1)
    learning.root(CapturedLog(32, 320, event))
    assert learning.closed(0.5) == 1
    learning.root()
    assert learning.closed(0.4) == 0
    assert learning.closed(0.5) == 1


def test_a_scope_whose_span_came_after_the_root_keeps_waiting() -> None:
    learning = Learning()
    learning.teach(31)
    learning.root()
    learning.gatherer.add([ended(32, 2, 320)], 0.1)
    (group,) = learning.gatherer.close_due(0.5)
    assert len(group.spans) == 2
    learning.root()
    assert learning.closed(0.4) == 0


def test_a_late_span_or_log_record_makes_its_scope_wait_again() -> None:
    of_another_scope = SpanRecord(trace_id=f"{33:032x}", span_id="2" * 16, parent_span_id=f"{330:016x}")
    late: list[CapturedItem] = [
        ended(33, 2, 330, 330),
        CapturedLog(33, 330, SpanEvent(name="late", time=1)),
        RecordedSpan(of_another_scope, 330),
    ]
    for item in late:
        learning = Learning()
        learning.teach()
        learning.root()
        assert learning.closed() == 1
        learning.gatherer.add([item], 0.1)
        learning.root()
        assert learning.closed(0.4) == 0


def test_runs_that_a_flush_closed_teach_nothing() -> None:
    learning = Learning()
    for _ in range(40):
        learning.root()
        assert learning.closed(float("inf")) == 1
    learning.root()
    assert learning.closed() == 0


def test_a_flush_closes_a_run_that_waits_for_the_backlog() -> None:
    learning = Learning()
    learning.teach()
    learning.waiting = 9
    learning.root()
    assert learning.closed(float("inf")) == 1


def test_the_only_choice_above_a_call_that_had_ended_is_given_to_its_run() -> None:
    """Some log a streamed call's choice when its span has ended, in the context of the application's span."""
    for choices in (1, 2):
        collected = Collected()
        collected.add(ended(41, 410, 409), 0.0)
        for _ in range(choices):
            collected.add(CapturedLog(41, 409, SpanEvent(name="gen_ai.choice", body={"message": "Hi"})), 0.1)
        (closed,) = collected.close(1.0)
        above = [span for span in closed.spans if span.logs]
        assert [span.span_id for span in above] == [format_span_id(409)] * (2 - choices), (
            "two: whose is whose?"
        )


def test_late_children_of_spans_beyond_the_limit_are_late_too() -> None:
    """They are not taken for runs, though their parents were never kept."""
    collected = Collected(max_spans_per_trace=5)
    for number in range(20, 40):
        collected.add(ended(3, number, parent=10, owner=10), 0.0)
    collected.add(ended(3, 10), 0.0)
    (closed,) = collected.close(1.0)
    assert len(closed.spans) == 6
    assert collected.ignored == {"span_limit_per_trace": 15}
    for number in range(20, 40):
        collected.add(ended(3, 100 + number, parent=number), 1.1)
        collected.add(ended(3, 200 + number, parent=100 + number), 1.2)
    assert collected.close(5.0) == []
    assert collected.ignored == {"span_limit_per_trace": 15, "span_late": 40}


def test_very_many_runs_whose_grace_is_over_are_closed_in_parts() -> None:
    collected = Collected()
    for trace in range(1, 1_001):
        collected.add(ended(trace, trace), 0.0)
    counts = []
    while collected.gatherer.next_close <= 1.0:
        counts.append(len(collected.close(1.0)))
    assert sum(counts) == 1_000
    assert max(counts) <= 256
    for trace in range(2_001, 3_001):
        collected.add(ended(trace, trace), 2.0)
    assert len(collected.close(inf)) == 1_000


def test_a_closed_run_carries_the_size_of_its_spans() -> None:
    collected = Collected()
    for span in (ended(1, 3, 2, 2, size=300), ended(1, 2)):
        collected.add(span, 0.0)
    (group,) = collected.gatherer.close_due(inf)
    assert group.size == sum(map(size_of_span, group.spans)) > 300


def test_the_size_of_a_run_with_log_records_is_unknown() -> None:
    collected = Collected()
    collected.add(CapturedLog(1, 2, SpanEvent(name="gen_ai.choice")), 0.0)
    collected.add(ended(1, 2), 0.0)
    (group,) = collected.gatherer.close_due(inf)
    assert (group.size, len(group.spans[0].logs)) == (0, 1)


def test_a_cycle_of_spans_closes_with_log_records() -> None:
    collected = Collected()
    for item in (CapturedLog(1, 9, SpanEvent(name="e")), ended(1, 2, 3), ended(1, 3, 2)):
        collected.add(item, 0.0)
    closed = collected.gatherer.close_due(inf)
    assert all(span.span_id in (format_span_id(2), format_span_id(3)) for g in closed for span in g.spans)


def test_an_item_that_cannot_be_read_is_a_loss_of_its_kind() -> None:
    broken: list[Any] = [CapturedLog(1, 10, None), RecordedSpan(None, 0)]  # type: ignore[arg-type]  # broken
    gathered = Collected().gatherer.add([*broken, ended(1, 10)], 0.0)
    assert gathered.losses == [Loss("log", "log_unreadable", ""), Loss("span", "span_unreadable", "")]


def test_only_the_newest_closed_spans_are_remembered() -> None:
    """However large the runs are; a span of a forgotten run is not known to be late."""
    collected = Collected()

    def add(trace: int, span: int) -> None:
        """Add the root of a trace, which is its span 0, or a span below it."""
        root, span_id = trace * 10_000, format_span_id(trace * 10_000 + span)
        above = format_span_id(root) if span else None
        record = SpanRecord(trace_id=f"{trace:032x}", span_id=span_id, parent_span_id=above)
        collected.add(RecordedSpan(record, root if span else 0), 1.0)

    for trace in range(1, 13):
        for span in (*range(1, 2_000), 0):
            add(trace, span)
        collected.close(inf)
    add(12, 2_000)
    assert collected.ignored == {"span_late": 1}
    add(2, 2_000)
    assert collected.ignored == {"span_late": 1}
