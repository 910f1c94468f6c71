"""The interface of what collects spans until runs are complete, whether captured in process or received."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from otel_evals.assembly.gather import Gathered, SpanGroup
from otel_evals.intake.items import IntakeItem
from otel_evals.model import Loss

__all__ = ["Gatherer"]


class Gatherer(Protocol):
    """Collects spans and log records until runs are complete; all times are the caller's clock."""

    next_close: float
    """When to call `close_due`; infinity for not at all."""
    next_eviction: float
    """When to call `evict_old`; infinity for not at all."""

    @property
    def open_spans(self) -> int:
        """Spans whose run is not closed."""

    @property
    def open_traces(self) -> set[str]:
        """Ids of the traces with such spans."""

    def waiting(self, trace_id: str) -> int:
        """How many spans of a trace wait for their run to close. May be called from any thread."""

    def add(self, items: Collection[IntakeItem], now: float) -> Gathered:
        """Add items. Never raises; an item that cannot be decoded is a loss."""

    def close_due(self, now: float) -> list[SpanGroup]:
        """Close the runs that are complete; with infinity, all that need not wait for more."""

    def evict_old(self, now: float) -> list[Loss]:
        """Evict what has waited for too long."""

    def end(self, items: Collection[IntakeItem]) -> list[Loss]:
        """Forget all that is open; returns the losses, those of items that were never added among them."""
