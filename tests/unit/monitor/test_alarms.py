"""Alarms: what really fell is found, with its evidence, once; what did not fall is left alone."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals.statistics import Sums, total
from otel_evals_monitor._internal.alarms.alarm_record import alarms_of, keep_alarms
from otel_evals_monitor._internal.alarms.monitors import Alarm, AlarmSettings, find_alarms
from otel_evals_monitor._internal.alarms.watchers import flipped, limited
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records

END = START + 48 * 3600


def kinds(store: ResultsStore, now: float = END, **options: Any) -> list[str]:
    return sorted(alarm.kind for alarm in find_alarms(store.database, AlarmSettings(**options), now))


def test_a_fall_is_found_with_its_time_and_its_worst_runs(store: ResultsStore) -> None:
    store.write(records(2_500, mean=lambda hour: 0.95 if hour < 30 else 0.75))
    (alarm,) = find_alarms(store.database, AlarmSettings(), END)
    assert alarm.kind == "fall"
    began = START + 30 * 3600
    assert began - 3 * 3600 < alarm.since < alarm.raised < began + 8 * 3600
    assert alarm.evidence is not None
    assert alarm.needed is not None
    assert alarm.needed == pytest.approx(5 / 0.05)
    assert alarm.evidence >= alarm.needed
    assert alarm.evidence_text == "more than 1,000,000 (threshold 100)"
    assert replace(alarm, evidence=1_234.5).evidence_text == "1,234 (threshold 100)"
    assert replace(alarm, evidence=0.123).evidence_text == "0.12 (threshold 100)"
    assert replace(alarm, evidence=None, needed=None).evidence_text == ""
    assert len(alarm.trace_ids) == 5
    assert "in the period before" in alarm.text


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
    store.write(records(1_500, mean=lambda hour: 0.8))
    assert kinds(store, floors={"grounded": 0.9}) == ["floor"]
    assert kinds(store, floors={"grounded": 0.7, "other": 1.0}) == []


def test_where_low_scores_are_good_a_rise_is_the_fall(store: ResultsStore) -> None:
    given = records(2_500, mean=lambda hour: 0.05 if hour < 30 else 0.3, direction="lower_is_better")
    store.write(given)
    assert kinds(store, floors={"grounded": 0.1}) == ["fall", "floor"]
    assert kinds(store, floors={"grounded": 0.5}) == ["fall"]


def test_a_worse_version_is_named(store: ResultsStore) -> None:
    both = zip(
        records(1_500, version="1", seed=1),
        records(1_500, version="2", seed=2, mean=lambda hour: 0.6),
        strict=True,
    )
    store.write(each for pair in both for each in pair)
    (alarm,) = find_alarms(store.database, AlarmSettings(), END)
    assert alarm.kind == "version"
    assert alarm.text.startswith("version 2 scores 0.")


def test_missing_scores_are_found(store: ResultsStore) -> None:
    rng = random.Random(1)
    times = [START + 48 * 3600 * i / 2_000 for i in range(2_000)]
    store.write(
        record(i, None, time=t, status="failed", reason="timeout")
        if rng.random() < 0.4
        else record(i, 1.0, time=t)
        for i, t in enumerate(times)
    )
    (alarm,) = find_alarms(store.database, AlarmSettings(), END)
    assert alarm.kind == "missing"
    assert "of the scores are missing" in alarm.text
    assert kinds(store, missing=0.6) == []


def test_silence_is_found_after_three_usual_gaps(store: ResultsStore) -> None:
    store.write(records(2_000, mean=lambda hour: 0.9))
    assert kinds(store, END + 600) == []
    assert kinds(store, END + 3 * 3600) == ["silence"]


def test_an_empty_store_and_one_run_raise_nothing(store: ResultsStore) -> None:
    assert kinds(store) == []
    store.write([record(1, 0.0)])
    assert kinds(store, floors={"grounded": 1.0}) == []


def test_scores_without_a_scale_raise_no_alarm_about_their_mean(store: ResultsStore) -> None:
    rows = list(records(500))
    for each in rows:
        each["evaluations"][0] |= {"scale": None, "value": 1e6 * each["evaluations"][0]["value"]}
    store.write(rows)
    assert kinds(store, floors={"grounded": 0.9}) == []


def test_an_alarm_is_kept_from_its_start_to_its_end(store: ResultsStore) -> None:
    alarm = Alarm("floor a", "floor", "a", "", START, START + 60, 500.0, 80.0, "it is low", ("1" * 32,))
    for now in (END, END + 60):
        (kept,) = keep_alarms(store.database, [alarm], now)
        assert kept.alarm == alarm
    assert keep_alarms(store.database, [], END + 120) == []
    assert [each.ended for each in alarms_of(store.database)] == [END + 120]
    keep_alarms(store.database, [alarm], END + 180)
    assert [each.ended for each in alarms_of(store.database)] == [None, END + 120]


def test_the_command_exits_with_one_where_there_is_an_alarm(store: ResultsStore, tmp_path: Path) -> None:
    store.write(records(1_500, mean=lambda hour: 0.8))
    path = str(tmp_path / "results.db")

    def check(*options: str) -> Any:
        return CliRunner().invoke(app, ["monitor", path, "--once", *options])

    assert check("--floor", "grounded=0.9").exit_code == 1
    found = json.loads(check("--floor", "grounded=0.9", "--json").stdout)["alarms"]
    assert "floor" in {alarm["kind"] for alarm in found}
    assert check("--floor", "grounded").exit_code == 2
    assert check("--missing", "2").exit_code == 2
    assert CliRunner().invoke(app, ["monitor", str(tmp_path / "none.db"), "--once"]).exit_code == 2


def test_sums_turned_round_and_limited_are_those_of_the_runs() -> None:
    runs = [(0.2, 1.0), (0.9, 4.0), (1.0, 2.0)]
    turned = flipped(total(Sums.of(x, w) for x, w in runs))
    wanted = total(Sums.of(1.0 - x, w) for x, w in runs)
    for name, value in asdict(wanted).items():
        assert getattr(turned, name) == pytest.approx(value), name
    small = limited(wanted, 2.0)
    halved = total(Sums.of(1.0 - x, w / 2) for x, w in runs if w >= 2) + limited(Sums.of(0.8, 1.0), 0.5)
    assert small.w_max == 2.0
    assert (small.w, small.wx, small.wwxx) == pytest.approx((halved.w, halved.wx, halved.wwxx))
