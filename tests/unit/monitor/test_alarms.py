"""Alarms: what really fell is found, with its evidence, once; what did not fall is left alone."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals.errors import ConfigError
from otel_evals.statistics import Sums, wander
from otel_evals_monitor._internal.alarms import monitors
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import WatchState, check_store
from otel_evals_monitor._internal.alarms.record import keep_alarms, lasting_alarms
from otel_evals_monitor._internal.alarms.watchers import silence
from otel_evals_monitor._internal.report.inputs import ReportOptions
from otel_evals_monitor._internal.report.report import make_report
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records

END = START + 48 * 3600


def kinds(store: ResultsStore, now: float = END, **options: Any) -> list[str]:
    return sorted(alarm.kind for alarm in check_store(store.database, AlarmLimits(**options), now).alarms)


def test_a_fall_is_found_with_its_time_its_worst_runs_and_the_version_it_started_with(
    store: ResultsStore,
) -> None:
    rows = list(records(2_500, mean=lambda hour: 0.95 if hour < 30 else 0.75))
    for each in rows[len(rows) * 30 // 48 :]:
        each["evaluations"][0]["version"] = "b2"
    high = [each for each in rows if each["evaluations"][0]["version"] != "b2"]
    store.write(high[: len(high) // 2])
    first = check_store(store.database, AlarmLimits(), END)
    assert [alarm.kind for alarm in first.alarms] == ["silence"]
    store.write(rows)
    later = check_store(store.database, AlarmLimits(), END, first)
    assert later.alarms == check_store(store.database, AlarmLimits(), END, later).alarms
    (alarm,) = later.alarms
    assert alarm.kind == "fall"
    began = START + 30 * 3600
    assert began - 3 * 3600 < alarm.since < alarm.raised < began + 8 * 3600
    assert alarm.evidence is not None
    assert alarm.needed is not None
    assert alarm.needed == pytest.approx(6 / 0.05)
    assert alarm.evidence >= alarm.needed
    sure = "Chance alone does this at most once in {} weeks"
    assert alarm.evidence_text == sure.format("a million")
    assert replace(alarm, evidence=1_234.5).evidence_text == sure.format("1,234")
    assert replace(alarm, evidence=None, needed=None).evidence_text == ""
    assert len(alarm.trace_ids) == 5
    assert "in the reference from" in alarm.text
    assert "worst runs" in alarm.next_step
    assert "Version b2 of the scorer is in use since" in alarm.text


@pytest.mark.slow
def test_steady_traffic_raises_no_alarm(tmp_path: Path) -> None:
    """Twelve two-day histories with everything watched; the budget allows one false alarm in twenty weeks."""
    raised = []
    for seed in range(12):
        store = ResultsStore(tmp_path / f"{seed}.db")
        sampled = records(1_500, seed=seed, probability=0.1, mean=lambda hour: 0.9)
        store.write(sampled)
        raised += kinds(store, floors={"grounded": 0.9 - 0.005})
        store.close()
    assert raised == []


def test_a_mean_below_its_floor_is_found(store: ResultsStore) -> None:
    store.write(records(500, mean=lambda hour: 0.7))
    assert kinds(store, floors={"grounded": 0.9}) == ["floor"]
    assert kinds(store, floors={"grounded": 0.6, "other": 1.0}) == []
    with pytest.raises(ConfigError, match=r"floors.grounded: must be in 0..1"):
        kinds(store, floors={"grounded": 9.0})


def test_where_low_scores_are_good_a_rise_is_the_fall(store: ResultsStore) -> None:
    given = records(1_000, mean=lambda hour: 0.05 if hour < 30 else 0.4, direction="lower_is_better")
    store.write(given)
    assert kinds(store, floors={"grounded": 0.1}) == ["fall", "floor"]
    assert kinds(store, floors={"grounded": 0.5}) == ["fall"]


def test_missing_scores_are_found(store: ResultsStore) -> None:
    rng = random.Random(1)
    times = [START + 48 * 3600 * i / 1_000 for i in range(1_000)]
    store.write(
        record(i, None, time=t, status="failed", reason="timeout")
        if rng.random() < 0.4
        else record(i, 1.0, time=t)
        for i, t in enumerate(times)
    )
    (alarm,) = check_store(store.database, AlarmLimits(), END).alarms
    assert alarm.kind == "missing"
    assert "of the scores are missing" in alarm.text
    assert kinds(store, missing=0.6) == []


def test_silence_is_found_after_three_usual_gaps(store: ResultsStore) -> None:
    store.write(records(1_000, mean=lambda hour: 0.9))
    assert kinds(store, END + 600) == []
    assert kinds(store, END + 3 * 3600) == ["silence"]


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_a_store_younger_than_a_step_has_no_alarm(store: ResultsStore, count: int) -> None:
    store.write(record(n, 0.0, time=START + n) for n in range(count))
    assert kinds(store, START + 40, floors={"grounded": 0.9}) == []
    told = CliRunner().invoke(app, ["monitor", store.database.name, "--once"])
    assert told.exit_code == 0
    assert told.stdout.startswith("no alarm")


def test_every_prefix_of_a_record_can_be_checked(store: ResultsStore) -> None:
    """A run, a second one, a version, a step, a day: no size is special."""
    rows = list(records(64, hours=40.0))
    for end in (1, 2, 3, 5, 8, 16, 32, 64):
        store.write(each | {"agent_version": str(n % 3)} for n, each in enumerate(rows[:end]))
        kinds(store, rows[end - 1]["start_time"] // 10**9 + 1_200, floors={"grounded": 0.9})


def test_a_worse_version_is_named_with_the_step_that_was_enough(store: ResultsStore) -> None:
    both = zip(
        records(1_000, version="1", seed=1),
        records(1_000, version="2", seed=2, mean=lambda hour: 0.6),
        strict=True,
    )
    store.write(each for pair in both for each in pair)
    (alarm,) = check_store(store.database, AlarmLimits(), END).alarms
    assert alarm.kind == "version"
    assert alarm.text.startswith("version 2 scores 0.")
    assert START < alarm.raised < START + 12 * 3600


@pytest.mark.slow
def test_a_fall_lasts_until_quality_returns_or_somebody_acknowledges_it(store: ResultsStore) -> None:
    """Two weeks after the fall, all of the last week is low; the reference stays that before the fall."""
    days = 24 * 3600
    start = END - 16 * days
    store.write(records(3_200, hours=16 * 24, mean=lambda hour: 0.95 if hour < 48 else 0.65))
    for day in (4, 10, 16):
        found = check_store(store.database, AlarmLimits(), start + day * days)
        keep_alarms(store.database, found.alarms, END)
        (kept,) = lasting_alarms(store.database)
        assert kept.kind == "fall"
    name = store.database.name
    acknowledge = ["results", "acknowledge", name, kept.monitor]
    assert CliRunner().invoke(app, acknowledge).exit_code == 0
    assert kinds(store) == []
    keep_alarms(store.database, [], END)
    assert CliRunner().invoke(app, acknowledge).exit_code == 2


@pytest.mark.slow
def test_a_slow_fall_over_weeks_is_found(store: ResultsStore) -> None:
    """0.1 in four weeks, 300 runs a day: never much worse than a week earlier."""
    store.write(records(8_400, hours=28 * 24, mean=lambda hour: 0.95 - 0.1 * hour / (28 * 24)))
    (alarm,) = check_store(store.database, AlarmLimits(), END).alarms
    assert alarm.kind == "drift"
    assert alarm.since < END - 7 * 24 * 3600
    assert "in the reference, the first week" in alarm.text


@pytest.mark.parametrize("column", ["agent", pytest.param("version", marks=pytest.mark.slow)])
def test_a_retired_agent_or_scorer_version_is_no_silence(store: ResultsStore, column: str) -> None:
    rows = list(records(1_000, mean=lambda hour: 0.9))
    for number, each in enumerate(rows):
        if number % 2 and number < 750:
            (each if column == "agent" else each["evaluations"][0])[column] = "old"
    store.write(rows)
    assert kinds(store, END + 600) == []


def test_a_nightly_pause_is_no_silence_and_a_missing_morning_is() -> None:
    """Runs from 8 to 20 o'clock for some days, and then none."""
    hour, day = 3600, 24 * 3600
    for days in (1, 2, 4, 7):
        starts = [d * day + m for d in range(days) for m in range(8 * hour, 20 * hour, 600)]
        for later in range(23):
            now = (days - 1) * day + 20 * hour + later * hour
            found = silence(starts, now).since
            assert (found is not None) == (later > 12), (days, later)


