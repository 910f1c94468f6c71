"""When a trace closes: in process, where open spans are known, and for spans that arrive from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

from otel_evals._internal.capture.items import MOST_LOOKED_AT, OpenSpans
from otel_evals._internal.gather.trace import OpenSpan, Trace
from otel_evals._internal.gather.traces import AssemblyLimits
from otel_evals._internal.model import SpanRecord

_ALL_ENDED_SECONDS: Final = 0.02
"""Seconds until a run closes when no span of its trace is open: for log records of other threads."""
# Places in a `SpanContext`, which is a tuple: its properties cost a call each.
_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_REMEMBER_SECONDS: Final = 600.0
_REMEMBER_BYTES: Final = 4 * 1024 * 1024


class LiveClosing:
    """Closes a run after its root: 20 ms if no span of its trace is open, otherwise `grace`.

    Args:
        limits: have `grace` and `max_age`.
        open_spans: without them, every run waits for its grace period.
    """

    remember = _REMEMBER_SECONDS
    """Seconds for which the ids of closed spans are kept."""
    remember_bytes = _REMEMBER_BYTES
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
            trace.ended[span_id] = span.at + self._seconds(span.record, span.at)

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
        self._guarded = open_spans.guarded if open_spans.checks else None
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
        return self._guarded is not None and (parent_id in self._above or trace_id in self._guarded)

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


class QuietClosing:
    """Closes a trace `quiet` seconds after its last span if its root has arrived, otherwise after `idle`.

    After `max_age`, the ended and idle invocations of an active trace close by themselves.

    Args:
        quiet: seconds.
        idle: seconds.
        max_age: seconds.
        opens_run: returns True for an agent or a workflow, which may be judged while its trace continues.
        remember: seconds for which the ids of closed spans are kept.
        remember_bytes: bytes that these take at most.
    """

    evicts_after = inf
    whole = True

    def __init__(
        self,
        quiet: float,
        idle: float,
        max_age: float,
        opens_run: Callable[[SpanRecord], bool],
        *,
        remember: float = _REMEMBER_SECONDS,
        remember_bytes: int = _REMEMBER_BYTES,
    ) -> None:
        # A trace with its root must not wait longer than one without.
        self._quiet = min(quiet, idle)
        self._idle = idle
        self.max_age = max_age
        self._opens_run = opens_run
        self.remember = remember
        self.remember_bytes = remember_bytes

    def arrived(self, trace: Trace, span_id: str, span: OpenSpan) -> None:
        """Note the root of a trace."""
        trace.rooted = trace.rooted or span.record.parent_span_id is None

    def closes_at(self, trace: Trace, now: float) -> float:
        """Return when a trace closes if nothing more arrives."""
        return trace.last_seen + self.seconds(trace)

    def seconds(self, trace: Trace) -> float:
        """Return the seconds without a new span after which a trace closes."""
        return self._quiet if trace.rooted else self._idle

    def parts(self, trace: Trace, now: float) -> list[list[str]]:
        """Return the spans of each group that closes now."""
        # A flush leaves traces open whose root may still be on its way.
        if now == inf:
            return [[*trace.spans]] if trace.rooted else []
        if self.closes_at(trace, now) <= now:
            return [[*trace.spans]]
        if now - trace.first_seen < self.max_age:
            return []
        return [inside for top, inside in trace.tops().items() if self._is_over(trace, top, inside, now)]

    def _is_over(self, trace: Trace, top: str, inside: list[str], now: float) -> bool:
        quiet_for = now - max(trace.spans[span_id].at for span_id in inside)
        return quiet_for >= self._idle and self._opens_run(trace.spans[top].record)


def _is_flat(trace: Trace, root: str) -> bool:
    """Return True if all open spans of a trace are directly below a root, which is the usual case."""
    if root not in trace.spans or trace.spans[root].above in trace.spans:
        return False
    for span_id, span in trace.spans.items():  # noqa: SIM110  # `all` is a call for each span
        if span_id != root and span.above != root:
            return False
    return True
