"""Reads runs from the spans of live or stored traces."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Loss, Run, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.sizes import SIZE
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals._internal.read.tree import parents_in
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_NOTHING = SpanGroup((), {})


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    conventions: Conventions,
    links: Mapping[str, str | None] | None = None,
) -> Iterator[Run]:
    """Yield the runs of traces, each as soon as it is whole; for `links` see `find_runs`."""
    return join_split_runs(run for trace in traces for run in find_runs(trace, conventions, links))


class RunReader:
    """Reads the spans of live runs, and records the result in the ledger."""

    def __init__(self, conventions: Conventions, ledger: Ledger) -> None:
        self._conventions = conventions
        self._ledger = ledger

    def read(self, group: SpanGroup) -> list[Run]:
        """Return the runs in a group of spans. Never raises."""
        trace_id = group.spans[0].trace_id
        try:
            runs = find_runs(group.spans, self._conventions, group.links)
        except BaseException as error:
            log_error(_logger, "a run could not be read", error=error)
            self._ledger.lost(Loss("run", "unreadable", trace_id))
            return []
        self._ledger.trace_log.assembled(trace_id, len(group.spans), runs)
        if len(runs) == 1 and group.size and len(runs[0].operations) == len(group.spans):
            runs[0].__dict__[SIZE] = group.size  # measured when the spans arrived
        if not runs:
            self._ledger.lost(Loss("run", "nothing_to_judge", trace_id))
        return runs

    def read_again(self, spans: Sequence[SpanRecord], links: Mapping[str, str | None]) -> list[Run]:
        """Return the runs in stored spans of one or several traces, the same as the first time."""
        by_trace: dict[str, list[SpanRecord]] = {}
        for span in spans:
            by_trace.setdefault(span.trace_id, []).append(span)
        return list(read_runs(by_trace.values(), self._conventions, links))


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
