"""The sampler check: what live rules pick is as they say, and what is not is found, seldom by mistake."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.accounting.picks import PickLog
from otel_evals._internal.sampling.decide import Decider, Decision
from otel_evals.sampling import Chance
from otel_evals.statistics import PickDetector, Picks
from tests.support.result_records import START
from tests.support.runs import a_run

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


@pytest.mark.parametrize(
    "sampler",
    [
        sampling.ratio(0.5) | sampling.when(lambda run: run.output == "odd"),
        sampling.when(lambda run: run.output == "odd") | sampling.ratio(0.5),
        (sampling.ratio(0.8) & sampling.when(lambda run: run.output == "odd")) | sampling.ratio(0.3),
        sampling.ratio(0.2) | sampling.errors() | sampling.when(lambda run: run.output == "odd"),
    ],
    ids=str,
)
def test_a_correct_sampler_with_a_predicate_is_not_condemned(sampler: sampling.Sampler) -> None:
    rng, log = random.Random(3), PickLog(clock=lambda: START)
    decider = Decider([Rule(passes, sample=sampler)])
    for _ in range(4_000):
        output = "odd" if rng.random() < 0.3 else "even"
        run = replace(a_run(), trace_id=f"{rng.getrandbits(128):032x}", output=output)
        for decision in decider.decide(run, "run")[1]:
            log.note(run, decision)
    (row,) = log.changed()
    assert row.picks.runs == 4_000
    assert row.picks.z is not None
    assert abs(row.picks.z) < 3
    assert row.picks.representative


def test_a_sample_without_ordinary_runs_is_not_representative() -> None:
    """48 errors, and none of the others, which were picked with a probability of 0.001."""
    picks = sum((Picks.of(1.0, True) for _ in range(48)), Picks())
    assert picks.representative
    assert sum((Picks.of(0.001, False) for _ in range(3)), picks).representative
    lacking = sum((Picks.of(0.001, False) for _ in range(400)), picks)
    assert not lacking.representative
    assert lacking.z is not None
    assert abs(lacking.z) < 1
    assert (lacking + Picks.of(0.001, True)).representative
