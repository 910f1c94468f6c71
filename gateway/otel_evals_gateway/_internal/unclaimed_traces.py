"""Traces of which nothing that can be judged has arrived yet; bounded by count and bytes."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator

from otel_evals.sdk.pipeline import OpenTrace

__all__ = ["UnclaimedTraces"]


class UnclaimedTraces:
    """Remembers the places of unclaimed spans and their log records: a claimed span may still come.

    Args:
        most: how many traces are remembered.
        max_bytes: how many bytes of them; the least recently active is forgotten first.
    """

    def __init__(self, most: int, max_bytes: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self._traces: OrderedDict[str, OpenTrace] = OrderedDict()
        self._bytes = 0

    def get(self, trace_id: str, now: float) -> OpenTrace:
        """A trace, made if it is new; it counts as active."""
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = OpenTrace(now, now)
        self._traces.move_to_end(trace_id)
        self._forget()
        return trace

    def take(self, trace_id: str) -> OpenTrace | None:
        """A trace that is remembered elsewhere from now on; None if it is not known."""
        trace = self._traces.pop(trace_id, None)
        if trace is not None:
            self._bytes -= trace.size
        return trace

    def put(self, trace_id: str, trace: OpenTrace) -> None:
        """Remember a trace that was remembered elsewhere."""
        self._traces[trace_id] = trace
        self._bytes += trace.size
        self._forget()

    def grown(self, size: int) -> None:
        """The trace that was got last has grown by so many bytes."""
        self._bytes += size
        self._forget()

    def active_since(self, when: float) -> Iterator[str]:
        """Ids of the traces that were active since then."""
        latest = itertools.takewhile(lambda pair: pair[1].last_seen >= when, reversed(self._traces.items()))
        return (trace_id for trace_id, _ in latest)

    def _forget(self) -> None:
        while len(self._traces) > self._most or (self._bytes > self._max_bytes and self._traces):
            self._bytes -= self._traces.popitem(last=False)[1].size
