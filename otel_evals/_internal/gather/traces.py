"""The traces that a gatherer knows, within their bounds: who is removed for others, and when."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

from otel_evals._internal.gather.trace import State, Trace

_OTHERS: Final = 0.1
"""Part of the limits that traces without their root may take while the others take all the rest."""
_UNCLAIMED, _OPEN, _ROOTED = State.UNCLAIMED, State.OPEN, State.ROOTED


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyLimits:
    """Bounds of assembly; `otel_evals.Config` has their meaning and defaults."""

    grace: float
    max_age: float
    max_traces: int
    max_spans_per_trace: int
    max_bytes: int


class Traces:
    """Traces by id; those of a state are in the order of their last activity, the least recent first.

    Args:
        limits: the bounds of open traces, and of the bytes of unclaimed ones.
        remember: seconds for which the ids of closed spans are kept.
        remember_bytes: bytes that these take at most.
    """

    def __init__(self, limits: AssemblyLimits, remember: float, remember_bytes: int) -> None:
        self._limits = limits
        self._remember = remember
        self._remember_bytes = remember_bytes
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
        return len(of[State.OPEN]) + len(of[State.ROOTED]), size[State.OPEN] + size[State.ROOTED]

    @property
    def rooted(self) -> tuple[int, int]:
        """Open traces that are never evicted for others, and their bytes. Any thread may read it."""
        return len(self._of[State.ROOTED]), self._bytes[State.ROOTED]

    def open(self) -> list[Trace]:
        return [*self._of[State.OPEN].values(), *self._of[State.ROOTED].values()]

    def settle(self, trace: Trace, *, active: bool = True) -> None:
        """Count a new or changed trace where it belongs now; there it is the most recent if it was active."""
        trace_id = trace.trace_id
        if trace.spans:
            state = _ROOTED if trace.rooted else _OPEN
        elif trace.logs or trace.links or not trace.closed:
            state = _UNCLAIMED
        else:
            state = State.CLOSED
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
        limits, others = self._limits, self._of[State.OPEN]
        count, size = self.usage
        if size > limits.max_bytes:
            if newest.spans and newest.size > limits.max_bytes // 2:
                return newest, "too_many_bytes"
            if self._bytes[State.OPEN] > limits.max_bytes * _OTHERS:
                return next(iter(others.values())), "too_many_bytes"
        if count > limits.max_traces and len(others) > max(1.0, limits.max_traces * _OTHERS):
            return next(iter(others.values())), "too_many_traces"
        return None

    def unclaimed_excess(self) -> Iterator[Trace]:
        """Forget the unclaimed traces beyond the bounds; yields them."""
        unclaimed = self._of[State.UNCLAIMED]
        while self._bytes[State.UNCLAIMED] > self._limits.max_bytes:
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
        """Forget the closed traces whose time is over, and those beyond the bound."""
        for trace in self.older(State.CLOSED, now - self._remember):
            self.forget(trace)
        closed = self._of[State.CLOSED]
        # The most recent one stays, even if it alone exceeds the bound.
        while self._bytes[State.CLOSED] > self._remember_bytes and len(closed) > 1:
            self.forget(next(iter(closed.values())))

    def oldest(self, state: State) -> float:
        """Return the time of the least recent activity in a state; infinity without traces."""
        return next((trace.last_seen for trace in self._of[state].values()), inf)
