"""Log records whose span has not ended or is not claimed, bounded by count and bytes."""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.sizes import size_of_event
from otel_evals._internal.util.plain import shallow

_MOST_SPANS = 20_000
_CHOICE = "gen_ai.choice"


class HeldLogs:
    """Log records by span id: at most `most` per span; beyond `max_bytes`, the oldest spans lose theirs."""

    def __init__(self, most: int, max_bytes: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self.by_span: OrderedDict[str, list[SpanEvent]] = OrderedDict()
        self._bytes = 0

    def add(self, span_id: str, log: SpanEvent) -> int:
        """Keep a log record until its span arrives; returns how many had to be dropped.

        Most such spans are never claimed, so the oldest of too many spans are dropped uncounted.
        """
        lost = 0
        held = self.by_span.setdefault(span_id, [])
        if len(held) < self._most:
            held.append(log := _shallow(log))
            self._bytes += size_of_event(log)
        else:
            lost += 1
        while self._bytes > self._max_bytes:
            lost += len(self.take(next(iter(self.by_span))))
        if len(self.by_span) > _MOST_SPANS:
            self.take(next(iter(self.by_span)))
        return lost

    def take(self, span_id: str) -> list[SpanEvent]:
        held = self.by_span.pop(span_id, [])
        self._bytes -= sum(map(size_of_event, held))
        return held


def _shallow(log: SpanEvent) -> SpanEvent:
    """Limit the depth of a log record's values to what can be stored: an application may log anything."""
    body, attributes = shallow(log.body), shallow(log.attributes)
    if body is log.body and attributes is log.attributes:
        return log
    return replace(log, body=body, attributes=attributes)


def take_choice(root: SpanRecord, logs: HeldLogs) -> SpanRecord | None:
    """Return the unclaimed span above a root, with its logs, if exactly one model choice was logged there."""
    above = root.parent_span_id or ""
    found = logs.by_span.get(above, ())
    if [log.name for log in found].count(_CHOICE) != 1:
        return None
    return SpanRecord(
        trace_id=root.trace_id, span_id=above, parent_span_id=None, logs=tuple(logs.take(above))
    )
