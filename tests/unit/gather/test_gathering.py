"""The gatherer, compared after every event with plain lists of what it should hold and return."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from otel_evals._internal.capture.items import CapturedItem, CapturedLog, RecordedSpan
from otel_evals._internal.gather.gatherer import AssemblyLimits, Gathered, SpanGroup
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals._internal.model.sizes import size_of_event, size_of_span
from otel_evals.model import Loss, SpanEvent, SpanRecord
from tests.support.replacing import replace

TRACES = st.integers(1, 3)
GRACE, MAX_AGE, MOST_TRACES, MOST_SPANS = 2.0, 10.0, 2, 3


class Held(NamedTuple):
    span: SpanRecord
    above: str | None
    is_root: bool


class Gathering(RuleBasedStateMachine):
    """Spans end in any order, runs close after their grace, limits evict traces and drop spans and logs."""

    @initialize(most_bytes=st.sampled_from([2_500, 5_000, 10**6]), reports=st.booleans())
    def begin(self, most_bytes: int, reports: bool) -> None:
        limits = AssemblyLimits(
            grace=GRACE,
            max_age=MAX_AGE,
            max_traces=MOST_TRACES,
            max_spans_per_trace=MOST_SPANS,
            max_bytes=most_bytes,
        )
        self.gatherer = LocalGatherer(limits, report_ended=reports)
        self.most_bytes, self.reports, self.now = most_bytes, reports, 0.0
        self.seen: dict[str, float] = {}
        """When each trace got its last span, the oldest first."""
        self.spans = defaultdict[str, dict[str, Held]](dict)
        self.due: list[tuple[float, str, str]] = []
        self.closed: set[str] = set()
        self.lack: set[str] = set()
        """Spans below which others were dropped."""
        self.evicted: dict[str, int] = {}
        self.logs: dict[str, list[SpanEvent]] = {}

    # --- what it should do ---

    def top(self, trace: str, span_id: str) -> str:
        held = self.spans[trace]
        while (above := held[span_id].above) in held:
            span_id = above
        return span_id

    def size(self, trace: str) -> int:
        return sum(size_of_span(held.span) for held in self.spans[trace].values())

    def forget(self, trace: str) -> None:
        del self.spans[trace], self.seen[trace]

    def evict(self, trace: str, reason: str) -> list[Loss]:
        held = self.spans[trace]
        tops = [held[self.top(trace, span_id)] for span_id in held]
        runs = {top.span.span_id if top.is_root or not top.above else top.above for top in tops}
        self.closed |= runs | held.keys()
        self.evicted[trace] = max(
            [self.evicted.get(trace, 0), *(each.span.end_time for each in held.values())]
        )
        self.forget(trace)
        return [Loss("run", reason, trace, len(runs))]

    def run_of(self, trace: str, root: str, *, closes: bool) -> SpanGroup | None:
        held = self.spans[trace]
        mine = [span_id for span_id in held if self.top(trace, span_id) == root]
        if root not in mine:
            return None
        spans = [held[span_id].span for span_id in mine]
        links = {s: held[s].above for s in mine if s != root and held[s].above != held[s].span.parent_span_id}
        size = sum(map(size_of_span, spans))
        if closes:
            spans = [
                replace(
                    span,
                    logs=tuple(self.logs.pop(span.span_id, ())),
                    spans_dropped=span.span_id in self.lack,
                )
                for span in spans
            ]
            self.lack -= {*mine}
            self.closed |= {*mine}
            size = 0 if any(span.logs for span in spans) else size
            above = held[root].span.parent_span_id
            if above and [log.name for log in self.logs.get(above, ())].count("gen_ai.choice") == 1:
                logs = tuple(self.logs.pop(above))
                spans.append(SpanRecord(trace_id=trace, span_id=above, parent_span_id=None, logs=logs))
            for span_id in mine:
                del held[span_id]
            if not held:
                self.forget(trace)
        return SpanGroup(tuple(spans), links, size)

    def ended(self, span: SpanRecord, owner: str | None) -> Gathered:
        trace, span_id, above = span.trace_id, span.span_id, owner or span.parent_span_id
        if {above, span_id} & self.closed:
            self.closed.add(span_id)
            return Gathered(late=[(span, above)])
        self.seen.pop(trace, None)
        self.seen[trace], held = self.now, self.spans[trace]
        if span.start_time <= self.evicted.get(trace, -1):
            below = [s for s in held if held[self.top(trace, s)].above == span_id]
            for each in below:
                del held[each]
            self.closed |= {span_id, *below}
            if not held:
                self.forget(trace)
            return Gathered([Loss("span", "span_late", trace, 1 + len(below))])
        if len(held) >= MOST_SPANS and owner:
            self.closed.add(span_id)
            self.lack = (self.lack - {span_id}) | {owner}
            return Gathered([Loss("span", "span_limit_per_trace", trace)])
        held[span_id] = Held(span, above, owner is None)
        gathered = Gathered()
        if owner is None and above not in held:
            self.due.append((self.now + GRACE, trace, span_id))
            if self.reports and (group := self.run_of(trace, span_id, closes=False)):
                gathered.ended = [(span_id, group)]
        while True:
            if sum(map(self.size, self.seen)) > self.most_bytes:
                greedy = trace in self.seen and self.size(trace) > self.most_bytes // 2
                gathered.losses += self.evict(trace if greedy else next(iter(self.seen)), "too_many_bytes")
            elif len(self.seen) > MOST_TRACES:
                gathered.losses += self.evict(next(iter(self.seen)), "too_many_traces")
            else:
                return gathered

    def logged(self, trace: str, span_id: str, log: SpanEvent) -> Gathered:
        if span_id in self.closed:
            return Gathered([Loss("log", "log_late", trace)])
        held, lost = self.logs.setdefault(span_id, []), 0
        if len(held) < MOST_SPANS:
            held.append(log)
        else:
            lost += 1
        while sum(size_of_event(each) for logs in self.logs.values() for each in logs) > self.most_bytes:
            lost += len(self.logs.pop(next(iter(self.logs))))
        return Gathered([Loss("log", "log_limit", trace, lost)] if lost else [])

    # --- what happens ---

    def add(self, item: CapturedItem, expected: Gathered) -> None:
        found = self.gatherer.add([item], self.now)
        assert (found.losses, found.late) == (expected.losses, expected.late)
        assert found.ended == expected.ended

    @rule(
        trace=TRACES,
        number=st.integers(1, 6),
        places=st.tuples(st.integers(0, 5), st.integers(0, 5)),
        start=st.integers(1, 4),
        long=st.sampled_from([10, 900, 1_500]),
    )
    def a_span_ends(self, trace: int, number: int, places: tuple[int, int], start: int, long: int) -> None:
        """Its parent and the open span above it, if any, have lower numbers."""
        parent, owner = (place % number for place in places)
        parent_id, owner_id = (f"{trace * 16 + above:016x}" if above else None for above in (parent, owner))
        span = SpanRecord(
            trace_id=f"{trace:032x}",
            span_id=f"{trace * 16 + number:016x}",
            parent_span_id=parent_id,
            name="x" * long,
            start_time=start,
            end_time=start + 1,
        )
        item = RecordedSpan(span, trace * 16 + owner if owner else 0)
        self.add(item, self.ended(span, owner_id))

    @rule(
        trace=TRACES,
        number=st.integers(1, 6),
        name=st.sampled_from(["gen_ai.choice", "said"]),
        long=st.sampled_from([0, 1_000]),
    )
    def a_log_record_is_written(self, trace: int, number: int, name: str, long: int) -> None:
        log, span_id = SpanEvent(name=name, body="x" * long), trace * 16 + number
        self.add(CapturedLog(trace, span_id, log), self.logged(f"{trace:032x}", f"{span_id:016x}", log))

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        """The gatherer is called when it says, as the engine does."""
        self.now += seconds
        losses, found = [], []
        while self.seen and (trace := next(iter(self.seen))) and self.seen[trace] + MAX_AGE <= self.now:
            losses += self.evict(trace, "root_never_ended")
        assert (
            self.gatherer.evict_old(self.now) if self.now >= self.gatherer.next_eviction else []
        ) == losses
        for due, trace, root in [*self.due]:
            if due <= self.now:
                self.due.remove((due, trace, root))
                if trace in self.seen and (group := self.run_of(trace, root, closes=True)):
                    found.append(group)
        assert (self.gatherer.close_due(self.now) if self.now >= self.gatherer.next_close else []) == found

    @invariant()
    def the_open_spans_are_those_that_were_added(self) -> None:
        assert self.gatherer.open_traces == self.seen.keys()
        for trace in ("1", "2", "3"):
            trace_id = trace.rjust(32, "0")
            held = self.spans.get(trace_id, {})
            assert self.gatherer.waiting(trace_id) == len(held)
            so_far = self.gatherer.so_far(trace_id)
            logs = {span_id: tuple(self.logs.get(span_id, ())) for span_id in held}
            assert {span.span_id: span.logs for span in so_far.spans} == logs
            links = {s: each.above for s, each in held.items() if each.above != each.span.parent_span_id}
            assert so_far.links == links
        assert (self.gatherer.next_close < inf) == bool(self.due)


TestGathering = Gathering.TestCase
TestGathering.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
