"""From spans to runs, live and as traces are stored."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Loss, Run, SpanRecord
from otel_evals._internal.model.sizes import SIZE
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals._internal.util.error_log import tell

_logger = logging.getLogger(__name__)


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    dialects: Dialects,
    links: Mapping[str, str | None] | None = None,
) -> Iterator[Run]:
    """Yield the runs of traces, each as soon as it is whole; for `links` see `find_runs`."""
    return join_split_runs(run for trace in traces for run in find_runs(trace, dialects, links))


class RunReader:
    """Reads the spans of live runs, and records the result in the ledger."""

    def __init__(self, dialects: Dialects, ledger: Ledger) -> None:
        self._dialects = dialects
        self._ledger = ledger

    def read(self, group: SpanGroup) -> list[Run]:
        """Return the runs in a group of spans. Never raises."""
        trace_id = group.spans[0].trace_id
        try:
            runs = find_runs(group.spans, self._dialects, group.links)
        except BaseException as error:
            tell(_logger, "a run could not be read", error=error)
            self._ledger.lost(Loss("run", "unreadable", trace_id))
            return []
        self._ledger.trace_log.assembled(trace_id, len(group.spans), runs)
        if len(runs) == 1 and group.size and len(runs[0].operations) == len(group.spans):
            runs[0].__dict__[SIZE] = group.size  # measured when the spans arrived
        if not runs:
            self._ledger.lost(Loss("run", "nothing_to_judge", trace_id))
        return runs

    def read_again(self, spans: Sequence[SpanRecord], links: Mapping[str, str | None]) -> list[Run]:
        """Assemble runs from stored spans, the same runs as the first time."""
        by_trace: dict[str, list[SpanRecord]] = {}
        for span in spans:
            by_trace.setdefault(span.trace_id, []).append(span)
        return list(read_runs(by_trace.values(), self._dialects, links))
