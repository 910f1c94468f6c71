"""Results stores of earlier schemas, as their versions wrote them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.labels import add_label, labels_on
from otel_evals_monitor._internal.store.queries import Measured, Window, measure, stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record

DATA = Path(__file__).parent / "data"


def columns(path: Path) -> dict[str, set[str]]:
    with sqlite3.connect(path) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for table in tables
        }


def indexes(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")]


@pytest.mark.parametrize("schema_file", ["schema_1.sql", "schema_3.sql"])
def test_a_store_of_an_earlier_schema_keeps_its_figures_and_takes_new_scores(
    tmp_path: Path, schema_file: str
) -> None:
    """Two scores of 0 and two of 1, each pair of another weight; then one more, and one again."""
    path, new = tmp_path / "results.db", tmp_path / "new.db"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / schema_file).read_text(encoding="utf-8"))
    connection.close()
    store = ResultsStore(path)
    with store.database.reading() as reading:
        before = measure(reading, stored_slices(reading), Window(), ()).get((), Measured())
    assert (before.scored.n, before.scored.w, before.scored.wx) == (4, 6.0, 2.0)
    given = [record(1, 1.0, probability=1.0), record(4, 1.0, probability=0.5)]
    assert store.write(given).evaluations == 1, "the first was there already"
    with store.database.reading() as reading:
        after = measure(reading, stored_slices(reading), Window(), ()).get((), Measured())
    assert (after.scored.n, after.scored.w, after.scored.wx) == (5, 8.0, 4.0)
    store.close()
    ResultsStore(new).close()
    assert columns(path) == columns(new)
    assert {*indexes(path)} == {*indexes(new)}
    with sqlite3.connect(path) as reread:
        found = reread.execute("SELECT value FROM settings WHERE name = 'schema'").fetchone()
    assert found == (str(schema.VERSION),)


def test_labels_of_the_third_schema_stay_and_take_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((DATA / "schema_3.sql").read_text(encoding="utf-8"))
    store = ResultsStore(path)
    ((id, kept),) = labels_on(store.database, record(0, 0.0)["trace_id"]).items()
    assert (kept["label"], kept["expected"], kept["verdict"]) == (1.0, "On day 3.", None)
    add_label(store.database, id, verdict="fail", failure_type="late")
    assert labels_on(store.database, record(0, 0.0)["trace_id"])[id]["label"] == 0.0
    store.close()
