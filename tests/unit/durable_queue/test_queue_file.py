"""The store's file: opened when it can be, done without when not, and kept within its bounds."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otel_evals import Config
from otel_evals._internal.durable_queue.payload import encode
from otel_evals._internal.durable_queue.queue_file import QueueFile
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun
from otel_evals._internal.durable_queue.table import RunTable
from otel_evals._internal.util.sqlite_file import transaction
from otel_evals.model import SpanRecord

MIB = 1024 * 1024


class Opened:
    """A file in a folder of its own, with its table."""

    def __init__(self, path: Path, **limits: Any) -> None:
        self.path = path
        self.counts: Counter[str] = Counter()
        config = Config(store=path, **{f"store_{name}": value for name, value in limits.items()})
        self.file = QueueFile(config, self.counts)

    @property
    def table(self) -> RunTable:
        table = self.file.opened()
        assert table is not None
        return table

    def write(self, number: int, size: int = 1_000, **status: Any) -> bool:
        """Write a run, if there is room for it."""
        span = SpanRecord(trace_id=f"{number:032x}", span_id=f"{number:016x}", name="x" * size)
        table = self.table
        assert self.file.connection is not None
        with transaction(self.file.connection):
            self.file.upkeep(table)
            payload = encode((span,), {})
            fits = self.file.has_room(table, len(payload))
            if fits:
                table.insert(StoredRun(span.trace_id, (span,), {}), RunStatus(**status), payload)
        return fits

    def upkeep(self) -> None:
        assert self.file.connection is not None
        with transaction(self.file.connection):
            self.file.upkeep(self.table)


def test_it_is_opened_once_and_again_after_a_pause(tmp_path: Path) -> None:
    store = Opened(tmp_path / "runs.db")
    first = store.table
    assert store.table is first
    store.file.close(0.0)
    assert store.file.connection is None
    assert store.table is not first
    store.file.close()
    assert store.file.opened() is None, "not again at once"


def test_trouble_is_told_once_and_its_end_as_well(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "runs.db").symlink_to(tmp_path / "elsewhere")
    store = Opened(tmp_path / "runs.db")  # a symbolic link
    assert store.file.opened() is None
    assert store.file.opened() is None
    store.file.trouble("still")
    assert caplog.text.count("cannot be used") == 1
    store.file.fine()
    store.file.fine()
    assert caplog.text.count("is in use again") == 1


def test_a_corrupt_file_is_closed_and_one_that_is_busy_is_not(tmp_path: Path) -> None:
    store = Opened(tmp_path / "runs.db")
    table = store.table
    store.file.failed(sqlite3.OperationalError("database is locked"))
    assert store.table is table
    store.file.failed(sqlite3.DatabaseError("file is not a database"))
    assert store.file.connection is None


def test_a_heartbeat_is_due_at_first_and_then_a_third_of_the_lease_later(tmp_path: Path) -> None:
    store = Opened(tmp_path / "runs.db", lease=600.0)
    assert store.file.upkeep_due()
    store.table  # noqa: B018  # opens it
    store.upkeep()
    assert not store.file.upkeep_due()
    connection = sqlite3.connect(store.path)
    (count,) = connection.execute("SELECT count(*) FROM owner").fetchone()
    (seen,) = connection.execute("SELECT seen FROM owner").fetchone()
    connection.close()
    assert count == 1
    assert 0 <= time.monotonic() - seen < 60
    store.file.close()


def test_the_oldest_free_runs_make_room_and_are_counted(tmp_path: Path) -> None:
    store = Opened(tmp_path / "runs.db", max_bytes=2 * MIB)
    for number in range(30):
        assert store.write(number, 100_000, free=True)
    assert store.counts["evicted_size"] > 0
    assert store.table.size <= 2 * MIB
    assert store.file.connection is not None
    kept = [int(t, 16) for (t,) in store.file.connection.execute("SELECT trace_id FROM run ORDER BY id")]
    assert kept == list(range(30 - len(kept), 30)), "the newest stay"
    assert len(kept) + store.counts["evicted_size"] == 30
    store.file.close()


def test_what_this_process_holds_makes_no_room(tmp_path: Path) -> None:
    store = Opened(tmp_path / "runs.db", max_bytes=2 * MIB)
    written = sum(store.write(number, 100_000) for number in range(30))
    assert 10 <= written < 30
    assert store.counts == {}
    assert not store.file.has_room(store.table, 2 * MIB), "one run may take half of it at most"
    store.file.close()
