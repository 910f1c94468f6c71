"""The spans and log records of a trace that is not complete."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from otel_evals._internal.gather.gatherer import Judged
from otel_evals._internal.gather.tops import tops_of
from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.sizes import size_of_event, size_of_span

_LEFT_OUT = 10_000
_LINK_BYTES = 200


@dataclass(slots=True)
class OpenTrace:
    first_seen: float
    last_seen: float
    spans: dict[str, SpanRecord] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    """Arrival time of each claimed span."""
    links: dict[str, str | None] = field(default_factory=dict)
    """The parents of unclaimed spans."""
    logs: dict[str, list[SpanEvent]] = field(default_factory=dict)
    size: int = 0
    """Bytes of the spans, links and log records."""
    left_out: deque[str] = field(default_factory=lambda: deque(maxlen=_LEFT_OUT))
    """The newest spans dropped at a limit; spans below them are late and start no run."""
    rooted: bool = False
    """True once a span without a parent has arrived."""
    sources: tuple[Hashable, ...] = ()
    """Sources of its items whose time `last_seen` is; empty for the time of arrival."""
    judged: Judged | None = None
    """The earlier judgement, if spans arrived after it."""
    since: float | None = None
    """If another process judged some spans: earlier ones are unknown; in seconds since the epoch."""
    _over: dict[str, str | None] = field(default_factory=dict)
    """What `above` found before: ids above unclaimed spans."""

    def add_link(self, span_id: str, parent: str | None, most: int) -> int:
        """Keep the parent of an unclaimed span, for at most `most` spans; returns its bytes."""
        if span_id in self.links or len(self.links) >= most:
            return 0
        self.links[span_id] = parent
        self.size += _LINK_BYTES
        return _LINK_BYTES

    def add_log(self, span_id: str, log: SpanEvent, most: int) -> int | None:
        """Keep a log record, at most `most` per span and spans; returns its bytes, None if it is dropped."""
        held = self.logs.setdefault(span_id, []) if len(self.logs) < most else self.logs.get(span_id)
        if held is None or len(held) >= most:
            return None
        held.append(log)
        size = size_of_event(log)
        self.size += size
        return size

    def take_logs_of(self, span_id: str) -> SpanRecord:
        """Return a claimed span with its log records, oldest first, and drop them here."""
        span, logs = self.spans[span_id], self.logs.pop(span_id, None)
        return replace(span, logs=_oldest_first(logs)) if logs else span

    def measure(self) -> int:
        """Measure `size` again."""
        logs = (log for held in self.logs.values() for log in held)
        spans = sum(map(size_of_span, self.spans.values()))
        return spans + _LINK_BYTES * len(self.links) + sum(map(size_of_event, logs))

    def may_lack(self, span_ids: Collection[str]) -> bool:
        """Return True if spans next to these were dropped at a limit, or others may be unknown."""
        if self.left_out or self.since is None:
            return bool(self.left_out)
        spans = [self.spans[span_id] for span_id in span_ids]
        if any(span.start_time < self.since * 1e9 for span in spans):
            return True
        # The root may be what is unknown, unless the trace goes on.
        is_all = len(spans) == len(self.spans)
        return is_all and None not in self.links.values() and all(span.parent_span_id for span in spans)

    @property
    def next_revision(self) -> int:
        """The revision of its evaluations if it was judged before.

        It grows with each span, so it exceeds the revisions of other processes that had fewer spans.
        """
        return max(len(self.spans) + len(self.links), self.judged.revision + 1 if self.judged else 1)

    def above(self, parent: str | None) -> str | None:
        """Return the first id above a span, from its parent on, that is not of an unclaimed span."""
        seen: dict[str, None] = {}
        while parent is not None and parent in self.links and parent not in seen:
            seen[parent] = None
            parent = self._over.get(parent, self.links[parent])
        if parent not in seen:  # malformed traces have cycles
            self._over.update(dict.fromkeys(seen, parent))
        return parent

    def links_of(self, span_ids: Iterable[str]) -> dict[str, str | None]:
        """Return the unclaimed parents of claimed spans, each with the first claimed or missing id above."""
        parents = {self.spans[span_id].parent_span_id for span_id in span_ids}
        return {
            parent: self.above(parent) for parent in parents if parent is not None and parent in self.links
        }

    def tops(self) -> dict[str, list[str]]:
        """Return the claimed spans by the topmost claimed span above them that has arrived."""
        tops: dict[str, list[str]] = {}
        above = tops_of(self.spans, lambda span_id: self.above(self.spans[span_id].parent_span_id))
        for span_id, top in above.items():
            tops.setdefault(top, []).append(span_id)
        return tops

    def unclaimed_with_logs(self, links: Mapping[str, str | None]) -> Iterator[SpanRecord]:
        """Yield those unclaimed spans with log records, which may belong to a claimed span next to them."""
        trace_id = next((span.trace_id for span in self.spans.values()), "")
        for span_id, parent in links.items():
            if logs := self.logs.pop(span_id, None):
                yield SpanRecord(
                    trace_id=trace_id, span_id=span_id, parent_span_id=parent, logs=_oldest_first(logs)
                )


def _oldest_first(logs: Iterable[SpanEvent]) -> tuple[SpanEvent, ...]:
    return tuple(sorted(logs, key=lambda log: log.time))
