"""Results have the time of their run, its versions and attributes, and one row for each run."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.store.labels import add_label
from otel_evals_monitor._internal.store.retention import keep_within
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record, records

DAY = 86_400


def report(store: ResultsStore, *options: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, ["report", store.database.name, "--json", *options])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if code == 0 else done.output


def backfilled(rows: list[dict[str, Any]], scored: float) -> list[dict[str, Any]]:
    """Score runs at another time than their own."""
    for each in rows:
        each["evaluations"][0]["time"] = int(scored * 1e9)
    return rows


def test_a_backfilled_week_shows_its_drop_on_its_day(store: ResultsStore) -> None:
    """Seven days at 0.95, and the fifth at 0.5; all scored within a minute."""
    now = int(time.time()) // DAY * DAY
    mean = [0.95, 0.95, 0.95, 0.95, 0.5, 0.95, 0.95]
    rows = list(records(1_400, hours=7 * 24, mean=lambda hour: mean[int(hour // 24)], end=now))
    store.write(backfilled(rows, now + 3_600))
    found = report(store)
    assert found["recorded"][0].startswith(datetime.fromtimestamp(now - 7 * DAY, UTC).strftime("%Y-%m-%d"))
    assert found["notes"] == ["1,400 scores in this range are of a backfill, which alarms ignore."]
    for day, wanted in enumerate(mean):
        ends = (datetime.fromtimestamp(now - (7 - day - more) * DAY, UTC).isoformat() for more in (0, 1))
        since, until = ends
        (row,) = report(store, "--since", since, "--until", until)["estimates"]
        assert row["n"] == pytest.approx(200, abs=1)
        assert row["mean"] == pytest.approx(wanted, abs=0.08)


def test_a_backfill_replaces_live_scores_and_counts_each_run_once(store: ResultsStore) -> None:
    """The run was live traffic: its corrected score stays among live ones."""
    live = list(records(50, hours=5, mean=lambda hour: 0.0))
    store.write(live)
    again = backfilled(list(records(80, hours=8, mean=lambda hour: 1.0)), time.time())
    written = store.write(again)
    assert (written.evaluations, written.repeated) == (80, 0)
    found = report(store)
    assert sum(row["n"] for row in found["estimates"]) == 80
    assert {row["mean"] for row in found["estimates"]} == {1.0}
    assert found["notes"] == ["30 scores in this range are of a backfill, which alarms ignore."]
    assert store.write(again).repeated == 80


def test_a_trace_that_was_read_half_is_replaced_when_it_is_whole(store: ResultsStore) -> None:
    """First the model's span alone, without its agent; labels and scores of it leave with it."""
    half = record(1, 0.0, agent=None, agent_version=None) | {"span_id": "b" * 16}
    half["evaluations"][0]["evaluation_id"] = "half"
    nested = record(1, 1.0, agent="helper") | {"span_id": "c" * 16}
    nested["evaluations"][0] |= {"evaluation_id": "nested", "rule": "grounded@agent"}
    whole = record(1, 1.0, spans=["b" * 16, "c" * 16])
    for each in (half, nested, whole):
        each["evaluations"][0]["time"] += 600 * 10**9
    store.write([half, nested])
    store.write([whole])
    rows = report(store)["estimates"]
    assert {(row["agent_name"], row["n"]) for row in rows} == {("support", 1), ("helper", 1)}


def test_runs_are_split_by_prompt_model_and_any_attribute(store: ResultsStore) -> None:
    for number, version in enumerate(("v1", "v2")):
        known = {"prompt_version": version, "models": [f"m-{version}"], "attributes": {"app.region": version}}
        store.write(records(100, seed=number + 1, mean=lambda hour, low=number: 0.95 - 0.5 * low, **known))
    for by in ("prompt", "model", "attribute:app.region"):
        rows = report(store, "--by", by)["estimates"]
        assert [row["n"] for row in rows] == [100, 100], by
        assert rows[0]["mean"] > rows[1]["mean"] + 0.3
    (first, second) = report(store, "--by", "prompt", "--against", "v1")["estimates"]
    assert first["change"] is None
    assert second["change"]["high"] < -0.1
    assert [row["n"] for row in report(store, "--against", "v2")["estimates"]] == [100, 100]
    (note,) = report(store, "--by", "tenant")["notes"]
    assert note.startswith("--by tenant: no run in this window has one; on record are agent: support;")
    assert "prompt version: v1, v2" in note
    wrong = report(store, "--against", "v3", code=2)
    assert "nothing on record is 'v3'; on record are agent version: 1; prompt version: v1, v2" in wrong
    assert "is not one of agent, version, prompt" in report(store, "--by", "colour", code=2)
    nothing = CliRunner().invoke(app, ["report", store.database.name, "--scorer", "other"])
    assert "scorer: grounded; agent: support" in nothing.stdout


def test_users_stand_beside_n(store: ResultsStore) -> None:
    store.write(records(700, mean=lambda hour: 1.0))
    done = CliRunner().invoke(app, ["report", store.database.name])
    assert "700 of 7 users" in done.stdout
    (row,) = report(store)["estimates"]
    assert row["users_or_conversations"] == 7
    assert row["low"] == pytest.approx(0.025 ** (1 / 7), abs=0.01)


def test_missing_scores_never_narrow_the_interval(store: ResultsStore) -> None:
    store.write(records(300, mean=lambda hour: 1.0))
    store.write(records(3, seed=2, status="failed", reason="timeout"))
    (row,) = report(store)["estimates"]
    assert row["missing_low"] <= row["low"]
    assert row["missing_high"] >= row["high"]


def test_the_age_of_a_run_is_that_of_the_run(store: ResultsStore) -> None:
    now = time.time()
    store.write(backfilled([record(1, 1.0, time=now - 40 * DAY)], now))
    store.write([record(2, 1.0, time=now - 60)])
    assert keep_within(store.database, 30 * DAY) == 1


def test_the_filters_of_an_export_are_all_needed(store: ResultsStore, tmp_path: Path) -> None:
    low = [record(number, 0.0) for number in range(3)]
    store.write(low)
    id = low[1]["evaluations"][0]["evaluation_id"]
    labelled = CliRunner().invoke(app, ["export", store.database.name, "--verdict", "fail"])
    assert labelled.exit_code == 2
    assert "--verdict: no run with a recorded question" in labelled.output
    add_label(store.database, id, verdict="fail")
    out = str(tmp_path / "runs.jsonl")
    both = ["export", store.database.name, "--scorer", "grounded", "--verdict", "fail", "--out", out]
    done = CliRunner().invoke(app, both)
    assert done.output.startswith("wrote 1 run to")
    (item,) = (json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines())
    assert item["metadata"]["trace_id"] == low[1]["trace_id"]
