"""The gatherer under both policies, compared after every event with plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from otel_evals._internal.capture.items import CapturedLog, IntakeItem, RecordedSpan, UnclaimedSpan
from otel_evals._internal.gather.closing import AssemblyLimits, QuietClosing
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.gather.traces import LiveClosing
from otel_evals._internal.model.spans import size_of_event, size_of_span
from otel_evals.model import Loss, SpanEvent, SpanRecord

GRACE, QUIET, IDLE, MAX_AGE, REMEMBER = 2.0, 2.0, 6.0, 10.0, 15.0
MOST_TRACES, MOST_SPANS = 2, 3
TRACES, NUMBERS = st.integers(1, 3), st.integers(1, 6)
Said = tuple[dict[str, tuple[str, ...]], bool]
"""A group: its spans with the names of their log records, and whether it lacks spans."""


@dataclass
class Held:
    span: SpanRecord
    above: str | None
    is_root: bool
    at: float


@dataclass
class Known:
    """What should be known of a trace."""

    spans: dict[str, Held] = field(default_factory=dict)
    links: dict[str, str | None] = field(default_factory=dict)
    logs: dict[str, list[SpanEvent]] = field(default_factory=dict)
    closed: dict[str, bool] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    first: float = 0.0
    last: float = 0.0
    rooted: bool = False
    lacks: bool = False
    evicted: bool = False

    def above(self, span_id: str | None) -> str | None:
        passed: set[str] = set()
        while span_id in self.links and span_id not in passed:
            assert span_id is not None
            passed.add(span_id)
            span_id = self.links[span_id]
        return span_id

    def top(self, span_id: str) -> str:
        way = {span_id: None}
        while (above := self.above(self.spans[span_id].above)) in self.spans:
            if above in way:
                # All spans of a circle have the top that was found first.
                circle = [*way][[*way].index(above) :]
                return min(circle, key=[*self.spans].index)
            way[above] = None
            span_id = above
        return span_id

    def below(self, top: str) -> list[str]:
        return [span_id for span_id in self.spans if self.top(span_id) == top]

    @property
    def runs(self) -> int:
        tops = {self.top(span_id) for span_id in self.spans}
        return len({t if (held := self.spans[t]).is_root else held.above or t for t in tops})

    @property
    def size(self) -> int:
        logs = sum(size_of_event(log) for held in self.logs.values() for log in held)
        spans = sum(size_of_span(held.span) for held in self.spans.values())
        return 1_000 + spans + logs + 200 * len(self.links) + 100 * len(self.closed)

    @property
    def is_closed(self) -> bool:
        return not (self.spans or self.links or self.logs) and bool(self.closed)


class Gathering(RuleBasedStateMachine):
    """Spans, places of unclaimed spans and log records arrive in any order, and time passes."""

    whole: bool

    @initialize(most_bytes=st.sampled_from([6_000, 10_000, 10**6]))
    def begin(self, most_bytes: int) -> None:
        limits = AssemblyLimits(
            grace=GRACE,
            max_age=MAX_AGE,
            max_traces=MOST_TRACES,
            max_spans_per_trace=MOST_SPANS,
            max_bytes=most_bytes,
        )
        quiet = QuietClosing(QUIET, IDLE, MAX_AGE, lambda span: True)
        closing: LiveClosing | QuietClosing = quiet if self.whole else LiveClosing(limits)
        closing.remember = REMEMBER
        self.gatherer = Gatherer(limits, closing)
        self.gatherer.reports_left = True
        self.most_bytes, self.now = most_bytes, 0.0
        self.known: dict[str, Known] = {}
        """The least recently active first."""

    # --- what it should do ---

    def active(self, trace_id: str, known: Known) -> None:
        self.known.pop(trace_id, None)
        self.known[trace_id] = known
        known.last = self.now

    def late(self, known: Known, span: SpanRecord, above: str | None) -> str | None:
        if known.closed.get(span.span_id) or span.span_id in known.spans:
            return "span_repeated"
        late = known.evicted or span.span_id in known.closed
        return "span_late" if late or known.closed.get(known.above(above) or "") else None

    def take(self, trace_id: str, known: Known, span_ids: list[str]) -> Said:
        """Close spans; returns what they should say."""
        said = {i: tuple(log.name for log in known.logs.pop(i, [])) for i in span_ids}
        parents = {known.spans[i].span.parent_span_id for i in span_ids}
        is_all = len(span_ids) == len(known.spans)
        links = {i: known.above(i) for i in known.links if is_all or i in parents}
        around = {i: known.links[i] if is_all else above for i, above in links.items()}
        for each in [*around, *(parents - known.links.keys() - known.spans.keys() - {None})]:
            if each and each in known.logs:
                # They stay: some may belong to other runs below the span.
                said[each] = tuple(log.name for log in known.logs[each])
        for span_id in span_ids:
            del known.spans[span_id]
            known.ended.pop(span_id, None)
            known.closed[span_id] = True
        missing = parents.union(around.values()) - known.links.keys() - known.spans.keys()
        for each in missing if self.whole else ():
            if each is not None:
                known.closed.setdefault(each, False)
        lacks = known.lacks
        if not known.spans:
            self.empty(known, self.whole)
            if self.whole:
                known.closed |= dict.fromkeys(links, True)
            self.active(trace_id, known)
        return said, lacks

    def empty(self, known: Known, whole: bool) -> None:
        known.spans.clear()
        known.ended.clear()
        known.rooted = known.lacks = False
        if whole:
            known.links.clear()
            known.logs.clear()

    def evict(self, trace_id: str, reason: str) -> Loss:
        known = self.known[trace_id]
        loss = Loss("run", reason, trace_id, known.runs)
        known.evicted = True
        known.closed |= dict.fromkeys(known.spans, True)
        self.empty(known, True)
        self.active(trace_id, known)
        return loss

    def excess(self, newest: str) -> Iterator[Loss]:
        while True:
            open_ones = {i: each for i, each in self.known.items() if each.spans}
            others = {i: each.size for i, each in open_ones.items() if not each.rooted}
            size = sum(each.size for each in open_ones.values())
            greedy = newest in open_ones and open_ones[newest].size > self.most_bytes // 2
            if size > self.most_bytes and greedy:
                yield self.evict(newest, "too_many_bytes")
            elif size > self.most_bytes and sum(others.values()) > self.most_bytes * 0.1:
                yield self.evict(next(iter(others)), "too_many_bytes")
            elif len(open_ones) > MOST_TRACES and len(others) > 1:
                yield self.evict(next(iter(others)), "too_many_traces")
            else:
                return

    def unclaimed_excess(self) -> Iterator[Loss]:
        while True:
            idle = {i: k for i, k in self.known.items() if not (k.spans or k.is_closed)}
            if sum(known.size for known in idle.values()) <= self.most_bytes:
                return
            oldest = next(iter(idle))
            lost = sum(map(len, self.known.pop(oldest).logs.values()))
            if lost:
                yield Loss("log", "log_limit", oldest, lost)

    def arrives(self, span: SpanRecord, owner: str | None) -> list[Loss]:
        trace_id, span_id, above = span.trace_id, span.span_id, owner or span.parent_span_id
        known = self.known.get(trace_id, Known())
        reason = self.late(known, span, above)
        if reason is not None:
            if reason == "span_late":
                known.closed[span_id] = True
            return [Loss("span", reason, trace_id)]
        if not known.spans:
            known.first = self.now
        self.active(trace_id, known)
        if len(known.spans) >= MOST_SPANS and (span.parent_span_id if self.whole else owner):
            known.lacks = known.closed[span_id] = True
            more = [*self.excess(trace_id), *self.unclaimed_excess()]
            return [Loss("span", "span_limit_per_trace", trace_id), *more]
        known.spans[span_id] = Held(span, above, owner is None, self.now)
        if self.whole:
            known.rooted |= span.parent_span_id is None
        elif owner is None and above not in known.spans:
            known.ended[span_id] = self.now + GRACE
        return [*self.excess(trace_id), *self.unclaimed_excess()]

    def closes(self, closed: set[str]) -> list[Said]:
        known = [*self.known.items()]
        return [self.take(i, each, part) for i, each in known for part in self.parts(each, closed)]

    def parts(self, known: Known, closed: set[str]) -> list[list[str]]:
        if not self.whole:
            due = [root for root, at in known.ended.items() if at <= self.now]
            for root in due:
                del known.ended[root]
            return [part for root in due if root in known.spans and (part := known.below(root))]
        if not known.spans:
            return []
        if known.last + (QUIET if known.rooted else IDLE) <= self.now:
            return [[*known.spans]]
        if self.now - known.first < MAX_AGE:
            return []
        tops = {known.top(span_id) for span_id in known.spans}
        rested = {
            top: self.now - max(known.spans[i].at for i in part) for top in tops if (part := known.below(top))
        }
        # An active trace is looked at once in an idle time.
        must = self.now - known.first >= MAX_AGE + IDLE
        return [
            known.below(top)
            for top, seconds in rested.items()
            if seconds >= IDLE and (top in closed or (must and seconds >= 2 * IDLE))
        ]

    # --- what happens ---

    def add(self, item: IntakeItem, expected: list[Loss]) -> None:
        assert self.gatherer.add([item], self.now) == expected

    @rule(
        trace=TRACES,
        number=NUMBERS,
        places=st.tuples(st.integers(0, 5), st.integers(0, 5)),
        start=st.integers(1, 4),
        long=st.sampled_from([10, 900, 1_500]),
    )
    def a_span_arrives(self, trace: int, number: int, places: tuple[int, int], start: int, long: int) -> None:
        """In process, its parent and the open span above it, if any, have lower numbers."""
        parent, owner = (place % number for place in places)
        if self.whole:
            parent, owner = places[0] if places[0] != number else 0, 0
        ids = [f"{trace * 16 + each:016x}" if each else None for each in (parent, owner)]
        span = SpanRecord(
            trace_id=f"{trace:032x}",
            span_id=f"{trace * 16 + number:016x}",
            parent_span_id=ids[0],
            name="x" * long,
            start_time=start,
            end_time=start + 1,
        )
        item = RecordedSpan(span, trace * 16 + owner if owner else 0)
        self.add(item, self.arrives(span, ids[1]))

    @rule(trace=TRACES, number=NUMBERS, parent=st.integers(0, 6))
    def the_place_of_an_unclaimed_span_arrives(self, trace: int, number: int, parent: int) -> None:
        trace_id, span_id = f"{trace:032x}", f"{trace * 16 + number:016x}"
        above = f"{trace * 16 + parent:016x}" if parent else None
        if not self.whole:
            return  # in process, owners are known without the spans between
        known = self.known.get(trace_id, Known())
        if not known.evicted:
            self.active(trace_id, known)
            known.rooted |= above is None
            if span_id not in known.links and span_id not in known.spans:
                if known.closed.get(known.above(above) or ""):
                    known.closed[span_id] = True
                else:
                    known.links[span_id] = above
        expected = [*self.excess(trace_id), *self.unclaimed_excess()]
        self.add(UnclaimedSpan(trace_id, span_id, above), expected)

    @rule(
        trace=TRACES,
        number=NUMBERS,
        name=st.sampled_from(["gen_ai.choice", "said"]),
        long=st.sampled_from([0, 1_000]),
    )
    def a_log_record_arrives(self, trace: int, number: int, name: str, long: int) -> None:
        trace_id, span_id = f"{trace:032x}", f"{trace * 16 + number:016x}"
        log, known = SpanEvent(name=name, body="x" * long, time=1), self.known.get(trace_id, Known())
        expected: list[Loss] = []
        if known.closed.get(span_id) or known.evicted:
            expected.append(Loss("log", "log_late", trace_id))
        else:
            self.active(trace_id, known)
            lost = 0
            if span_id not in known.logs and len(known.logs) >= MOST_SPANS:
                lost = len(known.logs.pop(next(iter(known.logs))))
            held = known.logs.setdefault(span_id, [])
            if len(held) < MOST_SPANS:
                held.append(log)
            else:
                lost += 1
            expected += [Loss("log", "log_limit", trace_id, lost)] if lost else []
        expected += [*self.excess(trace_id), *self.unclaimed_excess()]
        self.add(CapturedLog(trace, trace * 16 + number, log), expected)

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, 6.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        """The gatherer is called when it says, as the engine does."""
        self.now += seconds
        found = self.gatherer.close_due(self.now) if self.now >= self.gatherer.next_close else []
        closed = {span.span_id for group in found for span in group.spans}
        assert sorted(map(said, found), key=repr) == sorted(self.closes(closed), key=repr)
        losses = []
        for trace_id, known in [*self.known.items()]:
            if known.is_closed and known.last + REMEMBER <= self.now:
                del self.known[trace_id]
            elif known.spans and known.last + MAX_AGE <= self.now and not self.whole:
                losses.append(self.evict(trace_id, "root_never_ended"))
        assert (
            self.gatherer.evict_old(self.now) if self.now >= self.gatherer.next_eviction else []
        ) == losses

    @rule(trace=TRACES)
    def a_trace_is_left_to_another_process(self, trace: int) -> None:
        self.gatherer.forget([f"{trace:032x}"])
        self.known.pop(f"{trace:032x}", None)

    @invariant()
    def it_holds_what_it_should(self) -> None:
        open_ones = {i: known for i, known in self.known.items() if known.spans}
        assert self.gatherer.usage == (len(open_ones), sum(known.size for known in open_ones.values()))
        rooted = [known.size for known in open_ones.values() if known.rooted]
        assert self.gatherer.rooted == (len(rooted), sum(rooted))
        for trace in range(1, 4):
            trace_id = f"{trace:032x}"
            known = self.known.get(trace_id, Known())
            assert self.gatherer.waiting(trace_id) == len(known.spans)
            so_far = said(self.gatherer.so_far(trace_id))[0]
            names = {i: tuple(log.name for log in known.logs.get(i, [])) for i in known.spans}
            assert {i: so_far[i] for i in known.spans} == names
        for trace_id in self.gatherer.take_left():
            assert trace_id not in open_ones


def said(group: SpanGroup) -> Said:
    spans = {span.span_id: tuple(log.name for log in span.logs) for span in group.spans}
    return spans, any(span.spans_dropped for span in group.spans)


class LiveGathering(Gathering):
    whole = False


class QuietGathering(Gathering):
    whole = True


TestLive: Any = LiveGathering.TestCase
TestQuiet: Any = QuietGathering.TestCase
TestLive.settings = TestQuiet.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
