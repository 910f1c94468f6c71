"""Collects the received spans of traces until a trace is complete, within bounds.

For spans that come from other processes, whose order says nothing: a child may come long before its parent,
and a service exports its spans without waiting for others. A trace is complete once its root span has arrived
and nothing more for `quiet` seconds, or nothing at all for `idle` seconds. A trace that stays active is kept;
after `max_age`, the invocations in it that have ended and been idle are closed by themselves.

Lives on the engine's thread only.
"""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import inf

from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals.model import Loss, SpanRecord
from otel_evals.sdk.pipeline import (
    CLOSED_AT_ONCE,
    AssemblyLimits,
    CapturedLog,
    CapturedSpan,
    Gathered,
    IntakeItem,
    LostSpans,
    OpenTrace,
    RecordedSpan,
    SpanGroup,
    UnclaimedSpan,
    size_of_span,
)
from otel_evals_gateway._internal.unclaimed_traces import UnclaimedTraces

__all__ = ["TraceGatherer"]

_logger = logging.getLogger(__name__)
_REMEMBERED = 100_000
"""Spans of closed runs that are remembered, so that late spans and repeated ones are recognised."""
_UNCLAIMED = 50_000
"""Traces without a claimed span that are remembered: such a span may still come."""
_LINKS_PER_TRACE = 10_000
_DUE_PER_TRACE = 4  # times at which to look at one; more are those of traces that were evicted


