"""From stored traces to runs: what the command line, the evaluations of data sets and the tests read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_evals.assembly.runs import find_runs
from otel_evals.assembly.split_runs import join_split_runs
from otel_evals.dialect import Dialects
from otel_evals.model import Run, SpanRecord

__all__ = ["read_runs"]


def read_runs(
    traces: Iterable[Sequence[SpanRecord]],
    dialects: Dialects,
    links: Mapping[str, str | None] | None = None,
) -> Iterator[Run]:
    """The runs of traces, each handed on as soon as it is whole.

    Args:
        traces: the spans of each trace.
        dialects: who reads them.
        links: nearest ancestors of spans whose parents are missing, by span id.
    """
    return join_split_runs(run for trace in traces for run in find_runs(trace, dialects, links))
