"""What limits removed of runs that go on, so that no part of a run is taken for the whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

from otel_evals._internal.model import SpanRecord

_Value = TypeVar("_Value")


class LostSpans:
    """Remembers what was dropped and evicted.

    Args:
        most: how many spans, and how many traces, are remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.dropped_below: OrderedDict[str, None] = OrderedDict()
        """Ids of open spans below which spans were dropped."""
        self.evicted: OrderedDict[str, int] = OrderedDict()
        """By trace id: when the last of its evicted spans ended."""

    def drop(self, span_id: str, owner: str) -> None:
        """A span was dropped, whose nearest claimed span above is still open."""
        self.dropped_below.pop(span_id, None)
        _remember(self.dropped_below, owner, None, self._most)

    def has_dropped_below(self, span_id: str) -> bool:
        """Whether a span was dropped below this one; forgets it, since nobody else asks."""
        found = span_id in self.dropped_below
        self.dropped_below.pop(span_id, None)
        return found

    def evict(self, trace_id: str, spans: Iterable[SpanRecord]) -> None:
        """These spans of a trace were evicted."""
        ended = max((span.end_time or 0 for span in spans), default=0)
        _remember(self.evicted, trace_id, max(ended, self.evicted.get(trace_id, 0)), self._most)

    def was_evicted(self, span: SpanRecord) -> bool:
        """Whether a span began before others of its trace were evicted that may be part of its run."""
        return span.start_time <= self.evicted.get(span.trace_id, -1)


def _remember(known: OrderedDict[str, _Value], key: str, value: _Value, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)
