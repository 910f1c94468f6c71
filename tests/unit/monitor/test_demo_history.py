"""The demo's made-up history: repeatable, and with a second version that is worse and found at any time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import check_store
from otel_evals_monitor._internal.alarms.record import Alarm, incidents_of
from otel_evals_monitor._internal.demo.history import write_history
from otel_evals_monitor._internal.store.database import Database
from tests.support.result_records import record

NOW = 1_790_000_000.0
STARTS = (
    "2026-11-25T00:00:00+00:00",
    "2026-11-25T07:13:31+00:00",
    "2026-11-25T19:59:01+00:00",
    "2026-03-29T01:00:05+00:00",  # summer time begins in Berlin
    "2026-10-25T02:30:05+00:00",  # and has ended
)


def alarms(store: Path, scores: Path, now: float) -> list[Alarm]:
    assert write_history(store, scores, seed=7, now=now) == 1_660
    database = Database(store, create=False)
    try:
        return list(check_store(database, AlarmLimits(floors={"grounded_in_tools": 0.9}), now).alarms)
    finally:
        database.close()


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    told = [record(i, float(i % 4 > 0), scorer="grounded_in_tools", end_time=None) for i in range(40)]
    path = tmp_path / "scores.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in told))
    return path


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.slow
def test_the_same_history_is_written_again(scores: Path, tmp_path: Path) -> None:
    first = alarms(tmp_path / "one.db", scores, NOW)
    assert first == alarms(tmp_path / "two.db", scores, NOW) == alarms(tmp_path / "one.db", scores, NOW)


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_two_days_hold_one_incident_whenever_the_demo_starts(
    scores: Path, tmp_path: Path, berlin: None, start: str
) -> None:
    now = datetime.fromisoformat(start).timestamp()
    found = alarms(tmp_path / "one.db", scores, now)
    assert {alarm.kind for alarm in found} == {"floor", "fall", "version"}
    (incident,) = incidents_of(found)
    assert incident.title == "support got worse with version 2"
    assert (now - incident.since) / 3600 == pytest.approx(14.0, abs=0.5), "the rollout"


def test_without_runs_there_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "scores.jsonl").write_text("")
    assert write_history(tmp_path / "results.db", tmp_path / "scores.jsonl", seed=7, now=NOW) == 0
