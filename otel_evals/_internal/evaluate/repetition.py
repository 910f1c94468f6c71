"""The evaluations to repeat after spans arrived for runs that were judged without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.queue_interface import Resumption
from otel_evals._internal.gather.gatherer import Evaluated, Judged
from otel_evals._internal.model import Operation, OperationKind, Run, SpanRecord
from otel_evals._internal.read.runs import subruns

_SPANS_DROPPED = attrgetter("span.spans_dropped")


def evaluations_of(jobs: Iterable[Job]) -> Evaluated:
    """Return the evaluations of jobs that can be repeated, which excludes conversations."""
    return {
        (job.rule.name, job.target.trace_id, job.target.span_id): (
            job.sampled,
            0 if lacks_spans(job.run) else len(job.run.operations),
        )
        for job in jobs
        if job.rule.scope != "conversation"
    }


def lacks_spans(run: Run) -> bool:
    """Return True if a limit removed spans from a run."""
    return any(map(_SPANS_DROPPED, run.operations))


def judged_spans(judged: Judged | None) -> Set[str]:
    """Return the ids of the spans that were judged, as far as they are known."""
    return {span_id for _, _, span_id in (judged and judged.evaluated) or ()}


def repetitions(runs: Sequence[Run], judged: Judged, rules: Mapping[str, Rule]) -> Iterator[Resumption]:
    """Yield the evaluations of the runs that have changed.

    Scores of a judged span that no longer roots a run become `run_truncated`: another run contains the span
    now, or its spans have left memory.
    """
    whole = {run.root_span_id: run for run in runs}
    agents = {part.root_span_id: part for run in runs for part in subruns(run)}
    for (name, trace_id, span_id), (sampled, operations) in (judged.evaluated or {}).items():
        if name not in rules:
            continue
        run = (agents if rules[name].scope == "agent" else whole).get(span_id)
        if operations != (0 if run is None else len(run.operations)):
            yield Resumption(name, run or _without_spans(trace_id, span_id), sampled, judged.revision)


def _without_spans(trace_id: str, span_id: str) -> Run:
    kind = OperationKind.OTHER
    span = SpanRecord(trace_id=trace_id, span_id=span_id, spans_dropped=True)
    operation = Operation(span=span, kind=kind, dialect="")
    return Run(trace_id=trace_id, root_span_id=span_id, root_kind=kind, operations=(operation,))
