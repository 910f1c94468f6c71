"""Files of budgets and caches: private, not a link, noticed when they go, and alive in forked children."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from otel_evals._internal.judges.cache import question_key
from otel_evals._internal.judges.judge import Call
from otel_evals._internal.util.sqlite_file import SQLiteFile
from otel_evals.errors import JudgeUnavailableError, StoreError
from otel_evals.judges import Budget, CachedJudge, JudgeLimits, JudgeRequest, LiteLLMJudge, ScriptedJudge
from otel_evals.model import Usage
from tests.support.forked import exit_code

SCHEMA = "CREATE TABLE IF NOT EXISTS t (n INTEGER)"
CALL = Call(model="m", scorer_id="s", max_input_tokens=30, max_output_tokens=10, max_cost=0.01)
ASKED = JudgeRequest(instructions="i", prompt="p", step="x")


def add(file: SQLiteFile) -> int:
    with file.transaction() as db:
        db.execute("INSERT INTO t VALUES (1)")
        (count,) = db.execute("SELECT COUNT(*) FROM t").fetchone()
    return int(count)


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_files_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        file = SQLiteFile(tmp_path / "x.db", SCHEMA)
        add(file)
        assert modes(tmp_path) == {0o600}, "the log files beside it too"
    finally:
        os.umask(before)


def test_a_file_that_others_may_read_is_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    sqlite3.connect(path).close()
    path.touch()
    path.chmod(0o644)
    add(SQLiteFile(path, SCHEMA))
    assert modes(tmp_path) == {0o600}


@pytest.mark.parametrize("make", ["link", "dangling link", "directory", "fifo"])
@pytest.mark.parametrize("kind", ["file", "budget", "cache"])
def test_what_is_no_file_of_ours_is_refused(tmp_path: Path, make: str, kind: str) -> None:
    path, target = tmp_path / "x.db", tmp_path / "target"
    match make:
        case "link":
            target.touch()
            path.symlink_to(target)
        case "dangling link":
            path.symlink_to(target)
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
    opened: dict[str, Callable[[], object]] = {
        "file": lambda: SQLiteFile(path, SCHEMA),
        "budget": lambda: Budget(tokens=5, store=path),
        "cache": lambda: CachedJudge(ScriptedJudge({}), store=path),
    }
    with pytest.raises(StoreError, match=r"x\.db"):
        opened[kind]()
    assert make == "link" or not target.exists()


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    path.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(StoreError, match="another user"):
        SQLiteFile(path, SCHEMA)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_goes_is_noticed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "x.db"
    file = SQLiteFile(path, SCHEMA)
    assert add(file) == 1
    for part in tmp_path.iterdir():
        part.unlink()
    if how == "replaced":
        assert add(SQLiteFile(path, SCHEMA)) == 1
    assert add(file) == (2 if how == "replaced" else 1)
    assert path.exists()


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    file = SQLiteFile(tmp_path / "x.db", SCHEMA)

    def fail() -> None:
        with file.transaction() as db:
            db.execute("INSERT INTO t VALUES (1)")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert add(file) == 1


def test_a_write_that_fails_reserves_nothing_and_the_call_is_not_made(tmp_path: Path) -> None:
    budget = Budget(tokens=100, store=tmp_path / "b.db")
    with sqlite3.connect(tmp_path / "b.db") as db:
        db.execute(
            "CREATE TRIGGER full BEFORE INSERT ON counters BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    made: list[int] = []

    async def use() -> None:
        async with budget.around(CALL):
            made.append(1)

    with pytest.raises(JudgeUnavailableError, match="disk full"):
        anyio.run(use)
    assert not made
    db.execute("DROP TRIGGER full")
    db.close()
    anyio.run(use)
    assert made, "it goes on when the cause is gone"


def test_a_settlement_that_fails_keeps_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    budget = Budget(tokens=100, store=path)

    def spoil() -> None:
        for part in tmp_path.iterdir():
            part.unlink()
        path.mkdir()

    async def use() -> str:
        async with budget.around(CALL) as settle:
            spoil()
            settle(Usage(input_tokens=1), None)
            return "so"
        return ""

    assert anyio.run(use) == "so"


def test_another_process_keeps_the_log_when_one_of_two_users_of_a_file_closes_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    first, second = SQLiteFile(path, SCHEMA), SQLiteFile(path, SCHEMA)
    add(first)
    first.close()
    add_elsewhere = f"import sqlite3; db = sqlite3.connect({os.fspath(path)!r}, isolation_level=None);"
    add_elsewhere += "db.execute('INSERT INTO t VALUES (1)'); db.close()"
    subprocess.run([sys.executable, "-c", add_elsewhere], check=True)
    assert add(second) == 3
    assert add(SQLiteFile(path, SCHEMA)) == 4, "the other process has not deleted the log"


# --- caches ---


def locked(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    db.execute("BEGIN IMMEDIATE")
    return db


@pytest.mark.parametrize("trouble", ["locked", "broken", "a directory in its place"])
def test_a_cache_in_trouble_costs_no_answer(tmp_path: Path, trouble: str) -> None:
    path = tmp_path / "c.db"
    asked = ScriptedJudge({"x": "so"})
    cached = CachedJudge(asked, store=path)
    match trouble:
        case "locked":
            held = locked(path)
        case "broken":
            path.write_bytes(b"no database at all" * 500)
        case _:
            for part in tmp_path.iterdir():
                part.unlink()
            path.mkdir()
    assert anyio.run(cached.ask, ASKED).value == "so"
    assert anyio.run(cached.ask, ASKED).value == "so"
    if trouble == "locked":
        held.close()
        anyio.run(cached.ask, ASKED)
        asked_before = len(asked.requests)
        anyio.run(cached.ask, ASKED)
        assert len(asked.requests) == asked_before, "it is used again"


def test_an_entry_that_does_not_fit_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    asked = ScriptedJudge({"x": "so"})
    cached = CachedJudge(asked, store=path)
    anyio.run(cached.ask, ASKED)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE judge_cache SET value = '{odd'")
    db.close()
    assert anyio.run(cached.ask, ASKED).value == "so"
    assert len(asked.requests) == 2


def test_questions_differ_by_server_temperature_and_options() -> None:
    judges = [
        LiteLLMJudge("openai/m"),
        LiteLLMJudge("openai/n"),
        LiteLLMJudge("openai/m", api_base="http://a/v1"),
        LiteLLMJudge("openai/m", api_base="http://b/v1"),
        LiteLLMJudge("openai/m", temperature=0.7),
        LiteLLMJudge("openai/m", max_tokens=5),
        LiteLLMJudge("openai/m", options={"reasoning_effort": "low"}),
        LiteLLMJudge("openai/m", options={"reasoning_effort": "high"}),
    ]
    keys = {question_key(CachedJudge(judge).identity, ASKED) for judge in judges}
    assert len(keys) == len(judges)
    same = CachedJudge(LiteLLMJudge("openai/m", api_key="another", limiters=(JudgeLimits(),))).identity
    assert question_key(same, ASKED) in keys, "who pays makes no difference"


# --- forks ---


def in_child(work: object) -> int:
    """The exit code of a forked child that does some work; 99 when it hangs."""
    child = os.fork()
    if child == 0:
        try:
            work()  # type: ignore[operator]  # a function
            os._exit(0)
        except BaseException:
            os._exit(1)
    return exit_code(child)


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
threads_at_fork = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@forks
def test_rows_of_a_child_survive_when_the_parent_closes_the_file(tmp_path: Path) -> None:
    file = SQLiteFile(tmp_path / "x.db", SCHEMA)
    add(file)
    (ready, now_ready), (closed, now_closed) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        add(file)
        os.write(now_ready, b".")
        os.read(closed, 1)
        add(file)
        os._exit(0)
    os.read(ready, 1)
    file.close()
    os.write(now_closed, b".")
    os.waitpid(child, 0)
    assert add(file) == 4


@forks
@threads_at_fork
@pytest.mark.parametrize("stored", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_children_forked_at_any_moment_go_on(tmp_path: Path, stored: bool) -> None:
    """Budget, cache and limits are in use in other threads while the process forks."""
    limits = JudgeLimits(requests="100000/s")
    budget = Budget(tokens=10**9, store=tmp_path / "b.db" if stored else None)
    cached = CachedJudge(
        ScriptedJudge({"x": lambda r: r.prompt}), store=tmp_path / "c.db" if stored else None
    )

    async def use(name: str, times: int) -> None:
        for n in range(times):
            async with limits.around(CALL), budget.around(CALL) as settle:
                settle(Usage(input_tokens=1), None)
            await cached.ask(JudgeRequest(instructions="", prompt=f"{name} {n % 3}", step="x"))

    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            anyio.run(use, "parent", 5)
            Budget(tokens=1, store=tmp_path / "dropped.db")  # closed as garbage

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        codes = [in_child(lambda: anyio.run(use, "child", 3)) for _ in range(25)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 25
    anyio.run(use, "parent", 3)
    if stored:
        with sqlite3.connect(tmp_path / "b.db") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
