"""The sampler check on a results store: what live rules pick is kept, and a wrong share raises an alarm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.accounting.picks import MinuteOfPicks
from otel_evals._internal.cli.app import app
from otel_evals.statistics import Picks
from otel_evals_monitor import ResultsDestination
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import check_store
from otel_evals_monitor._internal.report.inputs import ReportOptions
from otel_evals_monitor._internal.report.report import make_report
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.picks import keep_picks, picks_of, sampler_checks
from otel_evals_monitor._internal.store.queries import stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records
from tests.support.traffic import Live, SeededIds, agent_run

END = START + 48 * 3600


@scorer(inline=True)
def passes(run: Run) -> bool:
    """Whether the answer is right."""
    return run.output == "right"


def minute(number: int, picks: Picks, process: str = "a") -> MinuteOfPicks:
    return MinuteOfPicks(process, "grounded", "support", START + 60 * number, picks)


def test_picks_of_processes_add_up_and_repeats_do_no_harm(store: ResultsStore) -> None:
    rows = [minute(n, Picks(10, 1, 1.0, 0.9), process) for n in range(20) for process in "ab"]
    for _ in range(2):
        keep_picks(store.database, rows)
    keep_picks(store.database, [minute(0, Picks(11, 2, 1.1, 0.99))])
    with store.database.reading() as connection:
        found = picks_of(connection, Window(), 600)
        assert {start: p.runs for start, p in found["grounded"].items()} == {START: 201, START + 600: 200}
        (whole,) = picks_of(connection, Window(START + 600), rules=["grounded"])["grounded"].values()
    assert whole.picked == 20
    assert whole.expected == pytest.approx(20.0)


def test_a_sampler_that_picks_too_few_raises_an_alarm_and_is_told_on_the_page(store: ResultsStore) -> None:
    store.write(records(500, mean=lambda hour: 0.9))
    keep_picks(store.database, (minute(n, Picks(20, 2, 2.0, 1.8)) for n in range(2_000)))
    assert check_store(store.database, AlarmLimits(), END).alarms == []
    keep_picks(store.database, (minute(n, Picks(20, 1, 2.0, 1.8)) for n in range(2_000, 2_600)))
    (alarm,) = check_store(store.database, AlarmLimits(), END).alarms
    assert (alarm.kind, alarm.scorer_id) == ("sampler", "grounded")
    assert START + 60 * 1_900 < alarm.since < START + 60 * 2_150
    assert "were expected: do not rely on the means" in alarm.text
    with store.database.reading() as connection:
        (sentence,) = sampler_checks(connection, stored_slices(connection), Window())
    assert "4,600 of 52,000" in sentence
    assert sentence.endswith("do not rely on the means.")
    told = CliRunner().invoke(app, ["report", store.database.name, "--json"])
    (check,) = json.loads(told.stdout)["sampler_checks"]
    assert (check["rule"], check["runs"], check["picked"], check["expected"]) == (
        "grounded", 52_000, 4_600, pytest.approx(5_200.0),
    )  # fmt: skip
    assert check["z"] < -4
    assert check["surprising"]


def test_live_rules_pick_as_they_say(tmp_path: Path) -> None:
    """Both rules of a pipeline: one that looks at errors, and one of a fixed share."""
    path = tmp_path / "results.db"
    rules = (
        Rule(passes, sample=sampling.ratio(0.3) | sampling.errors()),
        Rule(scorer(id="other", inline=True)(lambda run: True), sample=sampling.ratio(0.1)),
    )
    with Live(*rules, ids=SeededIds(5), destinations=[ResultsDestination(path)]) as live:
        for number in range(600):
            agent_run(live.tracer, answer="right" if number % 10 else "wrong")
        assert live.flush()
        stats = live.pipeline.stats().rules
    store = ResultsStore(path)
    with store.database.reading() as connection:
        found = {rule: sum(p.values(), Picks()) for rule, p in picks_of(connection, Window(), 60).items()}
    store.close()
    assert {r: p.picked for r, p in found.items()} == {r: s.sampled for r, s in stats.items()}
    assert found["other"].runs == stats["other"].eligible
    assert all(p.z is None or abs(p.z) < 4 for p in found.values())
    assert found["other"].variance > 0


def test_a_store_without_picks_says_nothing(store: ResultsStore) -> None:
    store.write([record(1, 1.0)])
    with store.database.reading() as connection:
        assert sampler_checks(connection, stored_slices(connection), Window()) == []


def test_a_sample_that_lacks_the_ordinary_runs_has_no_interval(store: ResultsStore) -> None:
    """48 errors under `ratio(0.001) | errors()`, and none of 400 other runs."""
    store.write(record(n, float(n % 4 == 0)) for n in range(48))
    keep_picks(store.database, [minute(0, Picks(48, 48, 48.0, 0.0, 48.0))])
    (row,) = make_report(store.database, ReportOptions()).slices
    assert row.estimate.interval is not None
    lacking = [minute(1, sum([Picks.of(0.001, False)] * 400, Picks()))]
    keep_picks(store.database, lacking)
    told = CliRunner().invoke(app, ["report", store.database.name, "--json"])
    (found,) = json.loads(told.stdout)["estimates"]
    assert found["representative"] is False
    assert (found["low"], found["high"], found["missing_low"]) == (None, None, None)
    assert "not representative" in found["warnings"][0]
    assert "not representative" in CliRunner().invoke(app, ["report", store.database.name]).stdout
