"""The sampler check: what live rules pick is as they say, and what is not is found, seldom by mistake."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.accounting.picks import MinuteOfPicks, PickLog
from otel_evals._internal.cli.app import app
from otel_evals._internal.sampling.decide import Decision
from otel_evals.sampling import Chance
from otel_evals.statistics import PickDetector, Picks
from otel_evals_monitor import ResultsDestination
from otel_evals_monitor._internal.alarms.monitors import AlarmSettings, find_alarms
from otel_evals_monitor._internal.report.sampler_notes import sampler_checks
from otel_evals_monitor._internal.store.picks import keep_picks, picks_of
from otel_evals_monitor._internal.store.queries import Window, stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record, records
from tests.support.runs import a_run
from tests.support.traffic import Live, SeededIds, agent_run

END = START + 48 * 3600


@scorer(inline=True)
def passes(run: Run) -> bool:
    """Whether the answer is right."""
    return run.output == "right"


def some_picks(rng: random.Random, runs: int, stated: float, true: float) -> Picks:
    picked = sum(rng.random() < true for _ in range(runs))
    return Picks(runs, picked, runs * stated, runs * stated * (1 - stated))


def worst(stated: float, true: float, seed: int) -> float:
    """The most evidence that was ever there in 200 buckets."""
    rng, detector, highest = random.Random(seed), PickDetector(1008), 0.0
    for _ in range(200):
        detector = detector.updated(some_picks(rng, 50, stated, true))
        highest = max(highest, detector.e_value)
    return highest


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_right_shares_are_left_alone_and_wrong_ones_found(share: float) -> None:
    """Twenty series of 10,000 runs each, looked at 200 times; level 0.05."""
    assert sum(worst(share, share, seed) >= 20 for seed in range(20)) <= 1
    assert all(worst(share, min(0.9, share * 2), seed) >= 20 for seed in range(5))
    assert all(worst(share, share * 0.3, seed) >= 20 for seed in range(5))


def test_where_nothing_is_left_to_chance_there_is_no_z_but_evidence() -> None:
    """A rule that samples all runs and lacks some."""
    assert Picks(10, 10, 10.0, 0.0).z is None
    detector = PickDetector(1008)
    for _ in range(20):
        detector = detector.updated(Picks(10, 5, 10.0, 0.0))
    assert detector.e_value > 1e6


def minute(number: int, picks: Picks, process: str = "a") -> MinuteOfPicks:
    return MinuteOfPicks(process, "grounded", START + 60 * number, picks)


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
    assert find_alarms(store.database, AlarmSettings(), END) == []
    keep_picks(store.database, (minute(n, Picks(20, 1, 2.0, 1.8)) for n in range(2_000, 2_600)))
    (alarm,) = find_alarms(store.database, AlarmSettings(), END)
    assert (alarm.kind, alarm.scorer_id) == ("sampler", "grounded")
    assert START + 60 * 1_900 < alarm.since < START + 60 * 2_150
    assert "to be expected: means are not to be relied on" in alarm.text
    with store.database.reading() as connection:
        (sentence,) = sampler_checks(connection, stored_slices(connection), Window())
    assert "4600 of 52000" in sentence
    assert sentence.endswith("not to be relied on.")
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
        assert live.flush(60_000)
        stats = live.pipeline.stats().rules
    store = ResultsStore(path)
    with store.database.reading() as connection:
        found = {rule: sum(p.values(), Picks()) for rule, p in picks_of(connection, Window(), 60).items()}
    store.close()
    assert {r: p.picked for r, p in found.items()} == {r: s.sampled for r, s in stats.items()}
    assert found["other"].runs == stats["other"].eligible
    assert all(p.z is None or abs(p.z) < 4 for p in found.values())
    assert found["other"].variance > 0


def test_runs_of_one_trace_are_counted_once_and_cascades_not_at_all() -> None:
    log = PickLog(ceiling=0.5, clock=lambda: START + 61.0)
    plain, follower = Rule(passes, sample=sampling.ratio(0.1)), Rule(passes, sample=sampling.below("x", 0.5))
    for rule, trace in ((plain, "1"), (plain, "1"), (plain, "2"), (follower, "3")):
        log.note(replace(a_run(), trace_id=trace * 32), Decision(rule, "sampled", chance=Chance(0.1)))
    log.note(replace(a_run(), trace_id="4" * 32), Decision(plain, "sampled", chance=Chance(1.0, known=False)))
    (row,) = log.changed()
    assert (row.minute, row.picks.runs, row.picks.picked) == (START + 60, 2, 2)
    assert (row.picks.expected, row.picks.variance) == (pytest.approx(0.4), pytest.approx(0.32))
    log.told([row])
    assert log.changed() == []
    log.note(replace(a_run(), trace_id="5" * 32), Decision(plain, "not_sampled", chance=Chance(0.1)))
    assert log.changed()[0].picks.runs == 3


def test_a_store_without_picks_says_nothing(store: ResultsStore) -> None:
    store.write([record(1, 1.0)])
    with store.database.reading() as connection:
        assert sampler_checks(connection, stored_slices(connection), Window()) == []
