"""What collects spans until runs are complete, whether captured in process or received: its interface."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.model import Loss, SpanRecord

CLOSED_AT_ONCE: Final = 256
"""How many runs are closed before they are judged, while nothing else on the engine's loop has its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyLimits:
    """Bounds of assembly; `otel_evals.Config` has their meaning and defaults."""

    grace: float
    max_age: float
    max_traces: int
    max_spans_per_trace: int
    max_bytes: int

    def excess(self, traces: Mapping[str, _Sized], size: int, newest: str) -> tuple[str, str] | None:
        """The trace to evict, and why; None within the bounds.

        Args:
            traces: the open ones, the least recently active first: it goes.
            size: their bytes.
            newest: the one that was just added to; if it alone takes half of the bytes, it goes.
        """
        if size > self.max_bytes:
            greedy = newest in traces and traces[newest].size > self.max_bytes // 2
            return newest if greedy else next(iter(traces)), "too_many_bytes"
        return (next(iter(traces)), "too_many_traces") if len(traces) > self.max_traces else None


class _Sized(Protocol):
    size: int


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The spans of one run, or of several runs that belong together."""

    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    """By span id: the nearest ancestor of a span whose parent is not among the spans."""


@dataclass(slots=True, eq=False)
class Gathered:
    """The result of adding a batch of captured items."""

    losses: list[Loss] = field(default_factory=list)
    late: list[tuple[SpanRecord, str | None]] = field(default_factory=list)
    """Spans whose run is closed, each with the id of its nearest known ancestor."""
    ended: list[tuple[str, SpanGroup]] = field(default_factory=list)
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
        """How many spans of a trace wait for their run to close. May be called from any thread."""

    def add(self, items: Collection[IntakeItem], now: float) -> Gathered:
        """Add items. Never raises; an item that cannot be decoded is a loss."""

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close the runs that are complete, some hundred at a time; with infinity, all that need not wait."""

    def evict_old(self, now: float) -> list[Loss]:
        """Evict what has waited for too long."""

    def end(self, items: Collection[IntakeItem]) -> list[Loss]:
        """Forget all that is open; returns the losses, those of items that were never added among them."""