def test_a_mean_that_wanders_raises_no_floor_alarm(
    store: ResultsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean of 0.9 that is lower for half of the day, at a floor of 0.9."""
    factors: list[float] = []

    def noted(hours: Mapping[int, Sums]) -> float:
        factors.append(wander(hours))
        return factors[-1]

    monkeypatch.setattr(monitors, "wander", noted)
    cycle = records(3_000, hours=6.5 * 24, mean=lambda hour: 0.9 - 0.1 * math.sin(math.pi * hour / 12))
    store.write(cycle)
    assert kinds(store, floors={"grounded": 0.9}) == []
    assert max(factors) > 2


def test_a_backfill_raises_and_ends_no_alarm(store: ResultsStore) -> None:
    """A week of bad runs, scored today, beside live runs; then the low live runs, scored again as right."""
    store.write(records(600, hours=12, mean=lambda hour: 0.95))
    for each in (late := list(records(600, hours=12, mean=lambda hour: 0.2, seed=9))):
        each["evaluations"][0]["time"] += 7200 * 10**9
    store.write(late)
    assert kinds(store, floors={"grounded": 0.9}) == []
    (whole,) = make_report(store.database, ReportOptions()).slices
    assert whole.counts["scored"] == 1_200, "reports have them"


def test_the_state_of_a_scorer_is_told_whether_it_is_watched_and_what_is_pending(store: ResultsStore) -> None:
    store.write(records(800, hours=16, mean=lambda hour: 0.86))

    def state(scorer: str, **floors: float) -> WatchState:
        found = check_store(store.database, AlarmLimits(floors=floors), END)
        return found.states[scorer, "support"]

    calm = state("grounded", grounded=0.5)
    assert calm.watched
    assert "floor 0.500" in calm.text
    assert calm.text.endswith("no alarm pending")
    doubt = state("grounded", grounded=0.9)
    assert re.search(r"alarm pending \(floor\) since .* UTC, decided in about .* at this rate", doubt.text)


def test_a_floor_is_on_the_newest_scale_of_a_scorer(store: ResultsStore) -> None:
    store.write(records(300, hours=20, end=END - 11 * 3600))
    newer = list(records(300, hours=10, seed=2, mean=lambda hour: 0.7))
    for each in newer:
        each["evaluations"][0] |= {"scale": 10.0, "value": 10.0 * each["evaluations"][0]["value"]}
    store.write(newer)
    assert "floor" in kinds(store, floors={"grounded": 9.0})


def test_scores_without_a_scale_raise_no_alarm_about_their_mean(store: ResultsStore) -> None:
    rows = list(records(500))
    for each in rows:
        each["evaluations"][0] |= {"scale": None, "value": 1e6 * each["evaluations"][0]["value"]}
    store.write(rows)
    assert kinds(store, floors={"grounded": 0.9}) == []


def test_the_command_exits_with_one_where_there_is_an_alarm(store: ResultsStore, tmp_path: Path) -> None:
    store.write(records(500, mean=lambda hour: 0.7))
    path = str(tmp_path / "results.db")

    def check(*options: str) -> Any:
        return CliRunner().invoke(app, ["monitor", path, "--once", *options])

    done = check("--floor", "grounded=0.9", "--json")
    assert done.exit_code == 1
    assert "floor" in {alarm["kind"] for alarm in json.loads(done.stdout)["alarms"]}
    assert check("--floor", "grounded").exit_code == 2
    assert "'grunded'; on record are scorer: grounded" in check("--floor", "grunded=0.9").stderr
    assert check("--missing", "2").exit_code == 2
    assert CliRunner().invoke(app, ["monitor", str(tmp_path / "none.db"), "--once"]).exit_code == 2
