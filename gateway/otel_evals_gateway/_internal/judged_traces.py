"""Memory of judged traces, so that late spans can join them and their runs are judged again.

Engine's thread only.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf

from opentelemetry.trace import format_span_id

from otel_evals.model import SpanEvent, SpanRecord
from otel_evals.sdk.pipeline import (
    CapturedLog,
    Evaluated,
    Judged,
    OpenTrace,
    SpanGroup,
    UnclaimedSpan,
    size_of_event,
    size_of_span,
)

_PART_BYTES = 1_000
"""Of a part besides its spans."""
_LINK_BYTES = 200


@dataclass(slots=True, eq=False)
class JudgedPart:
    """Spans of a trace that were judged together."""

    at: float
    """When they were judged, on the caller's clock."""
    spans: dict[str, SpanRecord]
    links: dict[str, str | None]
    logs: dict[str, list[SpanEvent]] = field(default_factory=dict)
    """Log records that are not in the spans."""
    size: int = _PART_BYTES
    sources: tuple[Hashable, ...] = ()
    evaluated: Evaluated | None = None
    """None if it is not known how the rules decided."""
    since: float | None = None
    """Earlier spans are unknown, in seconds since the epoch: judged elsewhere, or dropped at a limit."""
    revision: int = 1
    """Of its evaluations, if they are known."""

    def is_near(self, span_id: str, above: str | None) -> bool:
        """Return True if a span is directly above one of these, or below."""
        if above in self.spans or above in self.links or span_id in self.links.values():
            return True
        return any(span.parent_span_id == span_id for span in self.spans.values())

    def add(self, item: SpanRecord | UnclaimedSpan | CapturedLog) -> int:
        """Add an item that another process has judged; returns its bytes."""
        if isinstance(item, CapturedLog):
            self.logs.setdefault(format_span_id(item.span_id), []).append(item.event)
            return size_of_event(item.event)
        if item.span_id in self.spans or item.span_id in self.links:
            return 0
        if isinstance(item, UnclaimedSpan):
            self.links[item.span_id] = item.parent_span_id
            return _LINK_BYTES
        self.spans[item.span_id] = item
        return size_of_span(item)

    def join(self, trace: OpenTrace, now: float) -> None:
        """Add these spans to an open trace."""
        before = trace.judged or Judged({}, 1)
        known = self.evaluated is not None and before.evaluated is not None
        evaluated = {**(before.evaluated or {}), **(self.evaluated or {})} if known else None
        trace.judged = Judged(evaluated, max(before.revision, self.revision))
        trace.spans |= self.spans
        trace.arrived |= dict.fromkeys(self.spans, now)
        trace.links |= self.links
        for span_id, logs in self.logs.items():
            trace.logs.setdefault(span_id, []).extend(logs)
        trace.since = max((each for each in (trace.since, self.since) if each is not None), default=None)
        trace.size = trace.measure()


