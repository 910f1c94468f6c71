"""Bounds the captured items that wait for the engine, by count and, if many wait, by bytes."""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from otel_evals._internal.capture.items import (
    CapturedItem,
    CapturedLog,
    CapturedSpan,
    RecordedSpan,
    size_of_sdk_span,
)
from otel_evals._internal.model.spans import size_of_event, size_of_span
from otel_evals._internal.util.bounded_cache import BoundedCache

_logger = logging.getLogger(__name__)
UNMEASURED: Final = 200
"""Number of items that may wait unmeasured; measuring an item costs as much as capturing it."""
_REMEMBERED: Final = 10_000
_ENDED: Final = (
    "scoring was shut down: spans that end now are not scored, and count as root_not_ended_at_shutdown; "
    "fix: shut the tracer provider down last, or call configure again"
)


class IntakeLevel(NamedTuple):
    """How full an intake is."""

    waiting: int
    bytes: int
    """Of the waiting items that were measured."""
    capacity: int
    """Number of further items that may be put."""
    taken: int
    """Number of items taken so far."""

    @property
    def put(self) -> int:
        """Number of items put so far, except refused ones."""
        return self.taken + self.waiting


class Backlog:
    """Decides which captured items a queue refuses, and counts them."""

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.free = min(UNMEASURED, capacity)
        """Number of items that may wait before `admits` is called."""
        self._max_bytes = max_bytes
        self.bytes = 0  # of the waiting items that were measured
        self._refused: dict[int, int] = {}
        """Refused items by thread: no thread waits for another, or for itself in a signal handler."""
        self._full = sys.maxsize
        """Items that were refused before the end."""
        self.traces: BoundedCache[int, None] = BoundedCache(_REMEMBERED)
        """Ids of the newest ten thousand traces with refused items."""

    def admits(self, item: Any, waiting: int) -> bool:
        """Return True if an item may join those that wait; otherwise it is counted as refused."""
        size = size_of_captured(item) if waiting >= UNMEASURED else 0
        if waiting >= self.capacity or self.bytes + size > self._max_bytes:
            self.lose(item)
            return False
        self.bytes += size  # not atomic: threads that add at the same moment may lose a little
        return True

    def left(self, waiting: int) -> int:
        """Return the number of further items that may wait."""
        return max(0, self.capacity - waiting) if self.bytes < self._max_bytes else 0

    def add(self, items: Iterable[Any], waiting: int) -> None:
        """Count items that join the queue even if it is full."""
        if waiting >= UNMEASURED:
            self.bytes += sum(map(size_of_captured, items))

    def taken(self, waiting: int, left: int) -> None:
        """Scale the bytes to the items that are left of those that waited."""
        # An average is enough for a limit: items are not measured again as they leave.
        self.bytes = self.bytes * left // waiting if left else 0

    def close(self) -> None:
        self.capacity = self.free = 0
        self._full = self.refused

    @property
    def refused(self) -> int:
        """Items that were refused."""
        # A copy: another thread may add its key meanwhile, which fails an iteration.
        return sum(list(self._refused.values()))

    @property
    def losses(self) -> Mapping[str, int]:
        """Items that were refused, by reason."""
        refused = self.refused
        full = min(refused, self._full)
        # The plus leaves zeros out.
        return +Counter({"intake_full": full, "root_not_ended_at_shutdown": refused - full})

    def refuse(self, count: int) -> None:
        """Count items without remembering their traces."""
        thread = threading.get_ident()
        self._refused[thread] = self._refused.get(thread, 0) + count

    def lose(self, item: Any) -> None:
        """Count a refused item, and remember that its trace is incomplete."""
        if self._full == self.refused:  # the first one since the end
            _logger.warning(_ENDED)
        self.refuse(1)
        trace_id = _trace_of(item)
        if trace_id is not None:
            self.traces[trace_id] = None


class Intake(Protocol):
    backlog: Backlog

    def put(self, item: CapturedItem, ends_run: bool = False) -> None:
        """Take an item; one that ends a run need not wait for others. Must neither wait nor raise."""


def size_of_captured(item: Any) -> int:
    match item:
        case RecordedSpan():
            return size_of_span(item.span)
        case CapturedLog():
            return size_of_event(item.event)
        case CapturedSpan():
            return size_of_sdk_span(item.span)
    return 0


def _trace_of(item: Any) -> int | None:
    match item:
        case CapturedSpan():
            context: Any = item.span.context
            return int(context.trace_id)
        case CapturedLog():
            return item.trace_id
    return None
