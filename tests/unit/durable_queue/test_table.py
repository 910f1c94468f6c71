"""The store's table: which process holds which runs, for how long, and what is evicted."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.durable_queue import admin as shelf
from otel_evals._internal.durable_queue import database
from otel_evals._internal.durable_queue.database import open_database
from otel_evals._internal.durable_queue.payload import encode
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, Task
from otel_evals._internal.durable_queue.table import MAX_CRASHES, RunTable
from otel_evals._internal.util.sqlite_file import transaction
from otel_evals.errors import StoreError
from otel_evals.model import SpanRecord
from tests.support.waits import SECONDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def connect(path: Path) -> Iterator[Callable[[], sqlite3.Connection]]:
    """Connections to one file, closed after the test."""
    opened: list[sqlite3.Connection] = []

    def make() -> sqlite3.Connection:
        opened.append(open_database(path))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def entry(number: int, size: int = 10, **status: object) -> StoredRun:
    spans = (SpanRecord(trace_id=f"{number:032x}", span_id=f"{number:016x}", name="x" * size),)
    tasks = (Task("answered", f"{number:016x}", 1.0, "always()"),)
    return StoredRun(f"{number:032x}", spans, {}, RunStatus(tasks=tasks, **status))  # type: ignore[arg-type]


def write(table: RunTable, number: int, size: int = 10, **status: object) -> StoredRun:
    made = entry(number, size, **status)
    made.row = table.insert(made, made.status, encode(made.spans, made.links))
    return made


def owned(connection: sqlite3.Connection, name: str, lease: float = 60.0) -> RunTable:
    table = RunTable(connection, name, lease)
    table.beat()
    return table


def test_the_file_is_its_owners_alone(path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
    """It holds conversations."""
    write(owned(connect(), "a"), 1)
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


def test_a_file_that_others_may_read_is_narrowed(
    path: Path, connect: Callable[[], sqlite3.Connection]
) -> None:
    path.touch()
    path.chmod(0o666)
    write(owned(connect(), "a"), 1)
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


@pytest.mark.parametrize("target", ["there", "not there"])
def test_a_symbolic_link_is_not_followed(path: Path, target: str) -> None:
    """It could have somebody else's file written, or conversations where others read them."""
    other = path.parent / "other"
    if target == "there":
        other.write_bytes(b"")
    path.symlink_to(other)
    with pytest.raises(StoreError, match="symbolic link"):
        open_database(path)
    assert not other.exists() or other.read_bytes() == b""


def test_a_free_run_is_taken_by_one_process_only(connect: Callable[[], sqlite3.Connection]) -> None:
    a, b = owned(connect(), "a"), owned(connect(), "b")
    made = write(a, 1)
    assert b.claim(10, 10**9, {}) == []
    assert a.update(made.row or 0, replace(made.status, free=True), None)
    (taken,) = b.claim(10, 10**9, {})
    assert taken.spans == made.spans
    assert taken.status.tasks == made.status.tasks
    assert a.claim(10, 10**9, {}) == []
    assert not a.update(made.row or 0, replace(made.status, state="done"), None), "it is b's now"


def test_a_run_is_not_taken_before_it_is_due(connect: Callable[[], sqlite3.Connection]) -> None:
    table = owned(connect(), "a")
    write(table, 1, free=True, due=time.time() + 60)
    write(table, 2, free=True, due=time.time() + 10 * 86_400)
    (taken,) = table.claim(10, 10**9, {})
    assert int(taken.trace_id, 16) == 2, "a due time that far ahead is a clock that was set back"


def test_leases_end_with_their_process(connect: Callable[[], sqlite3.Connection]) -> None:
    """A process that gives no sign of life loses its runs; one that does keeps them."""
    dead, living, taker = (
        owned(connect(), "dead"),
        owned(connect(), "living"),
        owned(connect(), "taker", 60.0),
    )
    write(dead, 1)
    write(living, 2)
    assert taker.expire() == 0
    connection = connect()
    connection.execute("UPDATE owner SET seen = seen - 61 WHERE id = 'dead'")
    assert taker.expire() == 1
    (taken,) = taker.claim(10, 10**9, {})
    assert (int(taken.trace_id, 16), taken.status.crashes) == (1, 1)
    connection.execute("UPDATE owner SET boot = 'an earlier one' WHERE id = 'living'")
    assert taker.expire() == 1, "the machine was started anew since"


