"""Bounds what was captured and waits to be taken: by count and, where much waits, by bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final, Protocol

from opentelemetry.sdk.trace import ReadableSpan

from otel_evals._internal.capture.items import CapturedItem, CapturedLog, CapturedSpan, RecordedSpan
from otel_evals._internal.model.sizes import size_of_event, size_of_span, size_of_value

UNMEASURED: Final = 200
"""So many items may wait without being measured: to measure costs as much as to capture."""
_REMEMBERED: Final = 10_000


class Backlog:
    """Decides, for a queue of captured items, which are refused, and counts those.

    Args:
        capacity: how many items may wait.
        max_bytes: how many bytes of them, from the two hundredth on.
    """

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.free = min(UNMEASURED, capacity)
        """How many items may wait without `admits` being asked."""
        self._max_bytes = max_bytes
        self.bytes = 0
        """Of those that wait and were measured."""
        self._refusing = threading.Lock()
        self.refused = 0
        self.traces: dict[int, None] = {}
        """Ids of the traces of which items were refused, the newest ten thousand."""

    def admits(self, item: Any, waiting: int) -> bool:
        """Whether an item may join so many that wait; if not, it is counted."""
        size = size_of_captured(item) if waiting >= UNMEASURED else 0
        if waiting >= self.capacity or self.bytes + size > self._max_bytes:
            self.lose(item)
            return False
        self.bytes += size  # several threads may add at once: what is lost of that is little
        return True

    def room(self, waiting: int) -> int:
        """How many more items may wait beside so many."""
        return max(0, self.capacity - waiting) if self.bytes < self._max_bytes else 0

    def add(self, items: Iterable[Any], waiting: int) -> None:
        """Items join so many that wait, whether or not there is room for them."""
        if waiting >= UNMEASURED:
            self.bytes += sum(map(size_of_captured, items))

    def taken(self, waiting: int, left: int) -> None:
        """So many of the items that waited are left."""
        self.bytes = self.bytes * left // waiting if left else 0

    def close(self) -> None:
        """Refuse everything from now on."""
        self.capacity = self.free = 0

    def refuse(self, count: int) -> None:
        """Count items that nobody takes."""
        with self._refusing:
            self.refused += count

    def lose(self, item: Any) -> None:
        """Count an item that nobody takes, and remember that its trace lacks it."""
        self.refuse(1)
        trace_id = _trace_of(item)
        if trace_id is not None:
            with self._refusing:
                self.traces[trace_id] = None
                if len(self.traces) > _REMEMBERED:
                    self.traces.pop(next(iter(self.traces)))


class Intake(Protocol):
    """Where captured items go."""

    backlog: Backlog

    def put(self, item: CapturedItem) -> None:
        """Take an item. Must not wait and must not raise."""


def size_of_captured(item: Any) -> int:
    """Approximate bytes of a captured item, or of a span of the SDK."""
    if isinstance(item, RecordedSpan):
        return size_of_span(item.span)
    if isinstance(item, CapturedLog):
        return size_of_event(item.event)
    span = item.span if isinstance(item, CapturedSpan) else item
    if not isinstance(span, ReadableSpan):
        return 0
    events = sum(size_of_value(event.attributes) for event in span.events)
    return size_of_value(span.attributes) + events


def _trace_of(item: Any) -> int | None:
    if isinstance(item, CapturedSpan):
        context: Any = item.span.context
        return int(context.trace_id)
    if isinstance(item, RecordedSpan):
        return int(item.span.trace_id, 16)
    return item.trace_id if isinstance(item, CapturedLog) else None
