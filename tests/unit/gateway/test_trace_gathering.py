"""The gatherer of received spans, compared after every event with plain dictionaries of what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from otel_evals._internal.capture.items import CapturedLog, IntakeItem, RecordedSpan
from otel_evals._internal.gather.gatherer import Gathered, SpanGroup
from otel_evals._internal.gather.open_trace import _LINK_BYTES
from otel_evals._internal.model.sizes import size_of_event, size_of_span
from otel_evals.model import Loss, SpanEvent, SpanRecord
from otel_evals_gateway._internal.trace_gatherer import RootsTaken
from tests.support.replacing import replace
from tests.unit.gateway.test_trace_gatherer import gatherer, link

TRACES = st.integers(1, 2)
NUMBERS = st.integers(1, 6)
QUIET, IDLE, MOST_SPANS = 5.0, 30.0, 3


@dataclass
class Trace:
    seen: float = 0.0
    rooted: bool = False
    spans: dict[str, SpanRecord] = field(default_factory=dict)
    links: dict[str, str | None] = field(default_factory=dict)
    logs: dict[str, list[SpanEvent]] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def above(self, parent: str | None) -> str | None:
        passed = set()
        while parent in self.links and parent not in passed:
            passed.add(parent)
            parent = self.links[parent]
        return parent

    @property
    def size(self) -> int:
        logs = sum(size_of_event(log) for held in self.logs.values() for log in held)
        return sum(map(size_of_span, self.spans.values())) + _LINK_BYTES * len(self.links) + logs


class TraceGathering(RuleBasedStateMachine):
    """Spans, places of unclaimed spans and log records arrive in any order; traces close or are forgotten."""

    @initialize()
    def begin(self) -> None:
        self.gatherer = gatherer(max_spans_per_trace=MOST_SPANS, max_age=inf)
        self.now = self.latest = 0.0
        self.roots = 0
        self.traces: dict[str, Trace] = {}
        self.closed: dict[tuple[str, str], bool] = {}
        """Spans of closed traces: True if it arrived, False for a missing parent."""

    # --- what it should do ---

    def active(self, trace_id: str) -> Trace:
        trace = self.traces.setdefault(trace_id, Trace())
        trace.seen = self.now
        return trace

    def claimed(self, span: SpanRecord) -> Gathered:
        trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id
        known, trace = self.closed.get((trace_id, span_id)), self.traces.get(trace_id, Trace())
        if known:
            return Gathered([Loss("span", "span_repeated", trace_id)])
        if known is False or self.closed.get((trace_id, trace.above(parent) or "")):
            self.closed[trace_id, span_id] = True
            return Gathered(late=[(span, parent)])
        if span_id in trace.spans and trace.spans[span_id].end_time:
            return Gathered([Loss("span", "span_repeated", trace_id)])
        trace = self.active(trace_id)
        if len(trace.spans) >= MOST_SPANS and parent and span_id not in trace.spans:
            trace.left_out.add(span_id)
            return Gathered([Loss("span", "span_limit_per_trace", trace_id)])
        trace.spans[span_id] = span
        trace.rooted |= parent is None
        return Gathered()

    def close(self, trace_id: str) -> SpanGroup:
        trace, spans = self.traces.pop(trace_id), []
        for span_id, span in trace.spans.items():
            logs = sorted(trace.logs.get(span_id, []), key=lambda log: log.time)
            spans.append(replace(span, logs=tuple(logs), spans_dropped=bool(trace.left_out)))
        for span_id, parent in trace.links.items():
            if span_id not in trace.spans and (held := trace.logs.get(span_id)):
                logs = sorted(held, key=lambda log: log.time)
                place = {"trace_id": trace_id, "span_id": span_id, "parent_span_id": parent}
                spans.append(SpanRecord(**place, logs=tuple(logs)))
        arrived = trace.spans.keys() | trace.links.keys() | trace.left_out
        self.closed |= {(trace_id, span_id): True for span_id in arrived}
        for parent in {*trace.links.values(), *(span.parent_span_id for span in trace.spans.values())}:
            if parent:
                self.closed.setdefault((trace_id, parent), False)
        return SpanGroup(tuple(spans), trace.links)

    # --- what happens ---

    def add(self, item: IntakeItem | RootsTaken, expected: Gathered) -> None:
        self.latest = self.now
        found = self.gatherer.add([item], self.now)
        assert (found.losses, found.late) == (expected.losses, expected.late)

    @rule(trace=TRACES, number=NUMBERS, above=st.integers(0, 7), long=st.integers(0, 9), ended=st.booleans())
    def a_claimed_span_arrives(self, trace: int, number: int, above: int, long: int, ended: bool) -> None:
        span = SpanRecord(
            trace_id=f"{trace:032x}",
            span_id=f"{number:016x}",
            parent_span_id=f"{above:016x}" if above else None,
            name="x" * long,
            end_time=1 if ended else None,
        )
        self.add(RecordedSpan(span, 0), self.claimed(span))

    @rule(trace=TRACES, number=NUMBERS, above=st.integers(0, 7))
    def the_place_of_an_unclaimed_span_arrives(self, trace: int, number: int, above: int) -> None:
        item = link(number, above or None, trace=f"{trace:032x}")
        held = self.active(item.trace_id)
        if self.closed.get((item.trace_id, item.parent_span_id or "")):
            self.closed[item.trace_id, item.span_id] = True
        held.links.setdefault(item.span_id, item.parent_span_id)
        held.rooted |= item.parent_span_id is None
        self.add(item, Gathered())

    @rule(trace=TRACES, number=NUMBERS, time=st.integers(1, 9))
    def a_log_record_arrives(self, trace: int, number: int, time: int) -> None:
        trace_id, span_id, log = f"{trace:032x}", f"{number:016x}", SpanEvent(name="x" * time, time=time)
        expected = Gathered()
        if self.closed.get((trace_id, span_id)):
            expected = Gathered([Loss("log", "log_late", trace_id)])
        else:
            logs = self.active(trace_id).logs
            if (span_id in logs or len(logs) < MOST_SPANS) and len(logs.get(span_id, ())) < MOST_SPANS:
                logs.setdefault(span_id, []).append(log)
            else:
                expected = Gathered([Loss("log", "log_limit", trace_id)])
        self.add(CapturedLog(trace, number, log), expected)

    @rule(number=st.integers(0, 3))
    def a_request_ends(self, number: int) -> None:
        self.roots += number
        self.add(RootsTaken(number), Gathered())

    @rule(trace=TRACES)
    def a_trace_is_forgotten(self, trace: int) -> None:
        self.gatherer.forget([f"{trace:032x}"])
        self.traces.pop(f"{trace:032x}", None)

    @rule(seconds=st.sampled_from([1.0, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        """The gatherer is called when it says, as the engine does."""
        self.now += seconds
        due = [
            trace_id
            for trace_id, trace in self.traces.items()
            if trace.spans and trace.seen + (QUIET if trace.rooted else IDLE) <= self.now
        ]
        found = self.gatherer.close_due(self.now) if self.now >= self.gatherer.next_close else []
        expected = {trace_id: self.close(trace_id) for trace_id in due}
        assert {group.spans[0].trace_id: group for group in found} == expected

    @invariant()
    def it_holds_what_arrived(self) -> None:
        assert self.gatherer.roots_taken == self.roots
        open_traces = [trace for trace in self.traces.values() if trace.spans]
        rooted = [trace for trace in open_traces if trace.rooted]
        assert self.gatherer.size == (len(open_traces), sum(trace.size for trace in open_traces))
        assert self.gatherer.rooted == (len(rooted), sum(trace.size for trace in rooted))
        for trace_id, trace in self.traces.items():
            assert self.gatherer.waiting(trace_id) == len(trace.spans)
        active = {t for t, trace in self.traces.items() if trace.spans or trace.seen >= self.latest - IDLE}
        assert self.gatherer.open_traces == active


TestTraceGathering = TraceGathering.TestCase
TestTraceGathering.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
