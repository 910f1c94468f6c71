"""The demo's made-up history: repeatable, and with a second version that is worse and found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_evals_monitor._internal.alarms.monitors import AlarmSettings, find_alarms
from otel_evals_monitor._internal.demo.history import write_history
from otel_evals_monitor._internal.store.database import Database
from tests.support.result_records import record

NOW = 1_790_000_000.0


@pytest.mark.slow
def test_two_days_hold_alarms_to_find(tmp_path: Path) -> None:
    told = [record(i, float(i % 4 > 0), scorer="grounded_in_tools", end_time=None) for i in range(40)]
    scores = tmp_path / "scores.jsonl"
    scores.write_text("".join(json.dumps(each) + "\n" for each in told))
    found = []
    for store in (tmp_path / "one.db", tmp_path / "two.db", tmp_path / "one.db"):
        assert write_history(store, scores, seed=7, now=NOW) == 1_660
        database = Database(store, create=False)
        found.append(find_alarms(database, AlarmSettings(floors={"grounded_in_tools": 0.9}), NOW))
        database.close()
    assert found[0] == found[1] == found[2]
    assert {alarm.kind for alarm in found[0]} == {"floor", "fall", "version"}


def test_without_runs_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text("")
    assert write_history(tmp_path / "results.db", tmp_path / "scores.jsonl", seed=7, now=NOW) == 0
