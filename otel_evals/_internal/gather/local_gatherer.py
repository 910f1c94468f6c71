"""Collects the spans of open traces until a run's root has ended, within bounds.

Runs on the engine's thread only. A run closes after a grace period from its root's end, or at once if it is
complete; a span that arrives after that is late. Evictions are returned with their reason.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from math import inf
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals._internal.capture.items import (
    CapturedLog,
    CapturedSpan,
    IntakeItem,
    RecordedSpan,
    UnclaimedSpan,
)
from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.gather.gatherer import CLOSED_AT_ONCE, AssemblyLimits, SpanGroup
from otel_evals._internal.gather.held_logs import HeldLogs, take_choice
from otel_evals._internal.gather.lost_spans import LostSpans
from otel_evals._internal.gather.tops import tops_of
from otel_evals._internal.model import Loss, SpanEvent, SpanRecord
from otel_evals._internal.model.sizes import size_of_span

_logger = logging.getLogger(__name__)
_REMEMBERED = 20_000
_ALL_ENDED_SECONDS = 0.02
"""Seconds until a run closes when no span of its trace is open: for log records of other threads."""
_UNREADABLE_SPAN = Loss("span", "span_unreadable", "")
_UNREADABLE_LOG = Loss("log", "log_unreadable", "")


class _Trace(msgspec.Struct, gc=False):
    last_seen: float
    spans: dict[str, _Span] = {}  # a struct copies it
    size: int = 0


class _Span(msgspec.Struct, gc=False):
    record: SpanRecord
    above: str | None  # id of the nearest known ancestor
    is_root: bool
    size: int


class LocalGatherer:
    """Collects spans and log records by trace, and closes runs; all times are the caller's clock."""

    def __init__(self, limits: AssemblyLimits, open_spans: Callable[[], OpenSpansNow] | None = None) -> None:
        self._look = open_spans
        self._open: OpenSpansNow | None = None
        self._limits = limits
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._due: list[tuple[float, int, str, str]] = []
        """A heap of the times at which runs close, each with its number, trace and root; of one time, first in is first out."""
        self._numbers = count()
        self._closed: dict[str, None] = {}
        """Ids of spans of closed runs. The collector would walk an OrderedDict."""
        self._logs = HeldLogs(limits.max_spans_per_trace, limits.max_bytes)
        self._lost = LostSpans(_REMEMBERED)
        self._bytes = 0
        self.next_close = inf  # on the caller's clock, as all times
        self.next_eviction = inf

    def waiting(self, trace_id: str) -> int:
        trace = self._traces.get(trace_id)
        return 0 if trace is None else len(trace.spans)

    @property
    def open_traces(self) -> set[str]:
        return set(self._traces)

    def add(self, items: Collection[IntakeItem], now: float) -> list[Loss]:
        """Add items. Never raises; an item that cannot be decoded is a loss."""
        losses: list[Loss] = []
        self._open = None
        for item in items:
            try:
                if isinstance(item, CapturedLog):
                    self._add_log(item, losses)
                elif not isinstance(item, UnclaimedSpan):  # in process, the owner is known without them
                    self._add_span(item, now, losses)
            except Exception:
                _logger.debug("a captured item could not be decoded", exc_info=True)
                losses.append(_UNREADABLE_LOG if isinstance(item, CapturedLog) else _UNREADABLE_SPAN)
        return losses

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close complete runs, some hundred at a time; with infinity, all."""
        closed: list[SpanGroup] = []
        while self._due and self._due[0][0] <= now and (len(closed) < CLOSED_AT_ONCE or now == inf):
            _, _, trace_id, root = heappop(self._due)
            group = self._close_root(trace_id, root)
            if group is not None:
                closed.append(group)
        self.next_close = self._due[0][0] if self._due else inf
        return closed

    def evict_old(self, now: float) -> list[Loss]:
        """Evict the traces whose root has not ended, and that had no new span for `max_age`."""
        lost: list[Loss] = []
        while self._traces:
            trace_id, trace = next(iter(self._traces.items()))
            self.next_eviction = trace.last_seen + self._limits.max_age
            if now < self.next_eviction:
                return lost
            lost += self._evict(trace_id, "root_never_ended")
        self.next_eviction = inf
        return lost

    def end(self, items: Collection[IntakeItem]) -> list[Loss]:
        ended = {root for *_, root in self._due}
        places = dict(_places_of(items))
        for trace_id, trace in self._traces.items():
            places |= {s: _Place(trace_id, span.above, s in ended) for s, span in trace.spans.items()}
        self._traces.clear()
        return _count_unread(places, self._closed)

    def _add_span(self, item: CapturedSpan | RecordedSpan, now: float, losses: list[Loss]) -> None:
        record = item.record()
        span_id, trace_id = record.span_id, record.trace_id
        owner = f"{item.owner:016x}" if item.owner else None
        above = owner or record.parent_span_id
        if above in self._closed or span_id in self._closed:
            losses.append(Loss("span", "span_late", trace_id))
            self._remember(span_id)
            return
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = _Trace(now)
            self.next_eviction = min(self.next_eviction, now + self._limits.max_age)
        else:
            trace.last_seen = now
            self._traces.move_to_end(trace_id)
        if self._lost.evicted and self._lost.was_evicted(record):
            self._drop_with_evicted(trace, record, losses)
            return
        if len(trace.spans) >= self._limits.max_spans_per_trace and owner:
            self._drop(record, owner, losses)
            return
        size, before = size_of_span(record), trace.spans.get(span_id)
        trace.spans[span_id] = _Span(record, above, owner is None, size)
        grown = size if before is None else size - before.size  # an id generator may repeat itself
        trace.size += grown
        self._bytes += grown
        if owner is None and above not in trace.spans:
            heappush(self._due, (now + self._grace(record), next(self._numbers), trace_id, span_id))
            self.next_close = min(self.next_close, self._due[0][0])
        if len(self._traces) > self._limits.max_traces or self._bytes > self._limits.max_bytes:
            losses += self._evict_excess(trace_id)

    def _drop(self, span: SpanRecord, owner: str, losses: list[Loss]) -> None:
        """Drop a span beyond the limit; its run is marked as truncated when it closes."""
        self._remember(span.span_id)  # its children then count as late and start no run
        self._lost.drop(span.span_id, owner)
        losses.append(Loss("span", "span_limit_per_trace", span.trace_id))

    def _drop_with_evicted(self, trace: _Trace, span: SpanRecord, losses: list[Loss]) -> None:
        """Drop a span that began before its trace was evicted, and all spans below it: their run is lost."""
        tops = tops_of(trace.spans, lambda span_id: trace.spans[span_id].above)
        below = [span_id for span_id, top in tops.items() if trace.spans[top].above == span.span_id]
        for span_id in below:
            held = trace.spans.pop(span_id)
            trace.size -= held.size
            self._bytes -= held.size
            self._remember(span_id)
        self._remember(span.span_id)
        if not trace.spans:
            self._traces.pop(span.trace_id, None)
        losses.append(Loss("span", "span_late", span.trace_id, 1 + len(below)))

    def _grace(self, root: SpanRecord) -> float:
        """Return the seconds until the run of a root that has ended closes: few if no other span is open."""
        if self._look is None:
            return self._limits.grace
        now = self._open = self._open or self._look()
        trace_id, parent_id = int(root.trace_id, 16), int(root.parent_span_id or "0", 16)
        ended = now.only_above(trace_id, int(root.span_id, 16), parent_id)
        if not ended or now.may_be_checked(trace_id, parent_id):
            return self._limits.grace
        return min(self._limits.grace, _ALL_ENDED_SECONDS)

    def _add_log(self, item: CapturedLog, losses: list[Loss]) -> None:
        span_id = format_span_id(item.span_id)
        if span_id in self._closed:
            losses.append(Loss("log", "log_late", format_trace_id(item.trace_id)))
        elif lost := self._logs.add(span_id, item.event):
            losses.append(Loss("log", "log_limit", format_trace_id(item.trace_id), lost))

    def _close_root(self, trace_id: str, root: str) -> SpanGroup | None:
        """Close the run of a root; returns None if it was evicted, or if it closes with a span above it."""
        trace = self._traces.get(trace_id)
        if trace is None or root not in trace.spans:
            return None
        spans, closed, top = trace.spans, self._closed, trace.spans[root].record
        mine = self._members(trace, root)
        if not mine:
            return None
        records: list[SpanRecord] = []
        links: dict[str, str | None] = {}
        size, with_logs = 0, False
        for span_id in mine:
            held = spans.pop(span_id)
            record, size = held.record, size + held.size
            closed[span_id] = None
            if self._logs.by_span and (logs := self._logs.take(span_id)):
                record = replace(record, logs=tuple(logs))
            if self._lost.dropped_below and self._lost.has_dropped_below(span_id):
                record = replace(record, spans_dropped=True)
            with_logs = with_logs or bool(record.logs)
            records.append(record)
            if span_id != root and held.above != record.parent_span_id:
                links[span_id] = held.above
        trace.size -= size
        self._bytes -= size
        if len(closed) > _REMEMBERED:
            self._forget_closed()
        if self._logs.by_span and (choice := take_choice(top, self._logs)):
            records.append(choice)
        if not spans:
            self._traces.pop(trace_id, None)
        return SpanGroup(tuple(records), links, 0 if with_logs else size)

    def so_far(self, trace_id: str) -> SpanGroup:
        """Return the spans of a trace whose runs have not closed, with their log records."""
        trace = self._traces.get(trace_id)
        held = () if trace is None else trace.spans.values()
        links = {h.record.span_id: h.above for h in held if h.above != h.record.parent_span_id}
        logs = self._logs.by_span
        records = (h.record if h.record.span_id not in logs else _with_logs(h.record, logs) for h in held)
        return SpanGroup(tuple(records), links)

    def _members(self, trace: _Trace, root: str) -> list[str]:
        """Return the spans whose topmost span is a root, in the order of their arrival."""
        spans, near = trace.spans, []
        if spans[root].above not in spans:
            for span_id, held in spans.items():
                if span_id == root or held.above == root:
                    near.append(span_id)
            if len(near) == len(spans):
                return near
        tops = tops_of(spans, lambda span_id: spans[span_id].above)
        return [span_id for span_id in spans if tops[span_id] == root]

    def _remember(self, span_id: str) -> None:
        self._closed[span_id] = None
        if len(self._closed) > _REMEMBERED:
            self._forget_closed()

    def _forget_closed(self) -> None:
        """Forget many at once: the first key is found by scanning the places of the deleted ones."""
        for span_id in list(islice(self._closed, len(self._closed) - _REMEMBERED * 15 // 16)):
            del self._closed[span_id]

    def _evict_excess(self, newest: str) -> list[Loss]:
        lost: list[Loss] = []
        while excess := self._limits.excess(self._traces, self._bytes, newest):
            lost += self._evict(*excess)
        return lost

    def _evict(self, trace_id: str, reason: str) -> list[Loss]:
        """Drop a trace and the runs in it, including their spans that have not ended yet."""
        trace = self._traces.pop(trace_id)
        self._bytes -= trace.size
        tops = set(tops_of(trace.spans, lambda span_id: trace.spans[span_id].above).values())
        runs = {top if (held := trace.spans[top]).is_root else held.above or top for top in tops}
        for span_id in (*trace.spans, *runs):
            self._remember(span_id)
        self._lost.evict(trace_id, (held.record for held in trace.spans.values()))
        return [Loss("run", reason, trace_id, len(runs))] if runs else []


def _with_logs(span: SpanRecord, logs: Mapping[str, Sequence[SpanEvent]]) -> SpanRecord:
    return replace(span, logs=tuple(logs[span.span_id]))


class _Place(NamedTuple):
    trace_id: str
    above: str | None
    """Id of the nearest claimed span above that was open, or of the parent."""
    is_root: bool
    """True if no claimed span above was open: a run ended with it, unless it joins another."""


def _places_of(items: Iterable[IntakeItem]) -> Iterator[tuple[str, _Place]]:
    for item in items:
        if isinstance(item, CapturedSpan):
            context, parent = item.span.context, item.span.parent
            above = item.owner or (parent.span_id if parent else 0)
            place = _Place(
                format_trace_id(context.trace_id), format_span_id(above) if above else None, not item.owner
            )
            yield format_span_id(context.span_id), place
        elif isinstance(item, RecordedSpan):
            span = item.span
            above_record = format_span_id(item.owner) if item.owner else span.parent_span_id
            yield span.span_id, _Place(span.trace_id, above_record, not item.owner)


def _count_unread(places: Mapping[str, _Place], closed: Collection[str]) -> list[Loss]:
    """Return the losses of the runs of these spans, without reading the spans.

    Spans below a closed run are late and start no run.
    """
    ended: Counter[str] = Counter()
    without_root: dict[str, set[str | None]] = {}
    for span_id, place in places.items():
        if place.above in closed or place.above in places:
            continue
        if place.is_root:
            ended[place.trace_id] += 1
        else:  # all those below one open span are one run
            without_root.setdefault(place.trace_id, set()).add(place.above)
    return [
        *(Loss("run", "undecided_at_shutdown", trace_id, count) for trace_id, count in ended.items()),
        *(Loss("run", "root_not_ended_at_shutdown", t, len(above)) for t, above in without_root.items()),
    ]
