"""Collects the received spans of traces until a trace is complete, within bounds.

Spans of several processes arrive in any order: a child may arrive long before its parent, and a service
exports its spans without waiting for others. A trace is complete `quiet` seconds after its last span if its
root span has arrived, otherwise after `idle` seconds. An active trace is kept; after `max_age`, its ended and
idle invocations are closed by themselves. A span that arrives after that opens the spans around it again.

Engine's thread only.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from math import inf
from typing import NamedTuple

from msgspec.structs import replace
from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals.model import Loss, SpanRecord
from otel_evals.sdk.pipeline import (
    CLOSED_AT_ONCE,
    AssemblyLimits,
    CapturedLog,
    CapturedSpan,
    Gathered,
    IntakeItem,
    Judged,
    LostSpans,
    OpenTrace,
    RecordedSpan,
    SpanGroup,
    UnclaimedSpan,
    size_of_span,
)
from otel_evals_gateway._internal.closed_spans import ClosedSpans
from otel_evals_gateway._internal.judged_traces import JudgedTraces
from otel_evals_gateway._internal.open_traces import OpenTraces, UnclaimedTraces

_logger = logging.getLogger(__name__)
_REMEMBERED = 100_000
"""Evicted traces that are remembered."""
_UNCLAIMED = 50_000
"""Traces without a claimed span that are remembered."""
_LINKS_PER_TRACE = 10_000
_DUE_PER_TRACE = 4  # entries above this belong to evicted traces
_BYTES_PER_CLOSED = 256
"""Of `max_bytes`, for each remembered span."""
_ROOM_SECONDS = 0.05
"""Seconds until the next look for room to judge complete traces."""
_LOOK_SECONDS = 0.5
"""Seconds until the next look at a trace of a source that is behind."""


class SourceItems(NamedTuple):
    """The source and the time of the items that follow; by default, the time of their arrival."""

    source: Hashable = None
    at: float = 0.0
    finished: bool = False
    """True for items of runs that were judged before, which are only remembered. The source is read from `at`
    on: earlier spans are unknown."""


class LostItems(NamedTuple):
    """Items that found no room: the runs of their traces lack them, and are not scored."""

    items: Sequence[IntakeItem]


class RootsTaken(NamedTuple):
    """Follows the items of a request, with the number of root spans among them."""

    number: int


class SourceClocks(NamedTuple):
    """The times up to which all items of each source have arrived, on the clock of the arrivals."""

    times: Mapping[Hashable, float]


class TraceGatherer:
    """Collects spans and log records by trace, and closes traces.

    Complete traces stay open while there is no room to judge them. Items after `SourceItems` have the
    time of their source, and their trace is complete by the clocks of its sources: a backlog must not make it
    look quiet.

    Args:
        limits: bounds of the open traces.
        quiet: seconds.
        idle: seconds.
        opens_run: returns True for an agent or a workflow, which may be judged while its trace continues.
        room: returns how many traces can be judged now.
        remember: seconds for which the spans of closed runs are remembered.
        judged: keeps judged traces; None if the store does.
    """

    def __init__(
        self,
        limits: AssemblyLimits,
        *,
        quiet: float,
        idle: float,
        opens_run: Callable[[SpanRecord], bool],
        room: Callable[[], float] = lambda: inf,
        remember: float = 600.0,
        judged: JudgedTraces | None = None,
    ) -> None:
        self._limits = limits
        self._room = room
        self._quiet = min(quiet, idle)
        self._idle = idle
        self._opens_run = opens_run
        self._traces = OpenTraces(limits)
        self._unclaimed = UnclaimedTraces(_UNCLAIMED, limits.max_bytes)
        self._due: list[tuple[float, str]] = []
        self._closed = ClosedSpans(remember, limits.max_bytes // _BYTES_PER_CLOSED)
        self._judged = judged
        self._outdated: list[SpanGroup] = []
        """Without spans, for evaluations that cannot be repeated."""
        self._lost = LostSpans(_REMEMBERED)
        self._source = SourceItems()
        self._clocks: Mapping[Hashable, float] = {}
        self._latest = 0.0
        self.roots_taken = 0
        """Root spans of the requests that were taken, by `RootsTaken`."""
        self.keeps_open = False  # True if a journal keeps open traces when the process ends
        self.waits_for_room = False
        """True while complete traces stay open for lack of room to judge them."""
        self.next_close = inf
        """When to call `close_due` again, on the caller's clock."""
        self.next_eviction = inf  # traces are evicted only for room, on arrival

    def waiting(self, trace_id: str) -> int:
        """Count the spans of an open trace. Any thread may call it."""
        return len(trace.spans) if (trace := self._traces.get(trace_id)) else 0

    @property
    def size(self) -> tuple[int, int]:
        """Open traces with claimed spans, and their bytes. Any thread may read it."""
        return len(self._traces), self._traces.bytes

    @property
    def rooted(self) -> tuple[int, int]:
        """Open traces that are never evicted for others, and their bytes. Any thread may read it."""
        return self._traces.rooted

    @property
    def closed_spans(self) -> dict[str, int]:
        """Counts of closed runs' remembered spans, in total and forgotten early."""
        forgotten = self._closed.forgotten + (self._judged.forgotten if self._judged else 0)
        return {"remembered": len(self._closed), "forgotten_early": forgotten}

    @property
    def open_traces(self) -> set[str]:
        """Ids of the incomplete traces, including active ones without a claimed span."""
        latest = min([self._latest, *self._clocks.values()])
        return {*self._traces, *self._unclaimed.active_since(latest - self._idle)}

    def add(self, items: Iterable[IntakeItem], now: float) -> Gathered:
        """Add received spans and log records. Never raises; an undecodable item is a loss."""
        gathered = Gathered()
        self._latest = now
        at = self._source.at or now
        for item in items:
            try:
                if isinstance(item, SourceItems):
                    self._source, at = item, item.at or now
                elif self._source.finished:
                    self._add_finished(item, at)
                elif isinstance(item, UnclaimedSpan):
                    self._add_link(item, at)
                elif isinstance(item, CapturedLog):
                    self._add_log(item, at, gathered)
                elif isinstance(item, SourceClocks):
                    self._clocks = item.times
                elif isinstance(item, LostItems):
                    self._add_lost(item.items, at)
                elif isinstance(item, RootsTaken):
                    self.roots_taken += item.number
                else:
                    self._add_span(item, at, gathered)
            except Exception:
                _logger.debug("a received item could not be decoded", exc_info=True)
                log, span = Loss("log", "log_unreadable", ""), Loss("span", "span_unreadable", "")
                gathered.losses.append(log if isinstance(item, CapturedLog) else span)
        return gathered

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close complete traces, as many as there is room for; with infinity, all with their root span.

        At infinity, the traces of a source stay open: their next reader gets them from the start.
        """
        room = self._room()
        closed, self._outdated = self._outdated, []
        if now == inf:
            rooted = [t for t, trace in self._traces.items() if trace.rooted and not trace.sources]
            return closed + [self._close(t) for t in rooted[: None if room == inf else max(0, int(room))]]
        while self._due and self._due[0][0] <= now and len(closed) < min(room, CLOSED_AT_ONCE):
            _, trace_id = heapq.heappop(self._due)
            trace = self._traces.get(trace_id)
            if trace is None:
                continue
            at = min([now, *(self._clocks.get(source, -inf) for source in trace.sources)])
            if self._complete_at(trace) <= at:
                closed.append(self._close(trace_id))
            elif at - trace.first_seen >= self._limits.max_age:
                closed += self._close_ended(trace_id, trace, at)
            if trace_id in self._traces:
                behind = now - at > _LOOK_SECONDS
                left = _LOOK_SECONDS if behind else min(self._complete_at(trace) - at, self._idle)
                self._call_at(now + left, trace_id)
        self.next_close = self._due[0][0] if self._due else inf
        self.waits_for_room = len(closed) >= room
        if self.waits_for_room:
            self.next_close = max(self.next_close, now + _ROOM_SECONDS)
        return closed

    def evict_old(self, now: float) -> list[Loss]:
        """Evict nothing for its age: a trace without new spans is complete."""
        return []

    def end(self, items: Iterable[IntakeItem]) -> list[Loss]:
        """Forget all traces; return the runs lost with them and with the remaining items."""
        if self.keeps_open:
            self._traces = OpenTraces(self._limits)
            return []
        lost = self.add(items, self._latest).losses
        ended = [trace_id for trace_id, trace in self._traces.items() if not trace.sources]
        return lost + [x for t in ended for x in self._evict(t, "root_not_ended_at_shutdown")]

    def forget(self, traces: Iterable[str]) -> None:
        """Forget open traces without a loss: another process gathers them, or this one again."""
        for trace_id in traces:
            self._unclaimed.take(trace_id)
            trace = self._traces.take(trace_id)
            if trace is not None and trace.judged is not None and self._judged is not None:
                # Only the late spans come again, if nobody else reads the source meanwhile.
                self._judged.add(trace_id, trace, [*trace.spans.values()], trace.links, self._latest)

    def forget_judged(self, sources: Set[Hashable]) -> None:
        """Forget the judged traces of sources that another process has read."""
        if self._judged is not None:
            self._judged.forget(sources)

    # --- what arrives ---

    def _add_span(self, item: CapturedSpan | RecordedSpan, now: float, gathered: Gathered) -> None:
        record = item.record()
        known = self._closed.get(record.trace_id, record.span_id)
        if known:
            gathered.losses.append(Loss("span", "span_repeated", record.trace_id))
            return
        if record.trace_id in self._lost.evicted:
            gathered.losses.append(Loss("span", "span_late", record.trace_id))
            return
        parent = record.parent_span_id
        above = self._above(record.trace_id, parent)
        is_late = known is False or (above is not None and self._closed.get(record.trace_id, above))
        if is_late and not self._open_again(record.trace_id, record.span_id, above, now):
            gathered.late.append((record, parent))
            self._remember(record.trace_id, record.span_id, arrived=True)
            return
        trace = self._claimed(record.trace_id, now)
        full = len(trace.spans) >= self._limits.max_spans_per_trace
        if full and parent and record.span_id not in trace.spans:
            trace.left_out.append(record.span_id)
            self._active(trace, now)  # but no more of it is kept
            gathered.losses.append(Loss("span", "span_limit_per_trace", record.trace_id))
            return
        before = trace.spans.get(record.span_id)
        if before is not None and before.end_time:
            gathered.losses.append(Loss("span", "span_repeated", record.trace_id))
            return
        self._keep(trace, record, now)
        if parent is None:
            self._root_arrived(record.trace_id, trace)
        self._evict_excess(record.trace_id, gathered)

    def _above(self, trace_id: str, parent: str | None) -> str | None:
        """Return the first id above a span that is not of an unclaimed span."""
        trace = self._traces.get(trace_id) or self._unclaimed.peek(trace_id)
        return parent if trace is None else trace.above(parent)

    def _open_again(self, trace_id: str, span_id: str, above: str | None, now: float) -> bool:
        """Open the judged spans around a late one; returns False if they are not kept."""
        if self._judged is None:
            return False
        found = self._judged.take(trace_id, span_id, above)
        waiting = self._traces.get(trace_id)
        if found:
            is_active = waiting is not None
            trace = self._claimed(trace_id, now)
            self._traces.take(trace_id)
            trace.rooted |= not is_active  # a complete trace needs only `quiet` seconds again
            for part in found:
                part.join(trace, now)
            self._traces.put(trace_id, trace)
            self._call_at(self._complete_at(trace), trace_id)
        elif (forgotten := self._judged.take_evaluations(trace_id)) is not None:
            self._replace_scores(forgotten)
        # They may have been opened by another late span.
        return bool(found) or (waiting is not None and waiting.judged is not None)

    def _replace_scores(self, judged: Judged) -> None:
        """Have scores replaced that were made without a span and cannot be made again."""
        self._outdated.append(SpanGroup((), {}, judged=judged))
        self.next_close = -inf

    def _add_finished(self, item: IntakeItem, since: float) -> None:
        if isinstance(item, CapturedLog):
            self._keep_finished(format_trace_id(item.trace_id), item, since)
            return
        span = item if isinstance(item, UnclaimedSpan) else item.record()
        trace_id, parent = span.trace_id, span.parent_span_id
        self._keep_finished(trace_id, span, since)
        if parent is not None:
            self._remember(trace_id, parent, arrived=False)
        self._remember(trace_id, span.span_id, arrived=True)

    def _keep_finished(
        self, trace_id: str, item: SpanRecord | UnclaimedSpan | CapturedLog, since: float
    ) -> None:
        if self._judged is not None:
            self._judged.add_finished(trace_id, item, self._source.source, since, self._latest)

    def _add_lost(self, items: Iterable[IntakeItem], now: float) -> None:
        for item in items:
            if isinstance(item, CapturedLog):
                trace_id, span_id = format_trace_id(item.trace_id), format_span_id(item.span_id)
            else:
                span = item if isinstance(item, UnclaimedSpan) else item.record()
                trace_id, span_id = span.trace_id, span.span_id
            self._any(trace_id, now).left_out.append(span_id)

    def _keep(self, trace: OpenTrace, record: SpanRecord, now: float) -> None:
        before = trace.spans.get(record.span_id)  # sent before it ended
        size = size_of_span(record) - (0 if before is None else size_of_span(before))
        trace.spans[record.span_id] = record
        trace.arrived[record.span_id] = now
        self._active(trace, now)
        trace.size += size
        self._traces.grown(trace, size)

    def _add_link(self, item: UnclaimedSpan, now: float) -> None:
        if item.trace_id in self._traces or self._closed.get(item.trace_id, item.span_id) is False:
            above = self._above(item.trace_id, item.parent_span_id)  # it may connect separate spans
            self._open_again(item.trace_id, item.span_id, above, now)
        trace = self._any(item.trace_id, now)
        if item.parent_span_id is not None and self._closed.get(item.trace_id, item.parent_span_id):
            self._remember(item.trace_id, item.span_id, arrived=True)
        self._grown(item.trace_id, trace, trace.add_link(item.span_id, item.parent_span_id, _LINKS_PER_TRACE))
        self._active(trace, now)
        if item.parent_span_id is None:
            self._root_arrived(item.trace_id, trace)

    def _add_log(self, item: CapturedLog, now: float, gathered: Gathered) -> None:
        span_id, trace_id = format_span_id(item.span_id), format_trace_id(item.trace_id)
        if self._closed.get(trace_id, span_id) or trace_id in self._lost.evicted:
            gathered.losses.append(Loss("log", "log_late", trace_id))
            return
        trace = self._any(trace_id, now)
        self._active(trace, now)
        size = trace.add_log(span_id, item.event, self._limits.max_spans_per_trace)
        if size is None:
            gathered.losses.append(Loss("log", "log_limit", trace_id))
        else:
            self._grown(trace_id, trace, size)
            self._evict_excess(trace_id, gathered)

    def _active(self, trace: OpenTrace, now: float) -> None:
        source = self._source.source
        if source is None:
            if not trace.sources:
                trace.last_seen = max(trace.last_seen, now)
            return
        trace.last_seen = max(trace.last_seen, now) if trace.sources else now
        if source not in trace.sources:
            trace.sources += (source,)

    def _grown(self, trace_id: str, trace: OpenTrace, size: int) -> None:
        if trace_id in self._traces:
            self._traces.grown(trace, size)
        else:
            self._unclaimed.grown(size)

    def _any(self, trace_id: str, now: float) -> OpenTrace:
        return self._traces.get(trace_id) or self._unclaimed.get(trace_id, now)

    def _claimed(self, trace_id: str, now: float) -> OpenTrace:
        """Return a trace that gets a claimed span."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._unclaimed.take(trace_id) or OpenTrace(now, now)
            self._traces.put(trace_id, trace)
            self._active(trace, now)
            self._call_at(self._complete_at(trace), trace_id)
        else:
            self._traces.touch(trace_id)
        return trace

    def _root_arrived(self, trace_id: str, trace: OpenTrace) -> None:
        if trace.rooted:
            return
        is_open = self._traces.take(trace_id) is not None
        trace.rooted = True
        if is_open:
            self._traces.put(trace_id, trace)
            self._call_at(self._complete_at(trace), trace_id)

    def _complete_at(self, trace: OpenTrace) -> float:
        return trace.last_seen + (self._quiet if trace.rooted else self._idle)

    def _call_at(self, due: float, trace_id: str) -> None:
        heapq.heappush(self._due, (due, trace_id))
        if len(self._due) > _DUE_PER_TRACE * (len(self._traces) + _UNCLAIMED):
            self._due = [each for each in self._due if each[1] in self._traces]
            heapq.heapify(self._due)
        self.next_close = -inf if self._outdated else self._due[0][0]

    def _close(self, trace_id: str) -> SpanGroup:
        trace = self._traces.pop(trace_id)
        for span_id in (*trace.links, *trace.left_out):
            self._remember(trace_id, span_id, arrived=True)
        return self._group(trace_id, trace, trace.spans, trace.links)

    def _group(
        self, trace_id: str, trace: OpenTrace, span_ids: Collection[str], links: Mapping[str, str | None]
    ) -> SpanGroup:
        """Return the spans with their log records, oldest first, and remember them and missing parents."""
        records, above, may_lack = [], set(links.values()), trace.may_lack(span_ids)
        for span_id in span_ids:
            record = trace.take_logs_of(span_id)
            if may_lack:
                record = replace(record, spans_dropped=True)
            above.add(record.parent_span_id)
            records.append(record)
            self._remember(trace_id, span_id, arrived=True)
        for parent in above:
            if parent is not None and parent not in trace.spans and parent not in trace.links:
                self._remember(trace_id, parent, arrived=False)
        records += trace.unclaimed_with_logs(links)
        if self._judged is None:
            return SpanGroup(tuple(records), dict(links))
        return self._judged.add(trace_id, trace, records, links, self._latest)

    def _close_ended(self, trace_id: str, trace: OpenTrace, now: float) -> list[SpanGroup]:
        """Close the ended invocations of an active trace that had no new span for `idle` seconds."""
        groups = []
        for top, inside in trace.tops().items():
            quiet_for = now - max(trace.arrived[span_id] for span_id in inside)
            if quiet_for >= self._idle and self._opens_run(trace.spans[top]):
                groups.append(self._group(trace_id, trace, inside, trace.links_of(inside)))
                for span_id in inside:
                    del trace.spans[span_id]
        self._traces.pop(trace_id)
        trace.size = trace.measure()
        (self._traces if trace.spans else self._unclaimed).put(trace_id, trace)
        return groups

    def _evict_excess(self, newest: str, gathered: Gathered) -> None:
        while excess := self._traces.excess(newest):
            gathered.losses += self._evict(*excess)

    def _evict(self, trace_id: str, reason: str) -> list[Loss]:
        trace = self._traces.pop(trace_id)
        roots = trace.tops()
        for span_id in trace.spans:
            self._remember(trace_id, span_id, arrived=True)
        self._lost.evict(trace_id, ())
        if trace.judged is not None:
            self._replace_scores(replace(trace.judged, revision=trace.next_revision))
        return [Loss("run", reason, trace_id, len(roots))]

    def _remember(self, trace_id: str, span_id: str, *, arrived: bool) -> None:
        if arrived or self._closed.get(trace_id, span_id) is None:
            self._closed.add(trace_id, span_id, arrived, self._latest)
