"""What people do with a store; `test_table.py` has its command line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_evals._internal.durable_queue import admin
from otel_evals._internal.durable_queue.database import open_database
from otel_evals._internal.durable_queue.payload import encode
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, Task
from otel_evals._internal.durable_queue.table import RunTable
from otel_evals._internal.evaluate.queue_interface import ConversationState
from otel_evals.model import SpanRecord


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = open_database(tmp_path / "runs.db")
    yield opened
    opened.close()


def write(connection: sqlite3.Connection, number: int, *rules: str, **status: Any) -> None:
    span = SpanRecord(trace_id=f"{number:032x}", span_id=f"{number:016x}")
    tasks = tuple(Task(rule, span.span_id, 1.0, "always()") for rule in rules)
    if "conversation" not in status:
        status["tasks"] = tasks
    row = StoredRun(span.trace_id, (span,), {})
    RunTable(connection, "me", 60.0).insert(row, RunStatus(**status), encode((span,), {}))


def test_runs_are_listed_with_their_state_and_the_rules_they_wait_for(connection: sqlite3.Connection) -> None:
    write(connection, 1, "a", "b@agent", "a", free=True)
    write(connection, 2, conversation=ConversationState({"c@conversation": 1}, ("c@conversation",)))
    write(connection, 3, "a", state="dead_letter", reason="KeyError: 'x'", attempts=3)
    write(connection, 4, state="done")
    listed = {int(run.trace_id, 16): (run.state, run.rules) for run in admin.list_runs(connection)}
    assert listed == {
        1: ("waiting", ("a", "b@agent")),
        2: ("scoring", ("c@conversation",)),
        3: ("dead_letter", ("a",)),
        4: ("done", ()),
    }
    (given_up,) = admin.list_runs(connection, "dead_letter")
    assert (given_up.reason, given_up.attempts, given_up.revision) == ("KeyError: 'x'", 3, 1)
    assert given_up.bytes > 0
    assert 0 <= given_up.age < 60


@pytest.mark.parametrize("jobs", ["not JSON", "[]", '{"tasks": 7}', None])
def test_a_row_that_cannot_be_read_is_listed_all_the_same(connection: sqlite3.Connection, jobs: Any) -> None:
    write(connection, 1, "a", free=True)
    connection.execute("UPDATE run SET jobs = ?", (jobs,))
    assert [run.rules for run in admin.list_runs(connection)] == [()]


def test_only_dead_letters_are_retried_all_or_by_trace(connection: sqlite3.Connection) -> None:
    for number in (1, 2, 3):
        write(connection, number, "a", state="dead_letter", attempts=3, crashes=4)
    write(connection, 4, "a", state="done")
    assert admin.retry(connection, [f"{1:032x}", "f" * 32]) == 1
    assert admin.retry(connection) == 2
    assert admin.retry(connection) == 0
    waiting = list(admin.list_runs(connection, "waiting"))
    assert {(run.revision, run.attempts, run.crashes, run.reason) for run in waiting} == {
        (2, 0, 0, "retried by hand")
    }


def test_runs_of_one_state_are_dropped_all_or_by_trace(connection: sqlite3.Connection) -> None:
    for number in (1, 2, 3):
        write(connection, number, "a", free=True)
    write(connection, 4, "a")
    assert admin.drop(connection, "waiting", [f"{2:032x}"]) == 1
    assert admin.drop(connection, "waiting") == 2
    assert [run.state for run in admin.list_runs(connection)] == ["scoring"]
