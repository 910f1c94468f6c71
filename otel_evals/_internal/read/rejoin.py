"""Spans of runs that were joined from several groups."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Run

_NOTHING = SpanGroup((), {})


def group_of(runs: Sequence[Run], group: SpanGroup = _NOTHING) -> SpanGroup:
    """Add the spans of runs that came with earlier groups to a group of spans."""
    spans = {span.span_id for span in group.spans}
    earlier = [o.span for run in runs for o in run.operations if o.span.span_id not in spans]
    if not earlier:
        return group
    links: dict[str, str | None] = dict(group.links)
    for run in runs:
        for parent, below in run.children.items():
            links.update((child, parent) for child in below if child not in spans)
    return SpanGroup((*earlier, *group.spans), links)
