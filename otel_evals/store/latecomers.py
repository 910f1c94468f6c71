"""Spans whose run was closed before they came: gathered for a moment, then brought home."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from otel_evals.model import SpanRecord
from otel_evals.store.entry import Entry

__all__ = ["Late", "Latecomers", "home_of", "welcome"]

_GATHER_SECONDS = 0.5
_MAX_HELD = 10_000

Late = tuple[SpanRecord, str | None]
"""A late span and the id of its nearest known ancestor."""


class Latecomers:
    """Gathers late spans by trace, so that several of them cost one more scoring; on the engine's thread.

    Args:
        join: called with a trace id and its late spans.
    """

    def __init__(self, join: Callable[[str, Sequence[Late]], None]) -> None:
        self._join = join
        self._held: dict[str, list[Late]] = {}
        self._count = 0

    def take(self, span: SpanRecord, above: str | None) -> bool:
        """Take a late span; False when there are too many."""
        if self._count >= _MAX_HELD:
            return False
        gathered = self._held.setdefault(span.trace_id, [])
        gathered.append((span, above))
        self._count += 1
        if len(gathered) == 1:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._over, span.trace_id)
        return True

    def _over(self, trace_id: str) -> None:
        late = self._held.pop(trace_id)
        self._count -= len(late)
        self._join(trace_id, late)


def home_of(entries: Sequence[Entry], late: Sequence[Late]) -> Entry | None:
    """The run that late spans belong to."""
    near = {name for span, above in late for name in (span.span_id, span.parent_span_id, above)}
    return next((e for e in entries if any(span.span_id in near for span in e.spans)), None)


def welcome(entry: Entry, late: Sequence[Late]) -> None:
    """Add late spans to a run that is being scored; they count once that is done."""
    links = {span.span_id: above for span, above in late if above != span.parent_span_id}
    entry.links = {**entry.links, **links}
    entry.late += [span for span, _ in late]