class JudgedTraces:
    """Keeps judged traces for `seconds`: `most_bytes` of them whole, and the evaluations of `most` others.

    The oldest lose their spans first; with a late span, their scores are replaced by `run_truncated`.
    """

    def __init__(self, seconds: float, most_bytes: int, most: int) -> None:
        self._seconds = seconds
        self._most_bytes = most_bytes
        self._most = most
        self._whole: dict[str, list[JudgedPart]] = {}
        """By trace id, the oldest first."""
        self._bytes = 0
        self._others: dict[str, tuple[float, Judged]] = {}
        """By trace id, with the time of the judgement."""
        self._now = 0.0
        self.forgotten = 0
        """Number of traces forgotten before `seconds`, to stay within the limits."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Whole traces, their bytes, and others. Any thread may read it."""
        return len(self._whole), self._bytes, len(self._others)

    def add(
        self,
        trace_id: str,
        trace: OpenTrace,
        records: Sequence[SpanRecord],
        links: Mapping[str, str | None],
        now: float,
    ) -> SpanGroup:
        """Keep spans that are to be judged, and return them; `note` has to follow."""
        spans = {record.span_id: record for record in records}
        evaluated, judged, revision = None, None, 1
        if trace.judged is not None:
            known = trace.judged.evaluated
            if known is not None:
                evaluated = {key: each for key, each in known.items() if key[2] in spans}
            revision = trace.next_revision
            judged = Judged(evaluated, revision)
        is_all = len(spans) >= len(trace.spans)
        size = trace.size if is_all else sum(map(size_of_span, records)) + _LINK_BYTES * len(links)
        part = JudgedPart(
            now,
            spans,
            dict(links),
            size=_PART_BYTES + size,
            sources=trace.sources,
            evaluated=evaluated,
            since=inf if trace.left_out else trace.since,
            revision=revision,
        )
        self._put(trace_id, part)
        return SpanGroup(tuple(records), links, size, judged)

    def add_finished(
        self,
        trace_id: str,
        item: SpanRecord | UnclaimedSpan | CapturedLog,
        source: Hashable,
        since: float,
        now: float,
    ) -> None:
        """Keep an item that another process has judged.

        Args:
            trace_id: its trace.
            item: a span or a log record.
            source: where it was read from.
            since: earlier items of a new trace are unknown, in seconds since the epoch.
            now: on the caller's clock.
        """
        if trace_id not in self._whole:
            since = inf if trace_id in self._others else since
            self._put(trace_id, JudgedPart(now, {}, {}, sources=(source,), since=since))
        part = self._whole[trace_id][0]
        size = part.add(item)
        if part.size + size > self._most_bytes:
            self._reduce(trace_id)
            self._put(trace_id, JudgedPart(now, {}, {}, sources=part.sources, since=inf))
        else:
            part.size += size
            self._bytes += size
            self._drop_oldest()

    def _put(self, trace_id: str, part: JudgedPart) -> None:
        self._whole.setdefault(trace_id, []).append(part)
        self._bytes += part.size
        self._now = part.at
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Drop the oldest traces beyond the limits of age and size."""
        oldest = self._now - self._seconds
        while len(self._whole) > 1:
            first, parts = next(iter(self._whole.items()))
            if self._bytes <= self._most_bytes and parts[0].at >= oldest:
                break
            self._reduce(first)
        while self._others:
            first, (at, _) = next(iter(self._others.items()))
            if len(self._others) <= self._most and at >= oldest:
                break
            self.forgotten += at >= oldest
            del self._others[first]

    def _reduce(self, trace_id: str) -> None:
        """Keep only the evaluations of a trace, and that it had spans of other processes."""
        parts = self._whole.pop(trace_id)
        self._bytes -= sum(part.size for part in parts)
        evaluated = {key: each for part in parts for key, each in (part.evaluated or {}).items()}
        if evaluated or any(part.since is not None for part in parts):
            items = sum(len(part.spans) + len(part.links) for part in parts)
            revision = max(items, *(part.revision for part in parts)) + 1
            self._others[trace_id] = parts[0].at, Judged(evaluated, revision)

    def note(self, group: SpanGroup, made: Evaluated) -> None:
        """Note the evaluations of spans that were added; without any, they need not be kept."""
        traces = {span.trace_id: span.span_id for span in group.spans}
        for trace_id, span_id in traces.items():
            part = self._part(trace_id, span_id)
            if part is not None:
                part.evaluated = {**(part.evaluated or {}), **made}
                if not part.evaluated:
                    self._remove(trace_id, part)
            elif made:
                revision = max(
                    len(group.spans) + len(group.links), group.judged.revision if group.judged else 1
                )
                self._others[trace_id] = self._now, Judged(made, revision + 1)
            if len(traces) > 1 and trace_id in self._whole:  # its spans alone are not the run
                self._reduce(trace_id)

    def note_more(self, made: Evaluated) -> None:
        """Note evaluations that the outcomes of others have caused."""
        for key, each in made.items():
            if (part := self._part(*key[1:])) is not None:
                part.evaluated = {**(part.evaluated or {}), key: each}

    def _part(self, trace_id: str, span_id: str) -> JudgedPart | None:
        return next((part for part in self._whole.get(trace_id, ()) if span_id in part.spans), None)

    def take(self, trace_id: str, span_id: str, above: str | None) -> list[JudgedPart]:
        """Remove and return the spans around a late one, which is below the one with the id `above`."""
        found = [part for part in self._whole.get(trace_id, ()) if part.is_near(span_id, above)]
        for part in found:
            self._remove(trace_id, part)
        return found

    def take_evaluations(self, trace_id: str) -> Judged | None:
        """Remove and return the evaluations of a trace whose spans are forgotten."""
        return self._others.pop(trace_id, (0.0, None))[1]

    def _remove(self, trace_id: str, part: JudgedPart) -> None:
        parts = self._whole[trace_id]
        parts.remove(part)
        if not parts:
            del self._whole[trace_id]
        self._bytes -= part.size

    def forget(self, sources: Set[Hashable]) -> None:
        """Forget the traces of sources that another process has read."""
        for trace_id, parts in list(self._whole.items()):
            for part in [part for part in parts if not sources.isdisjoint(part.sources)]:
                self._remove(trace_id, part)
