"""Remembers spans removed by limits, so that a partial run is not taken for a whole one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from otel_evals._internal.model import SpanRecord


class LostSpans:
    """Remembers dropped spans and evicted traces, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.dropped_below: OrderedDict[str, None] = OrderedDict()
        """Ids of open spans below which spans were dropped."""
        self.evicted: OrderedDict[str, int] = OrderedDict()
        """By trace id: the end of the last of its evicted spans."""

    def drop(self, span_id: str, owner: str) -> None:
        """Record a dropped span, and its nearest claimed span above, which is still open."""
        self.dropped_below.pop(span_id, None)
        self._remember(self.dropped_below, owner, None)

    def has_dropped_below(self, span_id: str) -> bool:
        """Return True once if a span was dropped below this one."""
        found = span_id in self.dropped_below
        self.dropped_below.pop(span_id, None)
        return found

    def evict(self, trace_id: str, spans: Iterable[SpanRecord]) -> None:
        """Record the eviction of these spans of a trace."""
        ended = max((span.end_time or 0 for span in spans), default=0)
        self._remember(self.evicted, trace_id, max(ended, self.evicted.get(trace_id, 0)))

    def was_evicted(self, span: SpanRecord) -> bool:
        """Return True if a span began before other spans of its run may have been evicted."""
        return span.start_time <= self.evicted.get(span.trace_id, -1)

    def _remember(self, known: OrderedDict[str, Any], key: str, value: int | None) -> None:
        known[key] = value
        known.move_to_end(key)
        if len(known) > self._most:
            known.popitem(last=False)
