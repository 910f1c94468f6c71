"""The open traces, within their bounds: which are kept, and which make room for others."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator

from otel_evals.sdk.pipeline import AssemblyLimits, OpenTrace

_OTHERS = 0.1
"""Part of the limits that traces without their root may take while the others take all the rest."""


class OpenTraces:
    """Open traces with claimed spans.

    Traces without their root make room for others: the root may never come. Those with their root are
    complete soon, and stay; the receivers refuse requests before there are too many.
    """

    def __init__(self, limits: AssemblyLimits) -> None:
        self._limits = limits
        self._most_others = max(1.0, limits.max_traces * _OTHERS)
        self._most_other_bytes = limits.max_bytes * _OTHERS
        self._others: OrderedDict[str, OpenTrace] = OrderedDict()
        """Without their root; the least recently active first."""
        self._rooted: dict[str, OpenTrace] = {}
        self._bytes = [0, 0]
        """Bytes of the traces without their root, and of those with it."""

    def __len__(self) -> int:
        return len(self._others) + len(self._rooted)

    def __contains__(self, trace_id: str) -> bool:
        return trace_id in self._rooted or trace_id in self._others

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self._others, self._rooted)

    def items(self) -> Iterator[tuple[str, OpenTrace]]:
        return itertools.chain(self._others.items(), self._rooted.items())

    @property
    def bytes(self) -> int:
        return sum(self._bytes)

    @property
    def rooted(self) -> tuple[int, int]:
        """Number and bytes of the traces with their root."""
        return len(self._rooted), self._bytes[True]

    def get(self, trace_id: str) -> OpenTrace | None:
        return self._rooted.get(trace_id) or self._others.get(trace_id)

    def put(self, trace_id: str, trace: OpenTrace) -> None:
        (self._rooted if trace.rooted else self._others)[trace_id] = trace
        self._bytes[trace.rooted] += trace.size

    def take(self, trace_id: str) -> OpenTrace | None:
        """Remove and return a trace; None if it is unknown."""
        trace = self._others.pop(trace_id, None) or self._rooted.pop(trace_id, None)
        if trace is not None:
            self._bytes[trace.rooted] -= trace.size
        return trace

    def pop(self, trace_id: str) -> OpenTrace:
        trace = self.take(trace_id)
        assert trace is not None
        return trace

    def touch(self, trace_id: str) -> None:
        """Note that a trace is active."""
        if trace_id in self._others:
            self._others.move_to_end(trace_id)

    def grown(self, trace: OpenTrace, size: int) -> None:
        """Count the growth of an open trace."""
        self._bytes[trace.rooted] += size

    def excess(self, newest: str) -> tuple[str, str] | None:
        """Return the trace to evict and the reason; None within the bounds.

        The trace just added to is evicted if it alone takes half of the bytes.
        """
        limits, others, bytes_of_others = self._limits, len(self._others), self._bytes[False]
        if self.bytes > limits.max_bytes:
            trace = self.get(newest)
            if trace is not None and trace.size > limits.max_bytes // 2:
                return newest, "too_many_bytes"
            if bytes_of_others > self._most_other_bytes:
                return next(iter(self._others)), "too_many_bytes"
        if len(self) > limits.max_traces and others > self._most_others:
            return next(iter(self._others)), "too_many_traces"
        return None


class UnclaimedTraces:
    """Traces without a claimed span so far, with their links and log records: such a span may still arrive.

    Up to `most` traces and `max_bytes`; the least recently active is forgotten first.
    """

    def __init__(self, most: int, max_bytes: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        self._bytes = 0

    def get(self, trace_id: str, now: float) -> OpenTrace:
        """Return a trace, created if it is new; it counts as active."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = OpenTrace(now, now)
        self._traces.move_to_end(trace_id)
        self._forget()
        return trace

    def peek(self, trace_id: str) -> OpenTrace | None:
        """Return a trace; None if it is unknown."""
        return self._traces.get(trace_id)

    def take(self, trace_id: str) -> OpenTrace | None:
        """Remove and return a trace; None if it is unknown."""
        trace = self._traces.pop(trace_id, None)
        if trace is not None:
            self._bytes -= trace.size
        return trace

    def put(self, trace_id: str, trace: OpenTrace) -> None:
        self._traces[trace_id] = trace
        self._bytes += trace.size
        self._forget()

    def grown(self, size: int) -> None:
        """Count the growth of the trace that `get` returned last."""
        self._bytes += size
        self._forget()

    def active_since(self, when: float) -> Iterator[str]:
        """Return the ids of the traces that were active since then."""
        latest = itertools.takewhile(lambda pair: pair[1].last_seen >= when, reversed(self._traces.items()))
        return (trace_id for trace_id, _ in latest)

    def _forget(self) -> None:
        while len(self._traces) > self._most or (self._bytes > self._max_bytes and self._traces):
            self._bytes -= self._traces.popitem(last=False)[1].size
