"""Log records whose span has not ended, or is nobody's to read; bounded by count and bytes."""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.sizes import size_of_event
from otel_evals._internal.util.plain import shallow

_MOST_SPANS = 20_000
_CHOICE = "gen_ai.choice"


class HeldLogs:
    """Log records by the id of their span, until somebody takes them.

    Args:
        most: how many are kept of one span.
        max_bytes: how many bytes of them are kept; those of the span that has waited longest give way.
    """

    def __init__(self, most: int, max_bytes: int) -> None:
        self._most = most
        self._max_bytes = max_bytes
        self.by_span: OrderedDict[str, list[SpanEvent]] = OrderedDict()
        self._bytes = 0

    def add(self, span_id: str, log: SpanEvent) -> int:
        """Keep a log record until its span arrives; returns how many are not kept for want of room.

        Most such spans are not claimed, so the oldest of too many spans are forgotten without being counted.
        """
        lost = 0
        held = self.by_span.setdefault(span_id, [])
        if len(held) < self._most:
            held.append(log := _shallow(log))
            self._bytes += size_of_event(log)
        else:
            lost += 1
        while self._bytes > self._max_bytes:
            lost += len(self.take(next(iter(self.by_span))) or ())
        if len(self.by_span) > _MOST_SPANS:
            self.take(next(iter(self.by_span)))
        return lost

    def get(self, span_id: str) -> list[SpanEvent] | None:
        """Those of a span; None if there are none."""
        return self.by_span.get(span_id)

    def take(self, span_id: str) -> list[SpanEvent] | None:
        """Those of a span, which are kept no longer; None if there are none."""
        held = self.by_span.pop(span_id, None)
        if held is not None:
            self._bytes -= sum(map(size_of_event, held))
        return held


def _shallow(log: SpanEvent) -> SpanEvent:
    """The log record, its values no deeper than can be stored: an application may log anything."""
    body, attributes = shallow(log.body), shallow(log.attributes)
    if body is log.body and attributes is log.attributes:
        return log
    return replace(log, body=body, attributes=attributes)


def take_choice(root: SpanRecord, logs: HeldLogs) -> SpanRecord | None:
    """The unclaimed span above a root, with its logs, if the only choice of a model was logged there."""
    above = root.parent_span_id
    found = logs.get(above) if above is not None else None
    if above is None or found is None or [log.name for log in found].count(_CHOICE) != 1:
        return None
    logs.take(above)
    return SpanRecord(trace_id=root.trace_id, span_id=above, parent_span_id=None, logs=tuple(found))
