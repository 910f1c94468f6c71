"""Finds the unfinished run at a place: its spans that have ended, and its open spans as they are so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from opentelemetry.sdk.trace import Span
from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals._internal.capture.items import CapturedSpan, OpenSpans
from otel_evals._internal.engine.check import Place
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.model import Availability, Message, NotScored, Part, Run, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.records import with_given
from otel_evals._internal.read.runs import find_runs

_ATTEMPTS = 5
"""Attempts to read an open span while the application writes on it."""
_NO_RUN = NotScored(
    reason="no_run",
    explanation="no agent or model call is under way here, and none ended less than `grace` seconds ago",
)


class UnfinishedRuns:
    """Reads unfinished runs, on the engine's thread; `joined` adds the earlier parts of a split run."""

    def __init__(
        self,
        open_spans: OpenSpans,
        gatherer: Gatherer,
        conventions: Conventions,
        joined: Callable[[Run], Run],
    ) -> None:
        self._open_spans = open_spans
        self._gatherer = gatherer
        self._conventions = conventions
        self._joined = joined

    def find(self, place: Place, answer: str | None) -> Run | NotScored:
        """Return the run at a place with the given answer, or the reason why there is none."""
        for trace_id in place.traces:
            opened = self._open_spans.of_trace(trace_id)
            found = self._find(trace_id, opened, place, answer)
            # The likeliest trace is ambiguous: a run of another trace would be a guess.
            if isinstance(found, NotScored):
                return found
            if found is not None:
                run = self._joined(found)
                return run if answer is None else with_answer(run, answer)
        return _NO_RUN

    def _find(
        self, trace_id: int, opened: Mapping[int, Span], place: Place, answer: str | None
    ) -> Run | NotScored | None:
        group = self._gatherer.so_far(format_trace_id(trace_id))
        ours = {i: owner for i in opened if (owner := self._owner(i, opened)) is not None}
        records, links = [*group.spans], dict(group.links)
        for span_id, owner in ours.items():
            record = _record(opened[span_id], owner)
            if record is not None:
                records.append(record)
                # Unclaimed spans in between are no records: the link leads over them.
                if owner and format_span_id(owner) != record.parent_span_id:
                    links[record.span_id] = format_span_id(owner)
        if not records:
            return None
        runs = find_runs(records, self._conventions, links)
        claimed = {record.span_id for record in records}
        # The current span first, then those above it: the nearest claimed one is in the run meant.
        for here in map(format_span_id, place.above):
            if here in claimed:
                within = [run for run in runs if any(each.span.span_id == here for each in run.operations)]
                return next(iter(within), None)
        # No span of the run is around the caller: one that began before the place is not meant.
        return _latest([run for run in runs if run.start_time >= place.since], answer)

    def _owner(self, span_id: int, opened: Mapping[int, Span]) -> int | None:
        """Return the nearest claimed open span above a claimed one, or 0; None if it is not claimed."""
        claimed = [i for i in _upward(span_id, opened) if self._claims(opened[i])]
        # The span itself is the first of them.
        return [*claimed, 0][1] if span_id in claimed else None

    def _claims(self, span: Span) -> bool:
        scope = span.instrumentation_scope
        return self._conventions.claims(scope.name if scope else "", span)


def with_answer(run: Run, answer: str) -> Run:
    """Return a run with this answer instead of the recorded one."""
    message = Message(role="assistant", parts=(Part(kind="text", text=answer),))
    availability = {**run.availability, "output": Availability.PRESENT}
    return with_given(run, output=answer, output_messages=(message,), availability=availability)


def _upward(span_id: int, opened: Mapping[int, Span]) -> Iterator[int]:
    """Yield an open span and those above it."""
    # Bounded: malformed parents may form a cycle.
    for _ in range(len(opened)):
        if span_id not in opened:
            return
        yield span_id
        parent: Any = opened[span_id].parent
        span_id = parent.span_id if parent is not None else 0


def _record(span: Span, owner: int) -> SpanRecord | None:
    for _ in range(_ATTEMPTS):
        try:
            return CapturedSpan(span, owner).record()
        except RuntimeError:  # the application added an event meanwhile
            continue
    return None


def _latest(runs: Sequence[Run], answer: str | None) -> Run | NotScored | None:
    """Return the run that is open or ended last; for overlapping runs, the one that recorded the answer."""
    ended = sorted(runs, key=_end)
    if len(ended) > 1 and ended[-1].start_time < _end(ended[-2]):
        same = [run for run in ended if answer is not None and run.output == answer]
        if len(same) != 1:
            why = f"{len(ended)} runs overlap here; check the answer inside its own run"
            return NotScored(reason="no_run", explanation=why)
        return same[0]
    return ended[-1] if ended else None


def _end(run: Run) -> float:
    return inf if run.end_time is None else run.end_time
