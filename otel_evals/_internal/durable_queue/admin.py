"""Administration of a queue's file: list its runs, have dead letters scored again, delete runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_evals._internal.durable_queue.stored_run import load_status
from otel_evals._internal.util.sqlite_file import transaction

_STATES = {
    "waiting": "state = 'open' AND owner IS NULL",
    "scoring": "state = 'open' AND owner IS NOT NULL",
    "dead_letter": "state = 'dead_letter'",
    "done": "state = 'done'",
}


@dataclass(frozen=True, slots=True)
class ListedRun:
    id: int
    trace_id: str
    state: str
    """`waiting`, `scoring`, `dead_letter` (given up), or `done` (kept for late spans)."""
    age: float
    """Seconds in this state."""
    attempts: int
    crashes: int
    revision: int
    bytes: int
    rules: tuple[str, ...]
    reason: str


def list_runs(connection: sqlite3.Connection, state: str | None = None) -> Iterator[ListedRun]:
    """List the runs in a state, or all runs, oldest first."""
    for name, where in _STATES.items():
        if state is None or name == state:
            rows = connection.execute(
                "SELECT id, trace_id, since, attempts, crashes, revision, length(payload), jobs, reason"
                f" FROM run WHERE {where} ORDER BY since"
            )
            for row, trace_id, since, attempts, crashes, revision, size, jobs, reason in rows:
                age = max(0.0, time.time() - since)
                yield ListedRun(
                    row, trace_id, name, age, attempts, crashes, revision, size, _rules(jobs), reason
                )


def retry(connection: sqlite3.Connection, trace_ids: Sequence[str] = ()) -> int:
    """Have dead letters of these traces, or all, scored again as their next revision; return their number."""
    with transaction(connection):
        return sum(
            connection.execute(
                "UPDATE run SET state = 'open', owner = NULL, due = 0, since = ?, attempts = 0, crashes = 0,"
                f" revision = revision + 1, reason = 'retried by hand' WHERE state = 'dead_letter'{only}",
                (time.time(), *values),
            ).rowcount
            for only, values in _each(trace_ids)
        )


def drop(connection: sqlite3.Connection, state: str, trace_ids: Sequence[str] = ()) -> int:
    """Delete the runs of a state, of these traces or all; return their number."""
    with transaction(connection):
        return sum(
            connection.execute(f"DELETE FROM run WHERE {_STATES[state]}{only}", values).rowcount
            for only, values in _each(trace_ids)
        )


def _each(trace_ids: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    return [(" AND trace_id = ?", (trace_id,)) for trace_id in trace_ids] or [("", ())]


def _rules(jobs: str | None) -> tuple[str, ...]:
    """Return the rules that a run waits for; empty if its row is unreadable."""
    try:
        status = load_status(jobs)
    except ValueError:
        return ()
    if status.conversation is not None:
        return status.conversation.waits
    return tuple(dict.fromkeys(task.rule for task in status.tasks or ()))
