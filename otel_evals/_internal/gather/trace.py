"""A trace as the gatherer keeps it: its open spans and log records, and the ids of those that are closed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from itertools import islice
from math import inf
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.spans import size_of_event
from otel_evals._internal.util.plain import shallow

_TRACE_BYTES: Final = 1_000
_LINK_BYTES: Final = 200
ID_BYTES: Final = 100
_MOST_LINKS: Final = 10_000
MOST_CLOSED: Final = 10_000
_TIME = attrgetter("time")


class State(IntEnum):
    """The state of a trace, from which follows who may be removed for others."""

    UNCLAIMED = 0
    """Only log records, or spans that no convention claims: a claimed span may still arrive."""
    OPEN = 1
    ROOTED = 2
    """Open, and its root span has arrived."""
    CLOSED = 3
    """Only the ids of its closed spans."""


class SpanGroup(msgspec.Struct, frozen=True, gc=False):
    """The spans of a run, or several runs that belong together."""

    spans: tuple[SpanRecord, ...]
    links: Mapping[str, str | None]
    """By span id: the nearest ancestor of a span whose parent is not among the spans."""
    size: int = 0
    """Approximate bytes of the spans; 0 if unknown."""


class OpenSpan(msgspec.Struct, gc=False):
    """A claimed span whose run has not closed."""

    record: SpanRecord
    above: str | None
    """Id of the nearest claimed span above that was open when it began, or of its parent."""
    is_root: bool
    """True if no claimed span above was open."""
    at: float
    """When it arrived."""
    size: int


class Trace(msgspec.Struct, gc=False):
    """Its containers hold only what the collector need not visit."""

    trace_id: str
    first_seen: float
    last_seen: float
    spans: dict[str, OpenSpan] = {}  # a struct copies its defaults
    links: dict[str, str | None] = {}
    """The parents of unclaimed spans."""
    logs: dict[str, list[SpanEvent]] = {}
    """Log records by span id."""
    ended: dict[str, float] = {}
    """The times at which the runs of ended roots close, if they close one by one."""
    closed: dict[str, bool] = {}
    """Ids of closed spans: True if it arrived, False for a missing parent."""
    over: dict[str, str | None] = {}
    """What `above` found before: ids above unclaimed spans."""
    rooted: bool = False
    """True once the span without a parent has arrived, if the trace closes as a whole."""
    lacks_spans: bool = False
    """True if spans were dropped, so that the open runs are not complete."""
    evicted: bool = False
    """True if open runs were dropped: all that arrives afterwards is late."""
    due: float = inf
    """The time of its entry among the due times."""
    state: State = State.UNCLAIMED
    size: int = _TRACE_BYTES
    counted: int = 0
    """The part of `size` that is counted with the traces of its state."""

    # --- what arrives ---

    def reason_to_ignore(self, record: SpanRecord, above: str | None) -> str | None:
        """Return the reason for which a span joins no run; None if it does."""
        span = self.spans.get(record.span_id)
        # Some senders send a span before its end too: only one that has ended is repeated.
        if self.closed.get(record.span_id) or (span is not None and span.record.end_time):
            return "span_repeated"
        if self.evicted:
            return "span_late"
        if not self.closed:
            return None
        above = self.above(above)
        # Also a parent that was missing when the spans below it closed.
        is_late = record.span_id in self.closed or (above is not None and self.closed.get(above))
        return "span_late" if is_late else None

    def add_link(self, span_id: str, parent: str | None) -> None:
        """Keep the parent of an unclaimed span; below a closed span it is closed, too."""
        if span_id in self.links or span_id in self.spans:
            return
        above = self.above(parent)
        if self.closed and above is not None and self.closed.get(above):
            self.remember(span_id, arrived=True)
        # Beyond the bound, spans below it look as if their parent had not arrived.
        elif len(self.links) < _MOST_LINKS:
            self.links[span_id] = parent
            self.size += _LINK_BYTES

    def add_log(self, span_id: str, log: SpanEvent, most: int) -> int:
        """Keep a log record, at most `most` per span and spans; returns how many were dropped.

        Most such spans are never claimed, so the one that waited longest gives way.
        """
        held = self.logs.get(span_id)
        lost = 0
        if held is None:
            if len(self.logs) >= most:
                lost = len(self.take_logs(next(iter(self.logs))))
            held = self.logs[span_id] = []
        if len(held) >= most:
            return lost + 1
        log = _shallow(log)
        held.append(log)
        self.size += size_of_event(log)
        return lost

    def logs_of(self, span_id: str) -> tuple[SpanEvent, ...]:
        """Return the log records of a span, the oldest first."""
        return tuple(sorted(self.logs[span_id], key=_TIME))

    def take_logs(self, span_id: str) -> list[SpanEvent]:
        logs = self.logs.pop(span_id, [])
        self.size -= sum(map(size_of_event, logs))
        return logs

    def remember(self, span_id: str, *, arrived: bool) -> None:
        """Remember a closed span, at most some thousand of them."""
        if span_id not in self.closed:
            self.size += ID_BYTES
        self.closed[span_id] = arrived or self.closed.get(span_id, False)
        if len(self.closed) > MOST_CLOSED:
            self.forget_oldest()

    def forget_oldest(self) -> None:
        # Many at once: the first key is found by scanning the places of the deleted ones.
        for oldest in list(islice(self.closed, MOST_CLOSED // 2)):
            del self.closed[oldest]
            self.size -= ID_BYTES

    # --- the tree ---

    def above(self, span_id: str | None) -> str | None:
        """Return the first id from this one upward that is not of an unclaimed span."""
        if not self.links:
            return span_id
        seen: dict[str, None] = {}
        while span_id is not None and span_id in self.links and span_id not in seen:
            seen[span_id] = None
            # Earlier results make deep chains cheap.
            span_id = self.over.get(span_id, self.links[span_id])
        if span_id not in seen:  # malformed traces have cycles
            self.over.update(dict.fromkeys(seen, span_id))
        return span_id

    def tops(self) -> dict[str, list[str]]:
        """Return the open spans by the topmost open span above them.

        Takes time linear in the spans, however deep they are. Malformed traces may have cycles, all of whose
        spans have the same top.
        """
        found: dict[str, str] = {}
        for span_id in self.spans:
            way: dict[str, None] = {}
            top = span_id
            while top not in found and top not in way:
                way[top] = None
                upper = self.above(self.spans[top].above)
                if upper is None or upper not in self.spans:
                    break
                top = upper
            found.update(dict.fromkeys(way, found.get(top, top)))
        inside: dict[str, list[str]] = {}
        for span_id in self.spans:
            inside.setdefault(found[span_id], []).append(span_id)
        return inside

    def runs(self) -> set[str]:
        """Return an id for each open run: its root, or the span above it that has not arrived."""
        tops = ((top, self.spans[top]) for top in self.tops())
        return {top if span.is_root else span.above or top for top, span in tops}

    # --- what closes ---

    def clear(self) -> None:
        """Drop everything but the ids of closed spans."""
        for span in self.spans.values():
            self.size -= span.size
        self.spans.clear()
        self.ended.clear()
        self.rooted = self.lacks_spans = False  # both were about open spans
        for span_id in [*self.logs]:
            self.take_logs(span_id)
        self.size -= _LINK_BYTES * len(self.links)
        self.links.clear()
        self.over.clear()

    def unclaimed_with_logs(
        self, span_ids: Iterable[str], links: Mapping[str, str | None]
    ) -> Iterator[SpanRecord]:
        """Yield the unclaimed spans with log records, which may belong to a claimed span next to them.

        Without a link, only the parents of roots.
        """
        above = {*links, *(self.spans[span_id].record.parent_span_id for span_id in span_ids)}
        for span_id in self.logs:
            if span_id in above and span_id not in self.spans:
                parent, logs = links.get(span_id), self.logs_of(span_id)
                yield SpanRecord(trace_id=self.trace_id, span_id=span_id, parent_span_id=parent, logs=logs)


def _shallow(log: SpanEvent) -> SpanEvent:
    """Limit the depth of a log record's values to what can be stored: an application may log anything."""
    body, attributes = shallow(log.body), shallow(log.attributes)
    if body is log.body and attributes is log.attributes:
        return log
    return replace(log, body=body, attributes=attributes)