class TraceGatherer:
    """Collects spans and log records by trace, and closes traces.

    Args:
        limits: the bounds; `grace` has no meaning here.
        quiet: seconds without a span after which a trace is complete whose root span has arrived.
        idle: seconds without a span after which any trace is complete.
        opens_run: whether a span is an agent or a workflow, which may be judged although its trace goes on.
    """

    def __init__(
        self, limits: AssemblyLimits, *, quiet: float, idle: float, opens_run: Callable[[SpanRecord], bool]
    ) -> None:
        self._limits = limits
        self._quiet = min(quiet, idle)
        self._idle = idle
        self._opens_run = opens_run
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        self._unclaimed = UnclaimedTraces(_UNCLAIMED, limits.max_bytes)
        self._due: list[tuple[float, str]] = []
        self._closed: OrderedDict[str, bool] = OrderedDict()
        """Span ids of closed runs: True for spans that arrived, False for parents that did not."""
        self._lost = LostSpans(_REMEMBERED)
        self._bytes = 0
        self._latest = 0.0
        self.keeps_open = False  # whether open traces are kept elsewhere when the process ends, so not lost
        self.source_waits = False  # whether what traces without their root lack is held back at its source
        self.next_close = inf
        """When to call `close_due` again, on the caller's clock."""
        self.next_eviction = inf  # traces are evicted for want of room only, when it is wanted

    def waiting(self, trace_id: str) -> int:
        """How many spans of a trace wait for it to be complete. May be called from any thread."""
        return len(trace.spans) if (trace := self._traces.get(trace_id)) else 0

    @property
    def size(self) -> tuple[int, int]:
        """Open traces with claimed spans, and their bytes. May be called from any thread."""
        return len(self._traces), self._bytes

    @property
    def open_traces(self) -> set[str]:
        """Ids of the traces that are not complete, and of those without a claimed span that are not idle."""
        return {*self._traces, *self._unclaimed.active_since(self._latest - self._idle)}

    def add(self, items: Iterable[IntakeItem], now: float) -> Gathered:
        """Add received spans and log records. Never raises; an item that cannot be decoded is a loss."""
        gathered = Gathered()
        self._latest = now
        for item in items:
            try:
                if isinstance(item, UnclaimedSpan):
                    self._add_link(item, now)
                elif isinstance(item, CapturedLog):
                    self._add_log(item, now, gathered)
                else:
                    self._add_span(item, now, gathered)
            except Exception:
                _logger.debug("a received item could not be decoded", exc_info=True)
                log, span = Loss("log", "log_unreadable", ""), Loss("span", "span_unreadable", "")
                gathered.losses.append(log if isinstance(item, CapturedLog) else span)
        return gathered

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close the traces that are complete; with infinity, all those whose root span has arrived."""
        if now == inf:
            return [self._close(t) for t, trace in list(self._traces.items()) if trace.rooted]
        closed: list[SpanGroup] = []
        while self._due and self._due[0][0] <= now and len(closed) < CLOSED_AT_ONCE:
            _, trace_id = heapq.heappop(self._due)
            trace = self._traces.get(trace_id)
            if trace is None:
                continue
            trace.last_seen = now if self.source_waits and not trace.rooted else trace.last_seen
            if self._complete_at(trace) <= now:
                closed.append(self._close(trace_id))
            elif now - trace.first_seen >= self._limits.max_age:
                closed += self._close_ended(trace_id, trace, now)
            if trace_id in self._traces:
                self._call_at(min(self._complete_at(trace), now + self._idle), trace_id)
        self.next_close = self._due[0][0] if self._due else inf
        return closed

    def evict_old(self, now: float) -> list[Loss]:
        """Nothing is evicted for its age: a trace without new spans is complete."""
        return []

    def end(self, items: Iterable[IntakeItem]) -> list[Loss]:
        """Forget all traces; returns the runs that are lost with them, and with items that were not added."""
        if self.keeps_open:
            self._traces.clear()
            return []
        lost = self.add(items, self._latest).losses
        return lost + [x for t in list(self._traces) for x in self._evict(t, "root_not_ended_at_shutdown")]

    def let_go(self, traces: Iterable[str]) -> None:
        """Forget open traces without a loss: they are gathered elsewhere, or here again."""
        for trace_id in traces:
            self._unclaimed.take(trace_id)
            if (trace := self._traces.pop(trace_id, None)) is not None:
                self._bytes -= trace.size

    # --- what arrives ---

    def _add_span(self, item: CapturedSpan | RecordedSpan, now: float, gathered: Gathered) -> None:
        record = item.record()
        known = self._closed.get(record.span_id)
        if known:
            gathered.losses.append(Loss("span", "span_repeated", record.trace_id))
            return
        if record.trace_id in self._lost.evicted:
            gathered.losses.append(Loss("span", "span_late", record.trace_id))
            return
        parent = record.parent_span_id
        if known is False or (parent is not None and self._closed.get(parent)):
            gathered.late.append((record, parent))
            self._remember(record.span_id, arrived=True)
            return
        trace = self._claimed(record.trace_id, now)
        full = len(trace.spans) >= self._limits.max_spans_per_trace
        if full and parent and record.span_id not in trace.spans:
            trace.left_out.append(record.span_id)
            trace.last_seen = now  # it goes on, although no more of it is kept
            gathered.losses.append(Loss("span", "span_limit_per_trace", record.trace_id))
            return
        self._keep(trace, record, now)
        if parent is None:
            self._root_arrived(record.trace_id, trace)
        self._evict_excess(record.trace_id, gathered)

    def _keep(self, trace: OpenTrace, record: SpanRecord, now: float) -> None:
        before = trace.spans.get(record.span_id)
        if before is not None and len(before.attributes) > len(record.attributes):
            return
        size = size_of_span(record) - (0 if before is None else size_of_span(before))
        trace.spans[record.span_id] = record
        trace.arrived[record.span_id] = trace.last_seen = now
        trace.size += size
        self._bytes += size

    def _add_link(self, item: UnclaimedSpan, now: float) -> None:
        trace = self._any(item.trace_id, now)
        if item.parent_span_id is not None and self._closed.get(item.parent_span_id):
            self._remember(item.span_id, arrived=True)
        self._grown(item.trace_id, trace.add_link(item.span_id, item.parent_span_id, _LINKS_PER_TRACE))
        trace.last_seen = now
        if item.parent_span_id is None:
            self._root_arrived(item.trace_id, trace)

    def _add_log(self, item: CapturedLog, now: float, gathered: Gathered) -> None:
        span_id, trace_id = format_span_id(item.span_id), format_trace_id(item.trace_id)
        if self._closed.get(span_id) or trace_id in self._lost.evicted:
            gathered.losses.append(Loss("log", "log_late", trace_id))
            return
        trace = self._any(trace_id, now)
        trace.last_seen = now
        size = trace.add_log(span_id, item.event, self._limits.max_spans_per_trace)
        if size is None:
            gathered.losses.append(Loss("log", "log_limit", trace_id))
        else:
            self._grown(trace_id, size)
            self._evict_excess(trace_id, gathered)

    def _grown(self, trace_id: str, size: int) -> None:
        if trace_id in self._traces:
            self._bytes += size
        else:
            self._unclaimed.grown(size)

    def _any(self, trace_id: str, now: float) -> OpenTrace:
        """A trace, with claimed spans or without."""
        return self._traces.get(trace_id) or self._unclaimed.get(trace_id, now)

    def _claimed(self, trace_id: str, now: float) -> OpenTrace:
        """A trace that has a claimed span now."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = self._unclaimed.take(trace_id) or OpenTrace(now, now)
            self._bytes += trace.size
            trace.last_seen = now
            self._call_at(self._complete_at(trace), trace_id)
        else:
            self._traces.move_to_end(trace_id)
        return trace

    def _root_arrived(self, trace_id: str, trace: OpenTrace) -> None:
        first, trace.rooted = not trace.rooted, True
        if first and trace_id in self._traces:
            self._call_at(self._complete_at(trace), trace_id)

    def _complete_at(self, trace: OpenTrace) -> float:
        return trace.last_seen + (self._quiet if trace.rooted else self._idle)

    def _call_at(self, due: float, trace_id: str) -> None:
        heapq.heappush(self._due, (due, trace_id))
        if len(self._due) > _DUE_PER_TRACE * (len(self._traces) + _UNCLAIMED):
            self._due = [each for each in self._due if each[1] in self._traces]
            heapq.heapify(self._due)
        self.next_close = self._due[0][0]

    def _close(self, trace_id: str) -> SpanGroup:
        trace = self._traces.pop(trace_id)
        self._bytes -= trace.size
        return self._group(trace, trace.spans)

    def _group(self, trace: OpenTrace, span_ids: Iterable[str]) -> SpanGroup:
        """The spans with their log records, oldest first; from now on, they and what is missing are known."""
        records = []
        for span_id in span_ids:
            record = trace.take_logs_of(span_id)
            parent = record.parent_span_id
            if parent is not None and parent not in trace.spans and parent not in trace.links:
                self._remember(parent, arrived=False)
            records.append(record)
        for span_id in (*span_ids, *trace.links, *trace.left_out):
            self._remember(span_id, arrived=True)
        return SpanGroup((*records, *trace.unclaimed_with_logs()), dict(trace.links))

    def _close_ended(self, trace_id: str, trace: OpenTrace, now: float) -> list[SpanGroup]:
        """Close the ended invocations of an active trace that had no new span for `idle` seconds."""
        tops: dict[str, list[str]] = {}
        for span_id in trace.spans:
            tops.setdefault(trace.top(span_id), []).append(span_id)
        groups = []
        for top, inside in tops.items():
            quiet_for = now - max(trace.arrived[span_id] for span_id in inside)
            if quiet_for >= self._idle and self._opens_run(trace.spans[top]):
                groups.append(self._group(trace, inside))
                for span_id in inside:
                    del trace.spans[span_id]
        self._bytes -= trace.size
        trace.size = trace.measure()
        if trace.spans:
            self._bytes += trace.size
        else:
            self._unclaimed.put(trace_id, self._traces.pop(trace_id))
        return groups

    def _evict_excess(self, newest: str, gathered: Gathered) -> None:
        while excess := self._limits.excess(self._traces, self._bytes, newest):
            gathered.losses += self._evict(*excess)

    def _evict(self, trace_id: str, reason: str) -> list[Loss]:
        trace = self._traces.pop(trace_id)
        self._bytes -= trace.size
        roots = {trace.top(span_id) for span_id in trace.spans}
        for span_id in trace.spans:
            self._remember(span_id, arrived=True)
        self._lost.evict(trace_id, ())
        return [Loss("run", reason, trace_id, len(roots))]

    def _remember(self, span_id: str, *, arrived: bool) -> None:
        self._closed[span_id] = arrived
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)
