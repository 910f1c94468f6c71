"""When a trace closes whose spans arrive from elsewhere; for those of this process see `LiveClosing`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from otel_evals._internal.gather.trace import OpenSpan, Trace
from otel_evals._internal.model import SpanRecord

REMEMBER_SECONDS: Final = 600.0
REMEMBER_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyLimits:
    """Bounds of assembly; `otel_evals.Config` has their meaning and defaults."""

    grace: float
    max_age: float
    max_traces: int
    max_spans_per_trace: int
    max_bytes: int


class QuietClosing:
    """Closes a trace `quiet` seconds after its last span if its root has arrived, otherwise after `idle`.

    After `max_age`, the ended and idle invocations of an active trace close by themselves, at most `idle`
    later.

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
        remember: float = REMEMBER_SECONDS,
        remember_bytes: int = REMEMBER_BYTES,
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
