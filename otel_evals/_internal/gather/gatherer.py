"""The interface of what collects spans until runs are complete, whether captured in process or received."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.model import Loss, Sampled, SpanRecord

CLOSED_AT_ONCE: Final = 256
"""Number of runs closed before they are scored, while nothing else on the engine's loop gets a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyLimits:
    """Bounds of assembly; `otel_evals.Config` has their meaning and defaults."""

    grace: float
    max_age: float
    max_traces: int
    max_spans_per_trace: int
    max_bytes: int

    def excess(self, traces: Mapping[str, Any], size: int, newest: str) -> tuple[str, str] | None:
        """Return the trace to evict and the reason; None within the bounds.

        Args:
            traces: the open traces with their `size`, the least recently active first: it is evicted.
            size: bytes of all of them.
            newest: the trace just added to; it is evicted if it alone takes half of the bytes.
        """
        if size > self.max_bytes:
            greedy = newest in traces and traces[newest].size > self.max_bytes // 2
            return newest if greedy else next(iter(traces)), "too_many_bytes"
        return (next(iter(traces)), "too_many_traces") if len(traces) > self.max_traces else None


Evaluated = Mapping[tuple[str, str, str], tuple[Sampled, int]]
"""Evaluations by the rule's name and the judged span's trace and span id, each with the number of operations
in the judged run; 0 if the run was known to lack some."""


class Judged(msgspec.Struct, frozen=True, gc=False):
    """The earlier judgement of spans that are judged again, because others arrived late."""

    evaluated: Evaluated | None
    """None if another process made the evaluations."""
    revision: int
    """The revision of the new evaluations."""


class SpanGroup(msgspec.Struct, frozen=True, gc=False):
    """The spans of a run, or several runs that belong together.

    Without spans, the earlier evaluations are replaced by the statement that their run lacks some.
    """

    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    """By span id: the nearest ancestor of a span whose parent is not among the spans."""
    size: int = 0
    """Approximate bytes of the spans; 0 if unknown."""
    judged: Judged | None = None


class Gathered(msgspec.Struct, eq=False):
    """The result of adding a batch of captured items."""

    losses: list[Loss] = []  # a struct copies its defaults
    late: list[tuple[SpanRecord, str | None]] = []
    """Spans whose run is closed, each with the id of its nearest known ancestor."""
    ended: list[tuple[str, SpanGroup]] = []
    """Ids of roots that have ended, with the spans so far; their grace period begins."""


class Gatherer(Protocol):
    """Collects spans and log records until runs are complete; all times are the caller's clock."""

    next_close: float
    """When to call `close_due`; infinity for not at all."""
    next_eviction: float
    """When to call `evict_old`; infinity for not at all."""

    @property
    def open_traces(self) -> set[str]:
        """Ids of the traces with spans whose run is not closed."""

    def waiting(self, trace_id: str) -> int:
        """Count the spans of a trace whose run has not closed. May be called from any thread."""

    def add(self, items: Collection[IntakeItem], now: float) -> Gathered:
        """Add items. Never raises; an item that cannot be decoded is a loss."""

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close complete runs, some hundred at a time; with infinity, all that need not wait."""

    def evict_old(self, now: float) -> list[Loss]:
        """Evict traces that have waited too long."""

    def end(self, items: Collection[IntakeItem]) -> list[Loss]:
        """Forget all open traces; returns the losses, including items that were never added."""