def test_what_is_released_is_no_crash(connect: Callable[[], sqlite3.Connection]) -> None:
    a, b = owned(connect(), "a"), owned(connect(), "b")
    write(a, 1)
    assert a.release() == 1
    (taken,) = b.claim(10, 10**9, {})
    assert taken.status.crashes == 0


def test_suspects_are_taken_ever_more_alone_and_then_set_aside(
    connect: Callable[[], sqlite3.Connection],
) -> None:
    """The run that ends its processes is found without blaming those that were scored beside it."""
    connection = connect()
    table = owned(connection, "a")
    for number in range(40):
        write(table, number, free=True)
    together, later = [], time.time() + 1_000
    for life in range(MAX_CRASHES):
        table = owned(connection, f"life {life}")
        taken = table.claim(100, 10**9, {})
        together.append(len(taken))
        connection.execute("UPDATE owner SET seen = seen - 61")
        owned(connection, f"after {life}").expire()
        connection.execute("UPDATE run SET due = ? WHERE crashes <= ?", (later, life))
    assert together == [40, 16, 4, 1]
    states = dict(connection.execute("SELECT state, count(*) FROM run GROUP BY state").fetchall())
    assert states["dead_letter"] == 1
    (reason,) = connection.execute("SELECT reason FROM run WHERE state = 'dead_letter'").fetchone()
    assert reason == f"{MAX_CRASHES} processes ended while they scored it"


def test_suspects_already_held_count(connect: Callable[[], sqlite3.Connection]) -> None:
    table = owned(connect(), "a")
    for number in range(30):
        write(table, number, free=True, crashes=1)
    assert len(table.claim(100, 10**9, {1: 10})) == 6


def test_runs_are_taken_up_to_a_number_of_bytes_and_one_in_any_case(
    connect: Callable[[], sqlite3.Connection],
) -> None:
    table = owned(connect(), "a")
    for number in range(6):
        write(table, number, 50_000, free=True)
    assert [len(table.claim(10, most, {})) for most in (120_000, 1, 0)] == [2, 1, 0]
    for number in range(10, 13):
        made = write(table, number, 50_000, state="done")
        table._sql.execute("UPDATE run SET trace_id = 'same' WHERE id = ?", (made.row,))
    newest = table.take_done("same", 120_000)
    assert [run.row for run in newest] == [made.row, (made.row or 0) - 1]


def test_room_is_made_from_what_is_needed_least(connect: Callable[[], sqlite3.Connection]) -> None:
    """First scored runs, then those aside, then waiting ones; never what is being scored."""
    connection = connect()
    table = owned(connection, "a")
    for number, status in enumerate(
        ({"state": "done"}, {"state": "dead_letter"}, {"free": True}, {"state": "open"}) * 5
    ):
        write(table, number, 50_000, **status)
    size = table.size
    lost = table.evict(max_bytes=size - 100_000, max_age=1e9, keep=1e9)
    assert lost == {}
    assert connection.execute("SELECT count(*) FROM run WHERE state = 'done'").fetchone() == (0,)
    lost = table.evict(max_bytes=0, max_age=1e9, keep=1e9)
    assert lost == {"size": 10}
    assert connection.execute("SELECT count(*) FROM run").fetchone() == (5,)
    assert table.size < size // 2


def test_age_is_counted_and_what_is_done_is_no_loss(connect: Callable[[], sqlite3.Connection]) -> None:
    connection = connect()
    table = owned(connection, "a")
    for number, status in enumerate(({"state": "done"}, {"state": "dead_letter"}, {"free": True}, {})):
        write(table, number, **status)
    connection.execute("UPDATE run SET since = since - 100")
    assert table.evict(max_bytes=10**9, max_age=50, keep=50) == {"age": 2}
    assert connection.execute("SELECT count(*) FROM run").fetchone() == (1,)


