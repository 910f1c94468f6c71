"""The traces that a gatherer knows, within their bounds: who is removed for others, and when runs close."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from otel_evals._internal.capture.items import MOST_LOOKED_AT, OpenSpans
from otel_evals._internal.gather.closing import REMEMBER_BYTES, REMEMBER_SECONDS, AssemblyLimits, QuietClosing
from otel_evals._internal.gather.trace import ID_BYTES, MOST_CLOSED, OpenSpan, SpanGroup, State, Trace
from otel_evals._internal.model import SpanRecord

_OTHERS: Final = 0.1
"""Part of the limits that traces without their root may take while the others take all the rest."""
_UNCLAIMED, _OPEN, _ROOTED, _CLOSED = State
_ALL_ENDED_SECONDS: Final = 0.02
"""Seconds until a run closes if no span of its trace is open; other threads may still send log records."""
# Places in a `SpanContext`, which is a tuple: its properties cost a call each.
_TRACE_ID: Final = 0
_SPAN_ID: Final = 1


class Traces:
    """Traces by id; those of a state are in the order of their last activity, the least recent first.

    Args:
        limits: the bounds of open traces, and of the bytes of unclaimed ones.
        closing: decides when runs close, and how long the ids of their spans are kept.
    """

    def __init__(self, limits: AssemblyLimits, closing: LiveClosing | QuietClosing) -> None:
        self._limits, self._closing = limits, closing
        self.by_id: dict[str, Trace] = {}
        # Not plain dicts: these find their first key by scanning the places of deleted ones.
        self._of: list[OrderedDict[str, Trace]] = [OrderedDict() for _ in State]
        self._bytes = [0 for _ in State]
        self.full = False
        """True if more is open, or unclaimed, than the bounds allow."""

    @property
    def usage(self) -> tuple[int, int]:
        """Open traces, and their bytes. Any thread may read it."""
        of, size = self._of, self._bytes
        return len(of[_OPEN]) + len(of[_ROOTED]), size[_OPEN] + size[_ROOTED]

    @property
    def rooted(self) -> tuple[int, int]:
        """Open traces that are never evicted for others, and their bytes. Any thread may read it."""
        return len(self._of[_ROOTED]), self._bytes[_ROOTED]

    def open(self) -> list[Trace]:
        return [*self._of[_OPEN].values(), *self._of[_ROOTED].values()]

    def settle(self, trace: Trace, arrived: str | None = None, *, active: bool = True) -> None:
        """Count a new or changed trace where it belongs now; there it is the most recent if it was active.

        `arrived` is the id of a span that was just added to it.
        """
        if arrived is not None:
            self._closing.arrived(trace, arrived, trace.spans[arrived])
        trace_id = trace.trace_id
        if trace.spans:
            state = _ROOTED if trace.rooted else _OPEN
        elif trace.logs or trace.links or not trace.closed:
            state = _UNCLAIMED
        else:
            state = _CLOSED
        if trace.counted and trace.state is state:
            self._bytes[state] += trace.size - trace.counted
            if active:
                self._of[state].move_to_end(trace_id)
        else:
            if trace.counted:
                self._take_out(trace)
            self.by_id[trace_id] = self._of[state][trace_id] = trace
            self._bytes[state] += trace.size
            trace.state = state
        trace.counted = trace.size
        of, size = self._of, self._bytes
        self.full = (
            size[_OPEN] + size[_ROOTED] > self._limits.max_bytes
            or len(of[_OPEN]) + len(of[_ROOTED]) > self._limits.max_traces
            or size[_UNCLAIMED] > self._limits.max_bytes
        )
        # The most recent one stays, even if it alone exceeds the bound.
        while size[_CLOSED] > self._closing.remember_bytes and len(of[_CLOSED]) > 1:
            self.forget(next(iter(of[_CLOSED].values())))

    def close(self, trace: Trace, now: float, latest: float) -> list[SpanGroup]:
        """Close the runs of a trace that are complete now; `latest` is when something last arrived."""
        whole, parts = self._closing.whole, self._closing.parts(trace, now)
        groups = [self._close(trace, part, whole=whole) for part in parts if part]
        if groups:
            if not trace.spans:
                trace.last_seen = latest
            self.settle(trace, active=not trace.spans)
        return groups

    def _close(self, trace: Trace, span_ids: Collection[str], *, whole: bool) -> SpanGroup:
        """Return open spans; only their ids stay, and with `whole` those of missing spans above them."""
        group = self.group(trace, span_ids)
        for span_id in span_ids:
            trace.size -= trace.spans.pop(span_id).size
            # `remember`, without a call for each span.
            if span_id not in trace.closed:
                trace.size += ID_BYTES
            trace.closed[span_id] = True
        if len(trace.closed) > MOST_CLOSED:
            trace.forget_oldest()
        for span_id in span_ids if trace.logs else ():
            trace.take_logs(span_id)
        # Missing parents are remembered: should they arrive, they are late and start no run.
        if whole:
            parents = {record.parent_span_id for record in group.spans}
            for above in parents.union(group.links.values()):
                if above is not None and above not in trace.links and above not in trace.spans:
                    trace.remember(above, arrived=False)
        if not trace.spans:
            trace.ended.clear()
            trace.rooted = trace.lacks_spans = False  # both were about open spans
        if whole and not trace.spans:
            for span_id in trace.links:
                trace.remember(span_id, arrived=True)
            trace.clear()
        return group

    def group(self, trace: Trace, span_ids: Collection[str]) -> SpanGroup:
        """Return open spans of a trace with their log records."""
        records: list[SpanRecord] = []
        size, with_logs = 0, False
        links = dict(trace.links)
        # A part of the trace needs only the links above its own spans.
        if links and len(span_ids) < len(trace.spans):
            parents = {trace.spans[span_id].record.parent_span_id for span_id in span_ids}
            links = {each: trace.above(each) for each in parents if each is not None and each in links}
        for span_id in span_ids:
            span = trace.spans[span_id]
            record = span.record
            if trace.logs and span_id in trace.logs:
                record = replace(record, logs=trace.logs_of(span_id))
            if trace.lacks_spans:
                record = replace(record, spans_dropped=True)
            if span.above != record.parent_span_id:
                links[span_id] = span.above
            with_logs = with_logs or bool(record.logs)
            size += span.size
            records.append(record)
        if trace.logs:
            records += trace.unclaimed_with_logs(span_ids, links)
        # Spans were measured without their log records.
        return SpanGroup(tuple(records), links, 0 if with_logs else size)

    def forget(self, trace: Trace) -> None:
        if trace.counted:
            self._take_out(trace)
        self.by_id.pop(trace.trace_id, None)

    def _take_out(self, trace: Trace) -> None:
        del self._of[trace.state][trace.trace_id]
        self._bytes[trace.state] -= trace.counted
        trace.counted = 0

    def excess(self, newest: Trace) -> tuple[Trace, str] | None:
        """Return the open trace to evict and the reason; None within the bounds.

        Traces without their root make way for others: the root may never come. The trace just added to is
        evicted if it alone takes half of the bytes.
        """
        limits, others = self._limits, self._of[_OPEN]
        count, size = self.usage
        if size > limits.max_bytes:
            if newest.spans and newest.size > limits.max_bytes // 2:
                return newest, "too_many_bytes"
            if self._bytes[_OPEN] > limits.max_bytes * _OTHERS:
                return next(iter(others.values())), "too_many_bytes"
        if count > limits.max_traces and len(others) > max(1.0, limits.max_traces * _OTHERS):
            return next(iter(others.values())), "too_many_traces"
        return None

    def unclaimed_excess(self) -> Iterator[Trace]:
        """Forget the unclaimed traces beyond the bounds; yields them."""
        unclaimed = self._of[_UNCLAIMED]
        while self._bytes[_UNCLAIMED] > self._limits.max_bytes:
            trace = next(iter(unclaimed.values()))
            self.forget(trace)
            yield trace

    def older(self, state: State, last_seen: float) -> Iterator[Trace]:
        """Yield the traces of a state without activity since then; each has to be removed or settled."""
        traces = self._of[state]
        while traces:
            # Looked up each time, because the caller has removed or moved the last one.
            trace = next(iter(traces.values()))
            if trace.last_seen > last_seen:
                return
            yield trace

    def forget_closed(self, now: float) -> None:
        """Forget the closed traces whose time is over."""
        for trace in self.older(_CLOSED, now - self._closing.remember):
            self.forget(trace)

    def oldest(self, state: State) -> float:
        """Return the time of the least recent activity in a state; infinity without traces."""
        return next((trace.last_seen for trace in self._of[state].values()), inf)


class LiveClosing:
    """Closes a run after its root: 20 ms if no span of its trace is open, otherwise `grace`.

    Args:
        limits: have `grace` and `max_age`.
        open_spans: without them, every run waits for its grace period.
    """

    remember = REMEMBER_SECONDS
    """Seconds for which the ids of closed spans are kept."""
    remember_bytes = 4 * REMEMBER_BYTES
    """Bytes that these take at most."""
    whole = False
    """True if a trace closes as a whole, with the spans that no convention claims."""

    def __init__(self, limits: AssemblyLimits, open_spans: OpenSpans | None = None) -> None:
        self.evicts_after = limits.max_age
        """Seconds without a new span after which an open trace is evicted."""
        self._grace = limits.grace
        self._open_spans = open_spans
        self._looked: OpenSpansNow | None = None
        self._looked_at = -inf

    def arrived(self, trace: Trace, span_id: str, span: OpenSpan) -> None:
        """Note a claimed span, which was just added to its trace."""
        # Below an open span, a run closes together with that one.
        if span.is_root and span.above not in trace.spans:
            at = span.at + self._seconds(span.record, span.at)
            # Not before one that ended earlier, which this one may continue.
            trace.ended[span_id] = max([at, *trace.ended.values()])

    def _seconds(self, root: SpanRecord, now: float) -> float:
        if self._open_spans is None:
            return self._grace
        if self._looked is None or now != self._looked_at:  # once for the items of a batch
            self._looked, self._looked_at = OpenSpansNow(self._open_spans), now
        trace_id, parent_id = int(root.trace_id, 16), int(root.parent_span_id or "0", 16)
        only_above = self._looked.only_above(trace_id, int(root.span_id, 16), parent_id)
        # A check after its end still needs the run's spans, which closing hands on.
        if not only_above or self._looked.may_be_checked(trace_id, parent_id):
            return self._grace
        return min(self._grace, _ALL_ENDED_SECONDS)

    def closes_at(self, trace: Trace, now: float) -> float:
        """Return when something of a trace closes if nothing more arrives."""
        return min(trace.ended.values()) if trace.ended else inf

    def parts(self, trace: Trace, now: float) -> list[list[str]]:
        """Return the spans of each group that closes now; with infinity, all that need not wait."""
        due: list[str] = []
        for root, at in trace.ended.items():
            if at <= now:
                due.append(root)
        # Deleted afterwards: a dict must not change while it is iterated.
        for root in due:
            del trace.ended[root]
        # Spares most runs the walk over the tree.
        if len(due) == 1 and _is_flat(trace, due[0]):
            return [[*trace.spans]]
        tops = trace.tops()
        return [tops[root] for root in due if root in tops]  # others close with a span above them


class OpenSpansNow:
    """The open spans at a moment, by span id."""

    def __init__(self, open_spans: OpenSpans) -> None:
        self._checks, self._guarded = open_spans.checks, open_spans.guarded
        # Copied in one step: other threads begin and end spans meanwhile.
        spans = dict(open_spans.by_id)
        # Many open spans take too long to look at: runs then wait for their grace period.
        self._known = len(spans) <= MOST_LOOKED_AT
        self._above: dict[int, int] = {}
        self._by_trace: dict[int, int] = {}
        for span_id, span in spans.items() if self._known else ():
            if span is not None:
                context: Any = span.context
                parent: Any = span.parent
                self._above[span_id] = parent[_SPAN_ID] if parent is not None else 0
                self._by_trace[context[_TRACE_ID]] = self._by_trace.get(context[_TRACE_ID], 0) + 1

    def may_be_checked(self, trace_id: int, parent_id: int) -> bool:
        """Return True if the answer of a run that has ended may still be checked."""
        return self._checks and (parent_id in self._above or trace_id in self._guarded)

    def only_above(self, trace_id: int, span_id: int, parent_id: int) -> bool:
        """Return True if at most this span and those above it are open in a trace; 0 stands for no parent."""
        above = self._above
        if not self._known:
            return False
        # A span is handed over before it stops being open.
        count, seen = self._by_trace.get(trace_id, 0), int(span_id in above)
        # Bounded by the count: malformed parents may form a cycle.
        while parent_id in above and seen <= count:
            seen += 1
            parent_id = above[parent_id]
        return seen == count


def _is_flat(trace: Trace, root: str) -> bool:
    """Return True if all open spans of a trace are directly below a root, which is the usual case."""
    if root not in trace.spans or trace.spans[root].above in trace.spans:
        return False
    for span_id, span in trace.spans.items():  # noqa: SIM110  # `all` is a call for each span
        if span_id != root and span.above != root:
            return False
    return True
