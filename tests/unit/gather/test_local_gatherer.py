"""Assembly: in whatever order spans arrive, each run has its own; what does not fit is counted."""

from __future__ import annotations

from collections import Counter
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags, format_span_id

from otel_evals._internal.capture.items import CapturedItem, CapturedLog, CapturedSpan
from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.gather.gatherer import AssemblyLimits, SpanGroup
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals.model import Loss, SpanEvent


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
            self.ignored[loss.reason] += loss.count

    def close(self, now: float) -> list[SpanGroup]:
        return self.gatherer.close_due(now)


def ids(closed: SpanGroup) -> set[str]:
    return {s.span_id for s in closed.spans}


# A trace of up to three runs, each a tree whose spans end before their parents, runs interleaved at will.
TREES = st.lists(st.integers(1, 8), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(TREES, st.randoms(use_true_random=False), st.lists(st.integers(0, 30), max_size=3))
def test_any_interleaving_gives_each_run_its_spans(sizes: list[int], rng: object, doubled: list[int]) -> None:
    """Runs of one trace stay apart, doubled spans count once, order among siblings does not matter."""
    runs = []
    for index, size in enumerate(sizes):
        first = 100 * (index + 1)
        children = [ended(7, first + i + 1, first, first) for i in range(size)]
        rng.shuffle(children)  # type: ignore[attr-defined]  # a Random
        runs.append([*children, ended(7, first)])
    queues = [list(run) for run in runs]
    arrivals = []
    while any(queues):
        arrivals.append(rng.choice([q for q in queues if q]).pop(0))  # type: ignore[attr-defined]  # a Random
    for position in doubled:
        if position < len(arrivals):
            arrivals.insert(position, arrivals[position])
    collected = Collected(grace=1)
    for item in arrivals:
        collected.add(item, 0.0)
    found = {frozenset(ids(closed)) for closed in collected.close(1.0)}
    wanted = {frozenset(format_span_id(s.span.context.span_id) for s in run) for run in runs}
    assert found == wanted
    assert not collected.ignored


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
    late: list[CapturedItem] = [ended(33, 2, 330, 330), CapturedLog(33, 330, SpanEvent(name="late", time=1))]
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
