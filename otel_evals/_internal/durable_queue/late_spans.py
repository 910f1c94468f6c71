"""Late spans end after their run was closed: they are batched for a moment, then added to that run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from otel_evals._internal.durable_queue.stored_run import StoredRun
from otel_evals._internal.model import SpanRecord
from otel_evals._internal.model.sizes import size_of_span

_GATHER_SECONDS = 0.5
_MAX_WAITING = 10_000

Late = tuple[SpanRecord, str | None]
"""A late span and the id of its nearest known ancestor."""


class LateSpans:
    """Batches late spans by trace, so a run is scored again once for all of them. Engine's thread only."""

    def __init__(self, join: Callable[[str, Sequence[Late]], None], max_bytes: int) -> None:
        self._join = join
        self._max_bytes = max_bytes
        self._waiting: dict[str, list[Late]] = {}
        self._count = self._bytes = 0

    def take(self, span: SpanRecord, above: str | None) -> bool:
        """Take a late span; False if too many wait."""
        size = size_of_span(span)
        if self._count >= _MAX_WAITING or self._bytes + size > self._max_bytes:
            return False
        gathered = self._waiting.setdefault(span.trace_id, [])
        gathered.append((span, above))
        self._count += 1
        self._bytes += size
        if len(gathered) == 1:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._pass_on, span.trace_id)
        return True

    def _pass_on(self, trace_id: str) -> None:
        late = self._waiting.pop(trace_id)
        self._count -= len(late)
        self._bytes -= size_of(late)
        self._join(trace_id, late)


def size_of(late: Sequence[Late]) -> int:
    return sum(size_of_span(span) for span, _ in late)


def run_of(runs: Sequence[StoredRun], late: Sequence[Late]) -> StoredRun | None:
    """Return the run that late spans belong to."""
    near = {name for span, above in late for name in (span.span_id, span.parent_span_id, above)}
    return next((run for run in runs if any(span.span_id in near for span in run.spans)), None)


def add_late(run: StoredRun, late: Sequence[Late]) -> None:
    """Add late spans to a run that is being scored; it is scored again with them afterwards."""
    links = {span.span_id: above for span, above in late if above != span.parent_span_id}
    run.links = {**run.links, **links}
    run.late += [span for span, _ in late]
