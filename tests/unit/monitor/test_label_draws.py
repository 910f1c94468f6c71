"""The label queue's draws: every label's inclusion probability is known, and corrects the judge's mean."""

from __future__ import annotations

import random
from collections.abc import Iterator

from otel_evals.statistics import Labelled, Sums, corrected
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import check_store
from otel_evals_monitor._internal.store.labels import (
    add_label,
    chances_of,
    draw,
    drawn_unlabelled,
    waiting_for_draw,
)
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record

END = START + 48 * 3600


def outstanding(store: ResultsStore) -> list[str]:
    with store.database.reading() as connection:
        return [row["evaluation_id"] for row in drawn_unlabelled(connection, 1_000)]


def chances(store: ResultsStore) -> dict[str, float]:
    with store.database.reading() as connection:
        return dict(chances_of(connection))


def test_a_label_has_the_probability_of_its_draw(store: ResultsStore) -> None:
    store.write(record(i, 1.0) for i in range(100))
    store.write([record(1_000, None, status="failed", reason="timeout")])
    assert draw(store.database, 8, random.Random(1)) == 8
    assert draw(store.database, 8) == 0, "nothing new has arrived"
    store.write(record(i, 1.0) for i in range(100, 104))
    with store.database.reading() as connection:
        assert waiting_for_draw(connection) == 4
    assert draw(store.database, 8) == 4
    first, second = outstanding(store)[:8], outstanding(store)[8:]
    for each in (*first, *second):
        add_label(store.database, each, 1.0)
    assert chances(store) == dict.fromkeys(first, 8 / 100) | dict.fromkeys(second, 1.0)
    assert outstanding(store) == []


def test_of_an_unfinished_draw_the_labelled_ones_count(store: ResultsStore) -> None:
    store.write(record(i, 1.0) for i in range(100))
    draw(store.database, 10)
    for each in outstanding(store)[:4]:
        add_label(store.database, each, 1.0)
    assert set(chances(store).values()) == {4 / 100}
    assert len(outstanding(store)) == 6


def test_labels_that_nobody_left_to_chance_have_no_probability(store: ResultsStore) -> None:
    store.write(record(i, 1.0) for i in range(10))
    add_label(store.database, record(0, 1.0)["evaluations"][0]["evaluation_id"], 0.0)
    assert chances(store) == {}


def test_of_a_large_pool_every_run_is_as_likely(store: ResultsStore) -> None:
    """By number, with numbers that are none of scored runs."""
    store.write(
        record(i, 1.0) if i % 12 else record(i, None, status="not_scored", reason="no_claims")
        for i in range(5_700)
    )
    assert draw(store.database, 600, random.Random(2)) == 600
    with store.database.reading() as connection:
        rows = drawn_unlabelled(connection, 1_000)
    assert len({row["evaluation_id"] for row in rows}) == 600
    assert {row["status"] for row in rows} == {"scored"}
    early = sum(row["id"] <= 2_850 for row in rows)
    assert 240 < early < 360


_FAILED, _FINE = 0.15, 0.95
_TRUTH = (1 / 3 + 2 / 3 * 0.7) * (0.1 * _FAILED + 0.9 * _FINE)


def judged_runs(rng: random.Random) -> Iterator[tuple[float, float, float, bool]]:
    """Label, score, weight and lateness of runs under `ratio(0.2) | errors()`; late ones are worse."""
    for number in range(1_800):
        failed, late = number % 10 == 0, number >= 600
        truth = float(rng.random() < (_FAILED if failed else _FINE) and not (late and rng.random() < 0.3))
        wrong = rng.random() < (0.05 if truth else 0.3)
        if failed or rng.random() < 0.2:
            yield truth, abs(truth - wrong), 1.0 if failed else 5.0, late


def simulated(seed: int, probability: float | None = None) -> tuple[float, bool]:
    """The corrected mean's error, and whether its interval has the truth.

    Fifteen runs are drawn of each forty, and later, when labellers have less time, of each hundred.
    """
    rng = random.Random(seed)
    judged: list[tuple[float, float]] = []
    labels, pool = list[Labelled](), list[tuple[float, float, float]]()
    for truth, score, weight, late in judged_runs(rng):
        judged.append((score, weight))
        pool.append((truth, score, weight))
        if len(pool) == (100 if late else 40):
            labels += [Labelled(y, f, w, probability or 15 / len(pool)) for y, f, w in rng.sample(pool, 15)]
            pool = []
    result = corrected(Sums.of_runs(judged), labels)
    assert result is not None
    return result.mean - _TRUTH, _TRUTH in result.interval


def test_the_corrected_mean_holds_however_fast_people_label() -> None:
    """Of 40 histories with fixed seeds; one probability for all labels is wrong by more than it says."""
    right = [simulated(seed) for seed in range(40)]
    assert sum(held for _, held in right) >= 36
    assert abs(sum(error for error, _ in right) / 40) < 0.015
    fixed = [simulated(seed, 0.02) for seed in range(40)]
    assert sum(error for error, _ in fixed) / 40 > 0.03


def test_people_who_cease_to_agree_raise_an_alarm(store: ResultsStore) -> None:
    rng = random.Random(3)
    store.write(record(i, 1.0, time=END - 40_000 + 66 * i) for i in range(600))
    draw(store.database, 200, rng)
    for index, each in enumerate(outstanding(store)):
        add_label(store.database, each, float(rng.random() < (0.95 if index < 80 else 0.5)))
    (alarm,) = check_store(store.database, AlarmLimits(), END).alarms
    assert alarm.kind == "agreement"
    assert "less than 80%" in alarm.text
    assert check_store(store.database, AlarmLimits(agreement=0.3), END).alarms == []