UNREADABLE = {
    "no payload": "payload = x'00'",
    "another type": "payload = 3.5",
    "deep": f"payload = CAST('{'[' * 5_000}' AS BLOB)",
    "deep jobs": f"jobs = '{'[' * 5_000}'",
    "odd jobs": """jobs = '{"tasks": [[1]], "left": 5, "undelivered": [null]}'""",
    "odd conversation": """jobs = '{"conversation": [{"a": "b"}, 3]}'""",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_row_that_cannot_be_read_is_set_aside_and_costs_no_other(
    what: str, connect: Callable[[], sqlite3.Connection]
) -> None:
    connection = connect()
    table = owned(connection, "a")
    for number in (1, 2, 3):
        write(table, number, free=True)
    connection.execute(f"UPDATE run SET {UNREADABLE[what]} WHERE trace_id LIKE '%2'")
    assert [int(run.trace_id, 16) for run in table.claim(10, 10**9, {})] == [1, 3]
    assert connection.execute("SELECT state FROM run WHERE trace_id LIKE '%2'").fetchone() == ("dead_letter",)
    assert table.unreadable == 1


def test_an_older_schema_is_migrated_and_a_newer_one_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, connect: Callable[[], sqlite3.Connection]
) -> None:
    """What an earlier version wrote is kept; what a later one wrote is left alone."""
    write(owned(connect(), "a"), 1, free=True)
    later = (*database.MIGRATIONS, ("ALTER TABLE run ADD COLUMN note TEXT NOT NULL DEFAULT 'new'",))
    monkeypatch.setattr(database, "MIGRATIONS", later)
    assert connect().execute("SELECT trace_id, note FROM run").fetchall() == [(f"{1:032x}", "new")]
    assert connect().execute("PRAGMA user_version").fetchone() == (len(later),)
    monkeypatch.undo()
    with pytest.raises(StoreError, match="newer version"):
        open_database(path)


def test_a_failed_migration_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, connect: Callable[[], sqlite3.Connection]
) -> None:
    connect()
    broken = (*database.MIGRATIONS, ("ALTER TABLE run ADD COLUMN note TEXT", "NO SUCH STATEMENT"))
    monkeypatch.setattr(database, "MIGRATIONS", broken)
    with pytest.raises(StoreError, match="syntax error"):
        open_database(path)
    monkeypatch.undo()
    columns = [row[1] for row in connect().execute("PRAGMA table_info(run)")]
    assert "note" not in columns


def open_and_leave(path: str, start: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    connection = open_database(path, wait=20)
    with transaction(connection):
        connection.execute("INSERT INTO owner VALUES (?, 1, '', 0)", (str(os.getpid()),))
    connection.close()


@pytest.mark.slow
def test_several_processes_may_make_the_file_at_once(path: Path) -> None:
    """The schema is made by one of them, and seen by all."""
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Event()
    processes = [spawn.Process(target=open_and_leave, args=(str(path), start)) for _ in range(4)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(SECONDS)
        assert process.exitcode == 0
    connection = open_database(path)
    assert connection.execute("SELECT count(*) FROM owner").fetchone() == (4,)
    connection.close()


def test_the_command_line_lists_retries_and_drops(
    path: Path, connect: Callable[[], sqlite3.Connection]
) -> None:
    table = owned(connect(), "a")
    write(table, 1, state="dead_letter", reason="KeyError: 'no such order'", attempts=2)
    write(table, 2, free=True)
    write(table, 3)
    write(table, 4, state="done")
    runner = CliRunner()
    listed = runner.invoke(app, ["store", "list", str(path)])
    assert listed.exit_code == 0
    assert "KeyError: 'no such order'" in listed.output
    assert "answered  (2 attempts, 0 crashes, revision 1)" in listed.output
    assert listed.output.splitlines()[-1] == "1 waiting, 1 scoring, 1 dead_letter, 1 done"
    as_json = runner.invoke(app, ["store", "list", str(path), "--json", "--state", "dead_letter"])
    assert '"reason": "KeyError: \'no such order\'"' in as_json.output

    assert runner.invoke(app, ["store", "retry", str(path), "--trace", "f" * 32]).output.startswith("0 runs")
    assert runner.invoke(app, ["store", "retry", str(path)]).output == "1 runs will be scored again\n"
    retried = next(r for r in table.claim(10, 10**9, {}) if int(r.trace_id, 16) == 1)
    assert (retried.status.revision, retried.status.attempts) == (2, 0)

    assert runner.invoke(app, ["store", "drop", str(path), "--state", "done"]).output == "1 runs deleted\n"
    assert [r.state for r in shelf.list_runs(connect())] == ["scoring"] * 3


@pytest.mark.parametrize("command", ["list", "retry", "drop"])
def test_a_file_that_is_no_store_is_an_error_and_nothing_is_made(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["store", command, str(tmp_path / "missing.db")])
    assert result.exit_code == 2
    assert "there is no such file" in result.output
    assert list(tmp_path.iterdir()) == []
