"""Gathers the ended spans of running traces until a run's root has ended, within bounds.

Lives on the engine's thread only. A run closes a short grace after its root ended; what comes later is
counted as late. What a bound evicts is counted by reason.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals.capture import EndedSpan, LogOfSpan
from otel_evals.model import SpanEvent, SpanRecord

__all__ = ["Assembler", "Closed", "Limits"]

_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of assembly; see Config for their meaning."""

    grace: float = 0.5
    max_age: float = 600.0
    max_traces: int = 10_000
    max_spans_per_trace: int = 2_000
    max_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Closed:
    """All spans of one run."""

    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    """Nearest ancestor of a span whose parent is not among the spans."""


@dataclass(slots=True)
class _Trace:
    first_seen: float
    spans: dict[str, _Span] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class _Span:
    record: SpanRecord
    above: str | None
    """Id of the nearest known ancestor."""
    size: int


class Assembler:
    """Gathers spans and log records by trace, and closes runs.

    Args:
        limits: the bounds.
        ignore: called with a reason, a number of runs that are not going to be scored, and their trace id; or
            of spans and log records, for reasons that start with `span_` and `log_`.
        late: called with a span whose run is closed and the id of its nearest ancestor; says whether it is
            taken.
        ended: called with a root's id and the spans so far when a root has ended and its grace begins.
    """

    def __init__(
        self,
        limits: Limits,
        ignore: Callable[[str, int, str], None],
        late: Callable[[SpanRecord, str | None], bool] = lambda span, above: False,
        ended: Callable[[str, Closed], None] | None = None,
    ) -> None:
        self._ended = ended
        self._late = late
        self._limits = limits
        self._ignore = ignore
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._due: deque[tuple[float, str, str]] = deque()
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._logs: OrderedDict[str, list[SpanEvent]] = OrderedDict()
        self._bytes = 0

    @property
    def next_due(self) -> float | None:
        """When the next run closes, on the caller's clock; None when none is waiting for its grace."""
        return self._due[0][0] if self._due else None

    @property
    def open_runs(self) -> int:
        """Runs whose root has ended and whose grace has not."""
        return len(self._due)

    def gathered(self, trace_id: str) -> int:
        """How many spans of a trace wait for their root."""
        trace = self._traces.get(trace_id)
        return 0 if trace is None else len(trace.spans)

    @property
    def open_spans(self) -> int:
        """Spans whose run is not finished."""
        return sum(len(trace.spans) for trace in self._traces.values())

    def add(self, item: EndedSpan | LogOfSpan, now: float) -> None:
        """Take a span or a log record."""
        if isinstance(item, LogOfSpan):
            self._add_log(item)
        else:
            self._add_span(item, now)

    def close_due(self, now: float) -> Iterator[Closed]:
        """Close the runs whose grace is over."""
        while self._due and self._due[0][0] <= now:
            _, trace_id, root = self._due.popleft()
            trace = self._traces.get(trace_id)
            if trace is not None and root in trace.spans:
                yield self._close(trace_id, trace, root)

    def evict_old(self, now: float) -> None:
        """Give up the traces whose root did not end in time."""
        while self._traces:
            trace_id, trace = next(iter(self._traces.items()))
            if now - trace.first_seen < self._limits.max_age:
                return
            self._evict(trace_id, "root_never_ended")

    def evict_all(self) -> None:
        """Give up every trace whose root has not ended."""
        for trace_id in list(self._traces):
            self._evict(trace_id, "root_not_ended_at_shutdown")

    def _add_span(self, item: EndedSpan, now: float) -> None:
        record = item.record()
        owner = format_span_id(item.owner) if item.owner else None
        above = owner or record.parent_span_id
        if above in self._closed or record.span_id in self._closed:
            if not self._late(record, above):
                self._ignore("span_late", 1, record.trace_id)
            self._remember(record.span_id)
            return
        trace = self._trace(record.trace_id, now)
        if len(trace.spans) >= self._limits.max_spans_per_trace and owner:
            self._ignore("span_limit_per_trace", 1, record.trace_id)
            return
        size = _size(record)
        trace.spans[record.span_id] = _Span(record, above, size)
        trace.size += size
        self._bytes += size
        if owner is None and above not in trace.spans:
            self._due.append((now + self._limits.grace, record.trace_id, record.span_id))
            if self._ended is not None:
                self._ended(record.span_id, self._so_far(trace, record.span_id))
        self._evict_excess(record.trace_id)

    def _add_log(self, item: LogOfSpan) -> None:
        """Log records wait for their span by themselves: most spans with log records are none of ours."""
        span_id = format_span_id(item.span_id)
        if span_id in self._closed:
            self._ignore("log_late", 1, format_trace_id(item.trace_id))
            return
        held = self._logs.setdefault(span_id, [])
        if len(held) < self._limits.max_spans_per_trace:
            held.append(item.event)
        if len(self._logs) > _REMEMBERED:
            self._logs.popitem(last=False)

    def _trace(self, trace_id: str, now: float) -> _Trace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = _Trace(now)
        return trace

    def _close(self, trace_id: str, trace: _Trace, root: str) -> Closed:
        mine = [s for s in trace.spans if self._root_of(trace, s) == root]
        records: list[SpanRecord] = []
        links: dict[str, str | None] = {}
        for span_id in mine:
            held = trace.spans.pop(span_id)
            trace.size -= held.size
            self._bytes -= held.size
            logs = self._logs.pop(span_id, None)
            records.append(replace(held.record, logs=tuple(logs)) if logs else held.record)
            if span_id != root and held.above != held.record.parent_span_id:
                links[span_id] = held.above
            self._remember(span_id)
        if not trace.spans:
            self._traces.pop(trace_id, None)
        return Closed(tuple(records), links)

    def _so_far(self, trace: _Trace, root: str) -> Closed:
        """The spans that would make a run if it closed now, without their log records."""
        mine = [trace.spans[s] for s in trace.spans if self._root_of(trace, s) == root]
        links = {h.record.span_id: h.above for h in mine if h.above != h.record.parent_span_id}
        links.pop(root, None)
        return Closed(tuple(h.record for h in mine), links)

    def _root_of(self, trace: _Trace, span_id: str) -> str:
        """The topmost span above this one that has ended; malformed traces may run in circles."""
        for _ in range(len(trace.spans)):
            above = trace.spans[span_id].above
            if above is None or above not in trace.spans or above == span_id:
                break
            span_id = above
        return span_id

    def _remember(self, span_id: str) -> None:
        self._closed[span_id] = None
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)

    def _evict_excess(self, newest: str) -> None:
        """Make room by giving up the oldest traces, never the one that just grew."""
        while len(self._traces) > self._limits.max_traces or self._bytes > self._limits.max_bytes:
            oldest = next(iter(self._traces))
            if oldest == newest:
                if len(self._traces) == 1:
                    return
                self._traces.move_to_end(oldest)
                continue
            self._evict(
                oldest, "too_many_traces" if self._bytes <= self._limits.max_bytes else "too_many_bytes"
            )

    def _evict(self, trace_id: str, reason: str) -> None:
        trace = self._traces.pop(trace_id)
        self._bytes -= trace.size
        roots = {self._root_of(trace, s) for s in trace.spans}
        if roots:
            self._ignore(reason, len(roots), trace_id)
        for span_id in trace.spans:
            self._remember(span_id)


def _size(record: SpanRecord) -> int:
    """Rough bytes of a span: the strings in its attributes, and a fixed share for the rest."""
    return 500 + sum(len(v) for v in record.attributes.values() if type(v) is str)
