"""The results store: every evaluation once, rollups that agree with the rows, clear errors."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals import Score
from otel_evals.errors import ConfigError, DestinationError, StoreError
from otel_evals.statistics import Sums, total
from otel_evals_monitor import ResultsDestination
from otel_evals_monitor._internal.report.inputs import ReportOptions
from otel_evals_monitor._internal.report.report import make_report
from otel_evals_monitor._internal.report.runs import find_runs
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.labels import add_feedback
from otel_evals_monitor._internal.store.queries import Measured, measure, series, stored_slices
from otel_evals_monitor._internal.store.retention import forget, keep_within
from otel_evals_monitor._internal.store.rows import rows_of
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.forked import exit_code
from tests.support.result_records import START, record, records
from tests.support.scored import scored_run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    opened = ResultsStore(tmp_path / "results.db")
    yield opened
    opened.close()


def measured(store: ResultsStore, window: Window | None = None) -> Measured:
    with store.database.reading() as connection:
        return measure(connection, stored_slices(connection), window or Window(), ()).get((), Measured())


def count(store: ResultsStore, table: str) -> int:
    with store.database.reading() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def test_rollups_have_the_sums_of_the_runs(store: ResultsStore) -> None:
    given = [record(i, i % 3 / 2, probability=(0.1, 0.5, 1.0)[i % 3]) for i in range(60)]
    assert store.write(given).evaluations == 60
    wanted = total(Sums.of(i % 3 / 2, 1 / (0.1, 0.5, 1.0)[i % 3]) for i in range(60))
    found = measured(store)
    assert found.scored.n == 60
    assert found.scored.wx == pytest.approx(wanted.wx)
    assert found.scored.wwxx == pytest.approx(wanted.wwxx)
    assert (found.scored.x_min, found.scored.x_max, found.scored.w_max) == (0.0, 1.0, 10.0)
    assert found.cost == pytest.approx(0.06)

    assert found.clusters is not None
    assert sum(found.clusters.w) == pytest.approx(wanted.w)


def test_made_up_agents_do_not_fill_the_memory_of_the_writer(
    store: ResultsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_evals_monitor._internal.store.writer._MOST_KNOWN", 5)
    for number in range(30):
        store.write([record(number, 1.0, agent_name=f"agent {number}")])
    store.write([record(30, 1.0, agent_name="agent 0")])
    assert len(store._known_slices) <= 6
    assert measured(store).scored.n == 31


def test_what_is_written_again_changes_nothing_and_a_revision_takes_the_old_score_back(
    store: ResultsStore,
) -> None:
    given = [record(i, 1.0) for i in range(10)]
    store.write(given)
    assert store.write(given).repeated == 10
    assert measured(store).scored.n == 10
    store.write([record(3, 0.0, revision=2)])
    store.write([record(3, 1.0, revision=1)])
    assert (measured(store).scored.n, measured(store).scored.wx) == (10, 9.0)
    store.write([record(3, None, revision=3, status="failed", reason="timeout")])
    assert measured(store).counts == {"scored": 9, "failed": 1}
    assert measured(store).lost.n == 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 4)), max_size=30)
)
def test_any_order_of_revisions_gives_the_sums_of_the_newest(
    tmp_path: Path, given: list[tuple[int, float, int]]
) -> None:
    path = tmp_path / "some.db"
    path.unlink(missing_ok=True)
    store = ResultsStore(path)
    try:
        newest: dict[int, tuple[int, float]] = {}
        for number, value, revision in given:
            store.write([record(number, value, revision=revision, probability=0.5)])
            if revision > newest.get(number, (0, 0.0))[0]:
                newest[number] = revision, value
        found = measured(store).scored
        assert found.n == len(newest)
        assert found.wx == pytest.approx(2.0 * sum(value for _, value in newest.values()))
        with store.database.reading() as connection:
            rows = connection.exec_driver_sql(
                "SELECT coalesce(sum(x * weight), 0) FROM evaluations"
            ).scalar_one()
        assert found.wx == pytest.approx(rows)
    finally:
        store.close()


def test_a_window_has_the_runs_of_its_time_only(store: ResultsStore) -> None:
    store.write(record(i, 1.0, time=START + 600 * i) for i in range(12))
    assert measured(store, Window(START, START + 1200)).scored.n == 2
    hour = (START // 3600 + 1) * 3600
    assert measured(store, Window(hour)).scored.n == sum(START + 600 * i >= hour for i in range(12))
    with store.database.reading() as connection:
        steps = series(connection, stored_slices(connection), Window(), 600)[()]
    assert {start: each.scored.n for start, each in steps.items()} == {START + 600 * i: 1 for i in range(12)}


def test_unknown_probability_is_counted_and_in_no_sum(store: ResultsStore) -> None:
    store.write([record(1, 1.0), record(2, 0.0, probability=None)])
    found = measured(store).scored
    assert (found.n, found.unknown, found.mean) == (1, 1, 1.0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"evaluations": None}, "evaluations"),
        ({"trace_id": None}, "trace_id"),
        ([], "record"),
        (("value", float("nan")), "value"),
        (("value", 7.0), "value"),
        (("value", "high"), "value"),
        (("status", "maybe"), "status"),
        (("sampling", {"probability": 0.0}), "probability"),
        (("sampling", {"probability": 1.5}), "probability"),
        (("scale", -1.0), "scale"),
        (("evaluation_id", ""), "evaluation_id"),
        (("scorer", None), "scorer"),
    ],
)
def test_a_record_that_cannot_be_used_is_counted_by_what_is_wrong(
    store: ResultsStore, wrong: Any, named: str
) -> None:
    bad: Any = record(1, 1.0)
    if isinstance(wrong, tuple):
        bad["evaluations"][0][wrong[0]] = wrong[1]
    else:
        bad = bad | wrong if isinstance(wrong, dict) else wrong
    written = store.write([bad, record(2, 1.0)])
    assert written.evaluations == 1
    (problem,) = written.unreadable
    assert named in problem


def test_odd_values_of_others_do_no_harm(store: ResultsStore) -> None:
    odd = record(1, 1.0) | {
        "agent": {"name": "\x00nul"},
        "user_id": 7,
        "duration": "long",
        "usage": "none",
        "start_time": 1e300,
        "theirs": {"a": [1]},
        "input": "\ud800<script>" + "x" * 10_000_000,
        "tool_calls": "none",
        "tenant": ["a"],
    }
    odd["evaluations"][0] |= {
        "label": 3,
        "steps": [7, {"model": 9}],
        "usage": None,
        "time": -5,
        "cost": float("inf"),
    }
    assert store.write([odd]).evaluations == 1
    with store.database.reading() as connection:
        content = connection.exec_driver_sql("SELECT content FROM runs").scalar_one()
    assert len(content) < 1_000_000
    assert json.loads(content)["cut"] is True


def test_a_score_without_a_scale_is_kept_as_it_is(store: ResultsStore) -> None:
    store.write(record(i, 1.0) | {"evaluations": [_unscaled(i)]} for i in range(3))
    found = measured(store)
    assert found.scale is None
    assert (found.scored.x_min, found.scored.x_max) == (1000.0, 1002.0)


def _unscaled(number: int) -> dict[str, Any]:
    evaluation: dict[str, Any] = record(number, 1.0)["evaluations"][0]
    return evaluation | {"scale": None, "value": 1000.0 + number}


def test_without_content_nothing_that_was_said_is_in_the_file(tmp_path: Path) -> None:
    store = ResultsStore(tmp_path / "results.db", content=False)
    store.write([record(1, 0.0)])
    store.close()
    said = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Where is my order" not in said
    assert b"explained" not in said
    assert b"Is it so?" not in said


def test_the_file_is_readable_by_its_owner_only(store: ResultsStore, tmp_path: Path) -> None:
    assert stat.S_IMODE(os.stat(tmp_path / "results.db").st_mode) == 0o600


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (99, r"a newer version \(schema 99\); upgrade otel-evals"),
        (1, r"an earlier version \(schema 1\); load its records into a new file"),
    ],
)
def test_a_store_of_another_schema_is_refused(
    store: ResultsStore, tmp_path: Path, schema: int, problem: str
) -> None:
    store.close()
    with sqlite3.connect(tmp_path / "results.db") as connection:
        connection.execute(f"UPDATE settings SET value = '{schema}' WHERE name = 'schema'")
    with pytest.raises(StoreError, match=problem):
        Database(tmp_path / "results.db")


def test_files_that_are_no_store_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file"):
        Database(tmp_path / "none.db", create=False)
    with pytest.raises(StoreError, match="is a folder"):
        Database(tmp_path)
    (tmp_path / "text").write_text("no database" * 100)
    with pytest.raises(StoreError, match="not a database"):
        Database(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError, match="not a results store"):
        Database(tmp_path / "other.db")
    with pytest.raises(StoreError, match="only SQLite files and postgresql"):
        Database("mysql://root:secret@localhost/x")


def test_several_threads_and_connections_write_the_same_runs_once(tmp_path: Path) -> None:
    given = [record(i, 1.0, probability=0.5) for i in range(200)]
    stores = [ResultsStore(tmp_path / "results.db") for _ in range(3)]
    threads = [threading.Thread(target=each.write, args=(given,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = measured(stores[0])
    assert (found.scored.n, found.scored.w) == (200, 400.0)
    for each in stores:
        each.close()


def test_a_user_or_trace_is_forgotten_in_rows_means_and_on_the_disk(
    store: ResultsStore, tmp_path: Path
) -> None:
    given = [record(i, float(i % 7 != 3)) | {"output": f"secret-of-user-{i % 7}"} for i in range(70)]
    store.write(given)
    assert forget(store.database, user_ids=["user-3"]) == (10, 10)
    assert forget(store.database, trace_ids=[given[0]["trace_id"]]) == (1, 1)
    found = measured(store)
    assert (found.scored.n, found.scored.mean) == (59, 1.0)
    assert found.clusters is not None
    assert sum(found.clusters.w) == pytest.approx(59.0)
    said = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret-of-user-3" not in said
    assert b"secret-of-user-4" in said


def test_a_repeated_record_does_not_replace_the_content_of_a_newer_one(store: ResultsStore) -> None:
    late = record(1, 1.0, revision=2) | {"output": "with a late span"}
    for early in (record(1, 0.5) | {"output": None}, record(1, 0.5) | {"output": "early"}):
        store.write([late, early])
        store.write([early])
    with store.database.reading() as connection:
        (run,) = find_runs(connection, late["trace_id"])
    assert run.content["output"] == "with a late span"


def test_queries_of_one_reading_see_the_same_moment(store: ResultsStore, tmp_path: Path) -> None:
    store.write(records(20))
    other = ResultsStore(tmp_path / "results.db")
    with store.database.reading() as connection:
        slices = stored_slices(connection)
        before = measure(connection, slices, Window(), ())[()]
        other.write(records(20, seed=2))
        assert measure(connection, slices, Window(), ())[()] == before
    assert measured(store).scored.n == 40
    other.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.01, 1.0)), min_size=1, max_size=12),
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(2.0**-56, 0.01)), min_size=1, max_size=3),
)
def test_forgotten_weights_of_any_size_leave_sums_that_their_runs_allow(
    tmp_path: Path, kept: list[tuple[float, float]], forgotten: list[tuple[float, float]]
) -> None:
    path = tmp_path / "some.db"
    path.unlink(missing_ok=True)
    store = ResultsStore(path)
    try:
        gone = [record(100 + i, x, probability=p) for i, (x, p) in enumerate(forgotten)]
        store.write([*(record(i, x, probability=p) for i, (x, p) in enumerate(kept)), *gone])
        forget(store.database, trace_ids=[each["trace_id"] for each in gone])
        (row,) = make_report(store.database, ReportOptions()).slices
        known = row.estimate
        assert known.n == len(kept)
        assert 1.0 - 1e-9 <= known.n_effective <= len(kept) + 1e-9
        assert known.mean is not None
        assert known.interval is not None
        assert 0.0 <= known.interval.low <= known.mean <= known.interval.high <= 1.0
        if min(p for _, p in forgotten) > 1e-3:
            wanted = total(Sums.of(x, 1.0 / p) for x, p in kept)
            assert known.mean == pytest.approx(wanted.mean, abs=1e-6)
    finally:
        store.close()


def test_feedback_leaves_with_the_last_run_of_its_trace(store: ResultsStore) -> None:
    old, new = record(1, 1.0, time=1_000_000_000.0), record(2, 1.0)
    store.write([old, new, record(1, 1.0, scorer="other", span_id="ab" * 8)])
    for each in (old, new):
        add_feedback(store.database, each["trace_id"], 0.0, comment="wrong")
    age = time.time() - START + 3600.0
    assert keep_within(store.database, age) == 1
    assert count(store, "feedback") == 2
    assert keep_within(store.database, 1.0) in (0, 2)
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE runs SET time = 0")
    keep_within(store.database, age)
    assert (count(store, "feedback"), count(store, "runs")) == (0, 0)


def test_nothing_is_imported_on_a_thread_while_the_application_may_fork(tmp_path: Path) -> None:
    """A child that is forked during an import on another thread would wait for it for ever."""
    code = """if True:
        import asyncio, sys
        from otel_evals_monitor import ResultsDestination
        from tests.support.scored import scored_run
        async def first_batch(path):
            destination = ResultsDestination(path)
            before = set(sys.modules)
            await destination.export([scored_run()])
            print([each for each in set(sys.modules) - before if each.startswith(("otel", "sqlalchemy"))])
        asyncio.run(first_batch(sys.argv[1]))"""
    run = [sys.executable, "-c", code, str(tmp_path / "results.db")]
    assert subprocess.check_output(run, text=True) == "[]\n"


@pytest.mark.parametrize("text", [r"a\u0000", "a\x00", "\\\x00\\", r"\\u0000", json.dumps("\x00\x00")])
def test_nul_characters_in_any_form_leave_json_readable(store: ResultsStore, text: str) -> None:
    store.write([{**record(1, 1.0), "input": text, "attributes": {"k": text}}])
    with store.database.reading() as connection:
        query = "SELECT content, attributes FROM runs"
        content, attributes = connection.exec_driver_sql(query).one()
    kept = text.replace("\x00", "")
    assert (json.loads(content)["input"], json.loads(attributes)["k"]) == (kept, kept)


def test_only_the_runs_that_cannot_be_stored_are_refused(tmp_path: Path) -> None:
    async def deliver() -> list[str]:
        destination = ResultsDestination(tmp_path / "results.db")
        fine, huge = scored_run(1), scored_run(2, {"unscaled": Score(value=1e60)})
        refused = await destination.export([fine, huge])
        await destination.shutdown()
        assert {each.error.retryable for each in refused} == {False}
        assert "value: must be a finite number" in str(refused[0].error)
        return [each.evaluation.scorer_id for each in refused]

    assert anyio.run(deliver) == ["unscaled"]
    store = ResultsStore(tmp_path / "results.db")
    assert (count(store, "runs"), count(store, "evaluations")) == (1, len(scored_run(1).evaluations))
    store.close()


def test_old_runs_leave_and_their_rollups_stay(store: ResultsStore) -> None:
    store.write(records(50))
    age = time.time() - START + 3600.0
    assert keep_within(store.database, age) == 0
    store.write([record(99, 1.0, time=1_000_000_000.0)])
    assert keep_within(store.database, age) == 1
    assert (count(store, "runs"), measured(store).scored.n) == (50, 51)


def test_a_destination_that_cannot_write_says_so_and_may_be_tried_again(tmp_path: Path) -> None:
    (tmp_path / "results.db").write_text("no database" * 100)

    async def deliver() -> None:
        await ResultsDestination(tmp_path / "results.db").export([scored_run()])

    with pytest.raises(DestinationError) as refused:
        anyio.run(deliver)
    assert refused.value.retryable


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"path": "a", "url": "b"}, {"path": "a", "max_age": 0}),
        *({"path": "."}, {"path": f"{__file__}/folder/results.db"}, {"url": "mysql://host/evals"}),
    ],
)
def test_wrong_options_of_the_destination_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^(path|url|max_age): "):
        ResultsDestination(**options)


@pytest.mark.parametrize("slashes", ["//", "/"])
def test_an_address_is_no_path_and_its_password_is_not_shown(
    slashes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = f"PostgreSQL:{slashes}me:secret@localhost:1/evals"
    for wrong in (address, Path(address)):
        with pytest.raises(ConfigError, match=r"path: is an address") as refused:
            ResultsDestination(wrong)
        assert "secret" not in str(refused.value)
        with pytest.raises(StoreError) as unusable:
            Database(wrong)
        assert "secret" not in str(unusable.value)
    with pytest.raises(ConfigError, match="url: must begin with"):
        ResultsDestination(url="results.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("harm", ["deleted", "replaced", "overwritten", "emptied"])
def test_a_file_that_is_lost_while_in_use_is_not_reported_as_written(tmp_path: Path, harm: str) -> None:
    path, other = tmp_path / "results.db", tmp_path / "other.db"
    ResultsStore(other).close()

    async def deliver() -> None:
        destination = ResultsDestination(path)
        await destination.export([scored_run(1)])
        if harm == "deleted":
            path.unlink()
        elif harm == "replaced":
            other.replace(path)
        else:
            path.write_bytes(b"x" * 5_000 if harm == "overwritten" else b"")
        with pytest.raises(DestinationError) as lost:
            await destination.export([scored_run(2)])
        assert lost.value.retryable
        if harm in ("deleted", "replaced"):
            await destination.export([scored_run(2)])
        await destination.shutdown()

    anyio.run(deliver)


def test_writes_are_kept_while_other_processes_open_and_close_the_file(tmp_path: Path) -> None:
    """The last process that closes a database deletes its log, so each must keep its locks."""
    path = tmp_path / "results.db"
    store = ResultsStore(path)
    store.write([record(1, 0.5)])
    query = "SELECT count(*) FROM runs"
    program = f"import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('{query}').fetchone())"
    counts = []
    for number in (2, 3):
        counts.append(subprocess.check_output([sys.executable, "-c", program, path], text=True))
        store.write([record(number, 0.5)])
    store.close()
    assert counts == ["1\n", "2\n"]
    with sqlite3.connect(path) as db:
        assert db.execute(query).fetchone() == (3,)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_children_forked_while_threads_read_and_write_lose_nothing(tmp_path: Path) -> None:
    """Neither side waits for the other, and the file keeps the rows of both after the parent closes it."""
    store, stop = ResultsStore(tmp_path / "results.db"), threading.Event()
    written = iter(range(10_000))

    def write() -> None:
        while not stop.is_set():
            store.write([record(next(written), 1.0)])

    def read() -> None:
        while not stop.is_set():
            count(store, "evaluations")

    threads = [threading.Thread(target=each) for each in (write, read)]
    for thread in threads:
        thread.start()
    children = [forked(lambda n=n: write_slowly(store, 20_000 + 10 * n)) for n in range(4)]
    stop.set()
    for thread in threads:
        thread.join()
    store.close()
    assert [exit_code(child) for child in children] == [0] * 4
    assert count(store, "evaluations") == next(written) + 4 * 3


def write_slowly(store: ResultsStore, first: int) -> None:
    """Write before and after the parent has closed the file."""
    for n in range(3):
        store.write([record(first + n, 1.0)])
        time.sleep(0.2)


def forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_what_is_missing_and_what_does_not_apply_are_told_apart() -> None:
    def missing(status: str, reason: str) -> bool:
        return bool(rows_of(record(1, None, status=status, reason=reason)).evaluations[0]["missing"])

    assert missing("failed", "timeout")
    assert missing("dropped", "queue_full")
    assert missing("not_scored", "output_captured_off")
    assert missing("not_scored", "tool_results_truncated")
    assert not missing("not_scored", "no_tool_calls")
