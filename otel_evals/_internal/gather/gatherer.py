"""Collects the spans of open traces until their runs are complete, within bounds, on the engine's thread.

A span that arrives after its run closed is late: it is counted, and the run is not scored again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final, Literal

from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals._internal.capture.items import (
    CapturedLog,
    CapturedSpan,
    IntakeItem,
    RecordedSpan,
    UnclaimedSpan,
)
from otel_evals._internal.gather.closing import AssemblyLimits, QuietClosing
from otel_evals._internal.gather.trace import OpenSpan, SpanGroup, State, Trace
from otel_evals._internal.gather.traces import LiveClosing, Traces
from otel_evals._internal.model import Loss
from otel_evals._internal.model.spans import size_of_span

_logger = logging.getLogger(__name__)
CLOSED_AT_ONCE: Final = 256  # while nothing else on the engine's loop gets a turn
_AGAIN_SECONDS: Final = 0.05
"""Seconds until the next look for capacity to score complete traces."""


class Gatherer:
    """Collects spans and log records by trace, and closes runs; all times are the caller's clock.

    Args:
        limits: the bounds.
        closing: decides when a trace closes.
        capacity: returns how many runs can be scored now; others stay open.
    """

    def __init__(
        self,
        limits: AssemblyLimits,
        closing: LiveClosing | QuietClosing,
        *,
        capacity: Callable[[], float] = lambda: inf,
    ) -> None:
        self._limits = limits
        self._closing = closing
        self._capacity = capacity
        self._shortest = min(closing.evicts_after, closing.remember)  # nothing is due earlier
        self._traces = Traces(limits, closing)
        self._by_id = self._traces.by_id
        self._due: list[tuple[float, int, str]] = []
        """A heap: when to look at a trace, a running number so that the first is first, and the trace."""
        self._numbers = count()
        self._latest = 0.0
        self._left: dict[str, None] = {}
        self.roots_seen = 0
        """Spans without a parent, claimed or not. Any thread may read it."""
        self.reports_left = False
        """True to collect what `take_left` returns."""
        self.keeps: Callable[[str], bool] = lambda trace_id: False
        """Returns True if a trace that is open at the end survives the process elsewhere."""
        self.waits = False
        """True while complete traces stay open for lack of capacity. Any thread may read it."""
        self.next_close = inf
        """When to call `close_due`."""
        self.next_eviction = inf
        """When to call `evict_old`; infinity for not at all."""

    @property
    def usage(self) -> tuple[int, int]:
        """Open traces, and their bytes. Any thread may read it."""
        return self._traces.usage

    @property
    def rooted(self) -> tuple[int, int]:
        """Open traces that are never evicted for others, and their bytes. Any thread may read it."""
        return self._traces.rooted

    def waiting(self, trace_id: str) -> int:
        """Count the spans of a trace whose run has not closed. Any thread may call it."""
        trace = self._by_id.get(trace_id)
        return 0 if trace is None else len(trace.spans)

    def so_far(self, trace_id: str) -> SpanGroup:
        """Return the spans of a trace whose runs have not closed, with their log records."""
        trace = self._by_id.get(trace_id)
        return SpanGroup((), {}) if trace is None else self._traces.group(trace, [*trace.spans])

    def take_left(self) -> list[str]:
        """Return the traces with items since the last call of which nothing is open, if `reports_left`."""
        left, self._left = self._left, {}
        return [trace_id for trace_id in left if not self.is_open(trace_id)]

    def is_open(self, trace_id: str) -> bool:
        """Return True if a run may still come from what arrived of a trace."""
        trace = self._by_id.get(trace_id)
        return trace is not None and (bool(trace.spans) or trace.due < inf)

    # --- what arrives ---

    def add(self, items: Iterable[IntakeItem], now: float) -> list[Loss]:
        """Add items; returns what was lost. Never raises; an item that cannot be decoded is a loss."""
        losses: list[Loss] = []
        self._latest = now
        for item in items:
            try:
                match item:
                    case CapturedLog():
                        self._add_log(item, now, losses)
                    case UnclaimedSpan():
                        self._add_link(item, now, losses)
                    case _:
                        self._add_span(item, now, losses)
            except Exception:
                _logger.debug("an item could not be decoded", exc_info=True)
                what: Literal["log", "span"] = "log" if isinstance(item, CapturedLog) else "span"
                losses.append(Loss(what, f"{what}_unreadable", ""))
        return losses

    def lack(self, items: Iterable[IntakeItem], now: float) -> None:
        """Note items without capacity: their runs are not complete."""
        for item in items:
            span_id = None
            if isinstance(item, CapturedLog):
                trace_id = format_trace_id(item.trace_id)
            else:
                span = item if isinstance(item, UnclaimedSpan) else item.record()
                trace_id, span_id = span.trace_id, span.span_id
            trace = self._trace(trace_id, now)
            trace.lacks_spans = True  # its runs become `run_truncated`
            if span_id is not None and span_id not in trace.spans:
                trace.remember(span_id, arrived=True)
            self._traces.settle(trace)

    def _trace(self, trace_id: str, now: float) -> Trace:
        return self._by_id.get(trace_id) or Trace(trace_id, now, now)

    def forget(self, trace_ids: Iterable[str]) -> None:
        """Forget traces without a loss: another process gathers them, or this one again from the start."""
        for trace_id in trace_ids:
            trace = self._by_id.get(trace_id)
            if trace is not None:
                self._traces.forget(trace)

    def _add_span(self, item: CapturedSpan | RecordedSpan, now: float, losses: list[Loss]) -> None:
        record = item.record()
        trace_id, span_id = record.trace_id, record.span_id
        owner = f"{item.owner:016x}" if item.owner else None
        above = owner or record.parent_span_id
        self.roots_seen += record.parent_span_id is None
        trace = self._by_id.get(trace_id)
        if trace is None:
            trace = Trace(trace_id, now, now)
        else:
            reason = trace.reason_to_ignore(record, above)
            if reason is not None:
                if reason == "span_late":
                    trace.remember(span_id, arrived=True)  # spans below it are late, too
                losses.append(Loss("span", reason, trace_id))
                self._settle(trace, active=False)
                return
        trace.last_seen = now
        if not trace.spans:
            trace.first_seen = now
        arrived = None
        full = len(trace.spans) >= self._limits.max_spans_per_trace and span_id not in trace.spans
        if full and (record.parent_span_id if self._closing.whole else owner):
            trace.lacks_spans = True
            trace.remember(span_id, arrived=True)  # spans below it are late, and start no run
            losses.append(Loss("span", "span_limit_per_trace", trace_id))
        else:
            span = OpenSpan(record, above, owner is None, now, size_of_span(record))
            before = trace.spans.get(span_id)  # one that was sent before it ended
            trace.spans[span_id] = span
            trace.size += span.size - (0 if before is None else before.size)
            arrived = span_id
        self._settle(trace, losses, arrived=arrived)

    def _add_link(self, item: UnclaimedSpan, now: float, losses: list[Loss]) -> None:
        self.roots_seen += item.parent_span_id is None
        trace = self._trace(item.trace_id, now)
        if not trace.evicted:
            trace.last_seen = now
            trace.rooted = trace.rooted or item.parent_span_id is None
            trace.add_link(item.span_id, item.parent_span_id)
        self._settle(trace, losses, active=not trace.evicted)

    def _add_log(self, item: CapturedLog, now: float, losses: list[Loss]) -> None:
        span_id, trace_id = format_span_id(item.span_id), format_trace_id(item.trace_id)
        trace = self._trace(trace_id, now)
        active = not trace.evicted and not trace.closed.get(span_id)
        if active:
            trace.last_seen = now
            lost = trace.add_log(span_id, item.event, self._limits.max_spans_per_trace)
            if lost:
                losses.append(Loss("log", "log_limit", trace_id, lost))
        else:
            losses.append(Loss("log", "log_late", trace_id))
        self._settle(trace, losses, active=active)

    def _settle(
        self,
        trace: Trace,
        losses: list[Loss] | None = None,
        *,
        arrived: str | None = None,
        active: bool = True,
    ) -> None:
        """Count a changed trace, and have it looked at when it may close; with `losses`, make room for it."""
        self._traces.settle(trace, arrived, active=active)
        if trace.state is State.CLOSED:
            trace.due = inf
            if self.reports_left:
                self._left[trace.trace_id] = None
        elif trace.ended or self._closing.whole:
            ends = trace.ended.values()
            self._look_at(trace, min(ends) if ends else self._closing.closes_at(trace, self._latest))
        self.next_eviction = min(self.next_eviction, self._latest + self._shortest)
        if losses is not None and self._traces.full:
            self._make_room(trace, losses)

    def _look_at(self, trace: Trace, due: float) -> None:
        if due < trace.due:
            trace.due = due
            heappush(self._due, (due, next(self._numbers), trace.trace_id))  # an earlier entry is skipped
            self.next_close = min(self.next_close, due)

    # --- what leaves ---

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close complete runs, some hundred at a time, within the capacity; with infinity, all of them."""
        capacity = self._capacity()
        most = capacity if now == inf else min(capacity, CLOSED_AT_ONCE)
        self._latest = self._latest if now == inf else now
        closed: list[SpanGroup] = []
        again: list[Trace] = []
        while self._due and self._due[0][0] <= now and len(closed) < most:
            due, _, trace_id = heappop(self._due)
            trace = self._by_id.get(trace_id)
            if trace is None or trace.due != due:
                continue  # it was evicted, or is looked at earlier
            trace.due = inf  # it has no entry any more
            closed += self._traces.close(trace, now, self._latest)
            unclaimed = trace.state is State.UNCLAIMED
            if trace.spans or (unclaimed and (now == inf or self._closing.closes_at(trace, now) > now)):
                again.append(trace)
            elif self.reports_left:
                self._left[trace.trace_id] = None
        for trace in again:
            self._look_at(trace, self._closing.closes_at(trace, self._latest))
        if closed:
            self.next_eviction = min(self.next_eviction, self._latest + self._shortest)
        self.waits = len(closed) >= capacity
        self.next_close = self._due[0][0] if self._due else inf
        if self.waits:
            self.next_close = max(self.next_close, now + _AGAIN_SECONDS)  # not again at once
        return closed

    def evict_old(self, now: float) -> list[Loss]:
        """Evict the traces whose root has not ended, and forget closed ones whose time is over."""
        losses: list[Loss] = []
        self._latest = now
        for trace in self._traces.older(State.OPEN, now - self._closing.evicts_after):
            losses += self._evict(trace, "root_never_ended")
        self._traces.forget_closed(now)
        self.next_eviction = min(
            self._traces.oldest(State.OPEN) + self._closing.evicts_after,
            self._traces.oldest(State.CLOSED) + self._closing.remember,
        )
        return losses

    def end(self, items: Collection[IntakeItem]) -> list[Loss]:
        """Forget all open traces; returns the losses, including items that were never added."""
        losses = self.add(items, self._latest)
        for trace in self._traces.open():
            runs = trace.runs()
            ended = len(runs if trace.rooted else runs & trace.ended.keys())
            self._evict(trace, "")  # the losses are counted below
            if ended:
                losses.append(Loss("run", "undecided_at_shutdown", trace.trace_id, ended))
            if ended < len(runs):
                losses.append(Loss("run", "root_not_ended_at_shutdown", trace.trace_id, len(runs) - ended))
        return [loss for loss in losses if not self.keeps(loss.trace_id)]

    def _make_room(self, newest: Trace, losses: list[Loss]) -> None:
        while excess := self._traces.excess(newest):
            losses += self._evict(*excess)
        for trace in self._traces.unclaimed_excess():
            lost = sum(map(len, trace.logs.values()))
            if lost:
                losses.append(Loss("log", "log_limit", trace.trace_id, lost))
            if self.reports_left:  # nothing of it is left to do
                self._left[trace.trace_id] = None

    def _evict(self, trace: Trace, reason: str) -> list[Loss]:
        """Drop the open runs of a trace, including their spans that have not ended yet."""
        runs = trace.runs()
        trace.evicted = True
        for span_id in trace.spans:
            trace.remember(span_id, arrived=True)
        trace.clear()
        trace.last_seen = self._latest
        self._settle(trace)
        return [Loss("run", reason, trace.trace_id, len(runs))] if runs else []
