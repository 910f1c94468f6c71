"""Reads runs from the spans of live or stored traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Run, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals._internal.read.tree import parents_in

_NOTHING = SpanGroup((), {})


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    conventions: Conventions,
    links: Mapping[str, str | None] | None = None,
) -> Iterator[Run]:
    """Yield the runs of traces, each as soon as it is whole; for `links` see `find_runs`."""
    return join_split_runs(run for trace in traces for run in find_runs(trace, conventions, links))


def group_of(runs: Sequence[Run], group: SpanGroup = _NOTHING) -> SpanGroup:
    """Add the spans of joined runs from earlier groups to a group of spans."""
    spans = {span.span_id for span in group.spans}
    earlier = [o.span for run in runs for o in run.operations if o.span.span_id not in spans]
    if not earlier:
        return group
    links: dict[str, str | None] = dict(group.links)
    for run in runs:
        links.update((child, p) for child, p in parents_in(run.children).items() if child not in spans)
    return SpanGroup((*earlier, *group.spans), links)
