"""The spans of runs that were joined from several closings, and the runs of such spans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from otel_evals.assembly.build import find_runs
from otel_evals.assembly.live import Closed
from otel_evals.assembly.scattered import join_scattered
from otel_evals.dialect import Dialects
from otel_evals.model import Run, SpanRecord

__all__ = ["closed_with", "read_again"]

_NOTHING = Closed((), {})


def closed_with(runs: Sequence[Run], closed: Closed = _NOTHING) -> Closed:
    """What closed last, and the spans of these runs that had closed before."""
    spans = {span.span_id for span in closed.spans}
    earlier = [o.span for run in runs for o in run.operations if o.span_id not in spans]
    if not earlier:
        return closed
    links: dict[str, str | None] = dict(closed.links)
    for run in runs:
        for parent, below in run.children.items():
            links.update((child, parent) for child in below if child not in spans)
    return Closed((*earlier, *closed.spans), links)


def read_again(spans: Sequence[SpanRecord], dialects: Dialects, links: Mapping[str, str | None]) -> list[Run]:
    """The runs of kept spans, which may be of several traces; the same that were judged the first time."""
    by_trace: dict[str, list[SpanRecord]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    found = (find_runs(each, dialects, links) for each in by_trace.values())
    return list(join_scattered(chain.from_iterable(found)))
