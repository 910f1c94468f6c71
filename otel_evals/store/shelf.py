"""What people do with a store: look at its runs, have them scored again, throw them away."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_evals.store.database import transaction

__all__ = ["Shelved", "drop", "retry", "shelved"]

_STATES = {
    "waiting": "state = 'open' AND owner IS NULL",
    "scoring": "state = 'open' AND owner IS NOT NULL",
    "aside": "state = 'aside'",
    "done": "state = 'done'",
}


@dataclass(frozen=True, slots=True)
class Shelved:
    """One run in the store."""

    id: int
    trace_id: str
    state: str
    """`waiting`, `scoring`, `aside`, or `done` (kept for late spans)."""
    age: float
    """Seconds in this state."""
    attempts: int
    crashes: int
    revision: int
    bytes: int
    rules: tuple[str, ...]
    reason: str


def shelved(connection: sqlite3.Connection, state: str | None = None) -> Iterator[Shelved]:
    """The runs of one state, or of all, oldest first."""
    for name, where in _STATES.items():
        if state is None or name == state:
            rows = connection.execute(
                "SELECT id, trace_id, since, attempts, crashes, revision, length(payload), jobs, reason"
                f" FROM run WHERE {where} ORDER BY since"
            )
            for row, trace_id, since, attempts, crashes, revision, size, jobs, reason in rows:
                age = max(0.0, time.time() - since)
                yield Shelved(
                    row, trace_id, name, age, attempts, crashes, revision, size, _rules(jobs), reason
                )


def retry(connection: sqlite3.Connection, trace_ids: Sequence[str] = ()) -> int:
    """Have runs that were set aside scored again, as their next revision; returns their number.

    Args:
        connection: from `open_database`.
        trace_ids: only runs of these traces; all that are aside by default.
    """
    with transaction(connection):
        return sum(
            connection.execute(
                "UPDATE run SET state = 'open', owner = NULL, due = 0, since = ?, attempts = 0, crashes = 0,"
                f" revision = revision + 1, reason = 'retried by hand' WHERE state = 'aside'{only}",
                (time.time(), *values),
            ).rowcount
            for only, values in _each(trace_ids)
        )


def drop(connection: sqlite3.Connection, state: str, trace_ids: Sequence[str] = ()) -> int:
    """Delete runs of a state; returns their number.

    Args:
        connection: from `open_database`.
        state: `waiting`, `aside` or `done`.
        trace_ids: only runs of these traces; all of that state by default.
    """
    with transaction(connection):
        return sum(
            connection.execute(f"DELETE FROM run WHERE {_STATES[state]}{only}", values).rowcount
            for only, values in _each(trace_ids)
        )


def _each(trace_ids: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [(" AND trace_id = ?", (trace_id,)) for trace_id in trace_ids] or [("", ())]


def _rules(jobs: str | None) -> tuple[str, ...]:
    try:
        read = json.loads(jobs or '{"tasks": []}')
        if "turn" in read:
            return tuple(map(str, read["turn"][1]))
        return tuple(dict.fromkeys(str(task[0]) for task in read["tasks"]))
    except (ValueError, KeyError, TypeError, IndexError):
        return ()
