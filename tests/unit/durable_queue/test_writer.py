"""The writer: what it is handed stands in the file, whoever waits is told, and a broken file stops nobody."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from otel_evals import Config
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, Task
from otel_evals._internal.durable_queue.writer import Writer
from otel_evals.model import SpanRecord
from tests.support.replacing import replace
from tests.support.waits import SECONDS


def a_stored(number: int, size: int = 10, **status: Any) -> StoredRun:
    span = SpanRecord(trace_id=f"{number:032x}", span_id=f"{number:016x}", name="x" * size)
    tasks = (Task("a", span.span_id, 1.0, "always()"),)
    return StoredRun(span.trace_id, (span,), {}, RunStatus(tasks=tasks, **status))


class Desk:
    """A writer, and what it posts: run when the test asks for it, as if on the engine's thread."""

    def __init__(self, path: Path, room: int = 0, **limits: Any) -> None:
        self.path = path
        self.room = room
        self.resolved: list[StoredRun] = []
        self.claimed: list[StoredRun] = []
        self._posted: deque[Callable[[], object]] = deque()
        self._came = threading.Condition()
        self.writer = Writer(
            Config(store=path, **{f"store_{name}": value for name, value in limits.items()}),
            self._post,
            lambda: (self.room, 10**9),
            self.claimed.extend,
            self.resolved.append,
        )

    def _post(self, function: Callable[[], object]) -> None:
        with self._came:
            self._posted.append(function)
            self._came.notify_all()

    def until(self, condition: Callable[[], object]) -> None:
        """Run what is posted until something is so."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            with self._came:
                assert self._came.wait_for(lambda: self._posted, deadline - time.monotonic())
                functions, self._posted = list(self._posted), deque()
            for function in functions:
                function()

    def save(self, *runs: StoredRun) -> None:
        for run in runs:
            self.writer.save(run)

    def flush(self) -> None:
        done = threading.Event()
        self.writer.flush(done.set)
        assert done.wait(SECONDS)

    def close(self) -> None:
        done = threading.Event()
        self.writer.close(done.set)
        assert done.wait(SECONDS)

    def rows(self, columns: str = "trace_id, state, owner IS NULL") -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(f"SELECT {columns} FROM run ORDER BY id").fetchall()
        finally:
            connection.close()


@contextmanager
def desk(path: Path, **options: Any) -> Iterator[Desk]:
    made = Desk(path, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_a_new_run_is_written_and_whoever_had_it_kept_is_told(path: Path) -> None:
    with desk(path) as d:
        runs = [a_stored(number) for number in (1, 2)]
        d.save(*runs)
        d.until(lambda: len(d.resolved) == 2)
        assert [run.kept for run in runs] == [True, True]
        assert d.rows() == [(f"{1:032x}", "open", 0), (f"{2:032x}", "open", 0)]
        assert d.writer.stats().written == 2


def test_a_status_that_changes_is_written_once_it_is_flushed(path: Path) -> None:
    with desk(path) as d:
        run, gone = a_stored(1), a_stored(2)
        d.save(run, gone)
        d.flush()
        for revision in (2, 3, 4):
            run.status = replace(run.status, revision=revision)
            d.save(run)
        gone.status = replace(gone.status, state="gone")
        d.save(gone)
        d.flush()
        assert d.rows("trace_id, revision") == [(f"{1:032x}", 4)]
        run.status = replace(run.status, state="done", left=None)
        d.save(run)
        d.flush()
        assert d.rows("state, owner IS NULL") == [("done", 1)]


def test_a_status_that_was_written_before_its_change_was_told_is_no_lost_lease(path: Path) -> None:
    with desk(path) as d:
        run = a_stored(1)
        d.save(run)
        d.flush()
        run.status = replace(run.status, state="done", left=None)
        for _ in range(2):  # the writer reads the status of a run when it writes it, whoever told it of it
            d.save(run)
            d.flush()
        assert d.rows("state, owner IS NULL") == [("done", 1)]
        assert d.writer.stats().lease_lost == 0


def test_a_run_that_cannot_be_written_is_counted_once_however_often_it_is_saved(path: Path) -> None:
    path.write_bytes(b"no database" * 100)
    with desk(path) as d:
        run = a_stored(1)
        for revision in (1, 2, 3):
            run.status = replace(run.status, revision=revision)
            d.save(run)
            d.flush()
        assert sum(d.writer.stats().not_written.values()) == 1


def test_a_run_that_is_gone_before_it_was_written_never_is(path: Path) -> None:
    with desk(path) as d:
        run = a_stored(1)
        run.status = replace(run.status, state="gone")
        d.save(run)
        d.until(lambda: d.resolved)
        assert (run.kept, d.rows()) == (False, [])


def test_spans_that_were_added_are_written_too(path: Path) -> None:
    with desk(path) as d:
        run = a_stored(1)
        d.save(run)
        d.flush()
        (before,) = d.rows("length(payload)")
        run.spans = (*run.spans, *a_stored(2).spans)
        run.grown = True
        d.save(run)
        d.flush()
        (after,) = d.rows("length(payload)")
        assert after > before


def test_free_runs_are_claimed_as_far_as_there_is_room(path: Path) -> None:
    with desk(path) as first:
        first.save(*(a_stored(number, free=True) for number in (1, 2, 3)))
        first.flush()
    with desk(path, room=2) as second:
        second.writer.start()
        second.until(lambda: len(second.claimed) == 2)
        assert [run.kept for run in second.claimed] == [True, True]
        assert sum(free for _, _, free in second.rows()) == 1
        second.room = 5
        second.until(lambda: len(second.claimed) == 3)


def test_what_a_process_leaves_is_free_for_the_next(path: Path) -> None:
    with desk(path) as d:
        d.save(a_stored(1))
        d.flush()
        assert d.rows() == [(f"{1:032x}", "open", 0)]
    assert Desk(path).rows() == [(f"{1:032x}", "open", 1)]


def test_kept_runs_of_a_trace_are_given_to_whoever_asks(path: Path) -> None:
    with desk(path) as d:
        d.save(a_stored(1, state="done"), a_stored(2, state="done"))
        found: list[Sequence[StoredRun]] = []
        d.flush()
        d.writer.ask(f"{1:032x}", found.append)
        d.until(lambda: found)
        assert [run.trace_id for run in found[0]] == [f"{1:032x}"]
        d.writer.ask("f" * 32, found.append)
        d.until(lambda: len(found) == 2)
        assert found[1] == []


def test_a_file_that_cannot_be_used_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "runs.db"
    path.symlink_to(tmp_path / "elsewhere")
    with desk(path) as d:  # a symbolic link
        run, found = a_stored(1), []
        d.save(run)
        d.writer.ask(run.trace_id, found.append)
        d.until(lambda: d.resolved and found)
        assert (run.kept, found) == (False, [()])
        assert sum(d.writer.stats().not_written.values()) == 1
        d.flush()
    assert caplog.text.count("cannot be used") == 1


@pytest.mark.parametrize("harm", ["deleted", "replaced"])
def test_runs_of_a_file_that_is_lost_are_written_to_the_next_one(
    path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    with desk(path.with_name("other.db")) as other:
        other.save(a_stored(3))
        other.flush()
    with desk(path) as d:
        mine, new = a_stored(1), a_stored(2)
        d.save(mine)
        d.flush()
        for part in path.parent.glob(f"{path.name}*"):
            part.unlink()
        if harm == "replaced":
            other.path.replace(path)
        # A row id of the lost file may be another run's id in the new one.
        mine.status = replace(mine.status, revision=7)
        d.save(mine, new)
        d.flush()
        d.until(lambda: len(d.resolved) == 2)
        expected = [(f"{3:032x}", 1)] if harm == "replaced" else []
        assert d.rows("trace_id, revision") == [*expected, (f"{1:032x}", 7), (f"{2:032x}", 1)]
        stats = d.writer.stats()
        assert (stats.written, stats.lease_lost, stats.not_written) == (3, 0, {})
        assert "deleted or replaced while it was in use" in caplog.text


def test_a_run_that_does_not_fit_or_cannot_be_written_is_counted(path: Path) -> None:
    with desk(path, max_bytes=1024 * 1024) as d:
        big, odd, small = a_stored(1, 900_000), a_stored(2), a_stored(3)
        circle: list[Any] = []
        circle.append(circle)
        odd.spans = (replace(odd.spans[0], attributes={"circle": circle}),)
        d.save(big, odd, small)
        d.until(lambda: len(d.resolved) == 3)
        assert (big.kept, odd.kept, small.kept) == (False, False, True)
        assert d.writer.stats().not_written == {"full": 1, "unserializable": 1}
        assert [trace for trace, *_ in d.rows()] == [small.trace_id]


def test_a_run_of_more_bytes_than_may_wait_is_counted_and_costs_no_other(path: Path) -> None:
    with desk(path) as d:
        most = Config().max_bytes
        big, small = a_stored(1), a_stored(2)
        d.save(big)
        big.size, small.size = most, 10
        d.save(big, small)  # the first one has grown before it was written
        d.until(lambda: len(d.resolved) == 2)
        assert (big.kept, small.kept) == (True, False)
        large = a_stored(3, most // 4)
        d.save(large)
        d.until(lambda: len(d.resolved) == 3)
        assert large.kept is False
        assert d.writer.stats().not_written == {"backlog": 1, "too_large": 1}


def test_a_row_that_cannot_be_read_is_counted_and_the_others_are_claimed(path: Path) -> None:
    with desk(path) as d:
        d.save(*(a_stored(number, free=True) for number in (1, 2, 3)))
        d.until(lambda: len(d.resolved) == 3)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE run SET payload = x'00' WHERE trace_id LIKE '%2'")
    with desk(path) as d:
        d.room = 10
        d.writer.start()
        d.until(lambda: len(d.claimed) == 2)
        assert d.writer.stats().evicted == {"set_aside": 1}


def test_a_run_that_has_grown_beyond_what_can_be_written_keeps_its_row(path: Path) -> None:
    with desk(path) as d:
        run, other = a_stored(1), a_stored(2)
        d.save(run, other)
        d.until(lambda: len(d.resolved) == 2)
        circle: list[Any] = []
        circle.append(circle)
        run.spans, run.grown = (replace(run.spans[0], attributes={"circle": circle}),), True
        for each in (run, other):
            each.status = replace(each.status, free=True)
        d.save(run, other)
        d.flush()
        assert [free for *_, free in d.rows()] == [1, 1]
        assert d.writer.stats().not_written == {"unserializable": 1}


def test_after_its_end_nothing_is_written_and_nobody_waits(path: Path) -> None:
    d = Desk(path)
    d.close()
    run = a_stored(1)
    d.save(run)
    d.until(lambda: d.resolved)
    assert run.kept is False
    d.flush()
    d.close()


def test_the_file_is_closed_while_the_process_forks(path: Path) -> None:
    with desk(path) as d:
        d.save(a_stored(1))
        d.flush()
        d.writer.before_fork()
        assert not Path(f"{path}-wal").exists(), "closing the last connection removes the log"
        d.writer.after_fork_in_parent()
        d.save(a_stored(2))
        d.flush()
        assert len(d.rows()) == 2
