"""Runs that wait with their conversation, kept in the file so that the next process can go on with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from otel_evals.assembly.whole import closed_with
from otel_evals.model import Run, SpanRecord
from otel_evals.store.entry import Entry, Status, Turn

__all__ = ["Turns"]

_Read = Callable[[Sequence[SpanRecord], Mapping[str, str | None]], list[Run]]


class Turns:
    """Writes runs for their conversations' sake.

    Args:
        save: has an entry written.
        read: makes runs of spans.
    """

    def __init__(self, save: Callable[[Entry], None], read: _Read) -> None:
        self._save = save
        self._read = read
        self.back: Callable[[Run, Turn], None] = lambda run, turn: None
        """Called with each run of a process that has ended, and what was known of its conversation."""

    def keep(self, run: Run, turn: Turn) -> Entry:
        """Write a run."""
        closed = closed_with([run])
        entry = Entry(run.trace_id, closed.spans, closed.links, Status(turn=turn))
        self._save(entry)
        return entry

    def note(self, entry: Entry, turn: Turn) -> None:
        """Write what is known now."""
        entry.status = replace(entry.status, turn=turn)
        self._save(entry)

    def forget(self, entries: Iterable[Entry]) -> None:
        """Delete runs."""
        for entry in entries:
            entry.status = replace(entry.status, state="gone")
            self._save(entry)

    def take_back(self, entry: Entry, turn: Turn) -> None:
        """Hand over what another process kept; it is written anew by whoever takes it."""
        for run in self._read(entry.spans, entry.links):
            self.back(run, turn)
        self.forget([entry])
