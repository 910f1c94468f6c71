"""Results stores of earlier schemas, as their versions wrote them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.queries import Measured, Window, measure, stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record

FIRST = Path(__file__).parent / "data" / "schema_1.sql"


def columns(path: Path) -> dict[str, set[str]]:
    with sqlite3.connect(path) as connection:
        tables = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {
            table: {row[1] for row in connection.execute(f"PRAGMA table_info({table})")} for table in tables
        }


def test_a_store_of_the_first_schema_keeps_its_figures_and_takes_new_scores(tmp_path: Path) -> None:
    """Two scores of 0 and two of 1, each pair of another weight; then one more, and one again."""
    path, new = tmp_path / "results.db", tmp_path / "new.db"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST.read_text(encoding="utf-8"))
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
    with sqlite3.connect(path) as reread:
        found = reread.execute("SELECT value FROM settings WHERE name = 'schema'").fetchone()
    assert found == (str(len(schema.MIGRATIONS)),)
