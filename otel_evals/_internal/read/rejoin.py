"""Spans of runs that were joined from several groups, and assembling runs from such spans again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from otel_evals._internal.dialect import Dialects
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Run, SpanRecord
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs

_NOTHING = SpanGroup((), {})


def group_of(runs: Sequence[Run], group: SpanGroup = _NOTHING) -> SpanGroup:
    """A group of spans, extended by the spans of these runs that came with earlier groups."""
    spans = {span.span_id for span in group.spans}
    earlier = [o.span for run in runs for o in run.operations if o.span.span_id not in spans]
    if not earlier:
        return group
    links: dict[str, str | None] = dict(group.links)
    for run in runs:
        for parent, below in run.children.items():
            links.update((child, parent) for child in below if child not in spans)
    return SpanGroup((*earlier, *group.spans), links)


def read_again(spans: Sequence[SpanRecord], dialects: Dialects, links: Mapping[str, str | None]) -> list[Run]:
    """Assemble runs from stored spans, of one or several traces; the same runs as the first time."""
    by_trace: dict[str, list[SpanRecord]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    found = (find_runs(each, dialects, links) for each in by_trace.values())
    return list(join_split_runs(chain.from_iterable(found)))
