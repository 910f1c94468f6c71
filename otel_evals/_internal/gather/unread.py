"""Counts the runs whose spans are not read because scoring ends, without reading all those spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals._internal.capture.items import CapturedSpan, IntakeItem, RecordedSpan
from otel_evals._internal.model import Loss


class SpanPlace(NamedTuple):
    """The place of a captured span in its trace."""

    trace_id: str
    above: str | None
    """Id of the nearest claimed span above that was open, or else of the parent."""
    is_root: bool
    """True if no claimed span above was open: a run ended with it, unless it joins another."""


def places_of(items: Iterable[IntakeItem]) -> Iterator[tuple[str, SpanPlace]]:
    """Yield span ids and places of the spans among captured items."""
    for item in items:
        if isinstance(item, CapturedSpan):
            context, parent = item.span.context, item.span.parent
            above = item.owner or (parent.span_id if parent else 0)
            place = SpanPlace(
                format_trace_id(context.trace_id), format_span_id(above) if above else None, not item.owner
            )
            yield format_span_id(context.span_id), place
        elif isinstance(item, RecordedSpan):
            span = item.span
            above_record = format_span_id(item.owner) if item.owner else span.parent_span_id
            yield span.span_id, SpanPlace(span.trace_id, above_record, not item.owner)


def count_unread(
    places: Mapping[str, SpanPlace], closed: Collection[str] = (), kept: Collection[str] = ()
) -> list[Loss]:
    """Return the runs that these spans would have become, as losses.

    Args:
        places: by span id.
        closed: ids of the spans of closed runs; spans below them are late and no runs.
        kept: roots that are stored and so not lost.
    """
    ended: Counter[str] = Counter()
    without_root: dict[str, set[str | None]] = {}
    for span_id, place in places.items():
        if place.above in closed or place.above in places or span_id in kept:
            continue
        if place.is_root:
            ended[place.trace_id] += 1
        else:  # all those below one open span are one run
            without_root.setdefault(place.trace_id, set()).add(place.above)
    return [
        *(Loss("run", "undecided_at_shutdown", trace_id, count) for trace_id, count in ended.items()),
        *(Loss("run", "root_not_ended_at_shutdown", t, len(above)) for t, above in without_root.items()),
    ]
