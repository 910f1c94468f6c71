"""A short form of benchmarks/monitoring.py: intervals hold, alarms are rarely false, falls are found in time.

Seeds are fixed, so every figure here is the same on every machine; the bounds leave capacity for what so few
repetitions deviate by.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PARTS = ("airline", "alarms", "dependence", "traffic", "versions", "windows")
TRAFFIC = os.environ.get("OTEL_EVALS_TRAFFIC")


@pytest.fixture(scope="module")
def simulation() -> Iterator[SimpleNamespace]:
    """The benchmark's simulations, by their module's name."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield SimpleNamespace(**{part: import_module(f"simulations.{part}") for part in PARTS})
    finally:
        sys.path.remove(str(BENCHMARKS))


SLOW = [
    pytest.param(values, marks=pytest.mark.slow) for values in ("rare", "mixed", "half", "beta", "constant")
]


@pytest.mark.parametrize("design", ["ratio", "errors"])
@pytest.mark.parametrize("values", ["crash", *SLOW])
def test_intervals_of_closed_windows_hold(simulation: SimpleNamespace, design: str, values: str) -> None:
    """95% of them, whatever is scored, from fifty runs on; a thousand windows leave 0.7% to chance."""
    for n in (50, 200):
        percent, width = simulation.windows.cell(design, values, n, 1_000)
        assert percent >= 94
        assert width < 0.6


@pytest.mark.slow
def test_intervals_of_many_runs_hold(simulation: SimpleNamespace) -> None:
    """A thousand scored runs a window."""
    for design in ("ratio", "errors"):
        percent, width = simulation.windows.cell(design, "mixed", 1_000, 600)
        assert percent >= 94
        assert width < 0.06


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "n", "least", "effective"),
    [("steady", 200, 94, 0.88), ("stratified", 200, 94, 0.4), ("bursty", 1_000, 92, 0.12)],
)
def test_intervals_hold_under_the_rate_limiters(
    simulation: SimpleNamespace, design: str, n: int, least: float, effective: float
) -> None:
    """The project's own limiters, with uneven weights that waste no more of a sample than they must."""
    weights = simulation.traffic.limited_weights(design, 4_000, np.random.default_rng(1))
    assert weights.sum() ** 2 / (weights**2).sum() / len(weights) > effective
    percent, _ = simulation.windows.cell(design, "mixed", n, 400, weights)
    assert percent >= least


def test_conversations_are_taken_for_what_they_are(simulation: SimpleNamespace) -> None:
    """Runs that resemble each other: intervals that ignore it fail, groups hold."""
    ignored, grouped = simulation.dependence.cluster_coverage(200, 0.5, "ratio", 300)
    assert ignored < 85
    assert grouped >= 89


@pytest.mark.parametrize(("users", "sizes", "least"), [(5, "even", 95), (15, "even", 92), (50, "uneven", 93)])
def test_intervals_hold_for_few_and_uneven_users(
    simulation: SimpleNamespace, users: int, sizes: str, least: float
) -> None:
    """Without the corrections for few clusters, 60 to 80%."""
    _, grouped = simulation.dependence.cluster_coverage(users, 0.5, "ratio", 300, sizes)
    assert grouped >= least


def test_the_known_side_of_a_sampler_is_unbiased(simulation: SimpleNamespace) -> None:
    """`ratio | when`: the mean of all sampled is far off, that of the ratio's own is not."""
    every, known, held = simulation.dependence.known_side(100)
    assert every < 0.6
    assert known == pytest.approx(0.9, abs=0.005)
    assert held >= 88


def test_bounds_hold_where_failing_runs_are_missing(simulation: SimpleNamespace) -> None:
    """Complete cases are misleading, the bounds are not."""
    share, complete, _, bounded, width = simulation.dependence.missing_coverage(0.1, 200)
    assert share == pytest.approx(0.13, abs=0.01)
    assert complete < 70
    assert bounded >= 98
    assert width < 0.25


def test_the_band_may_be_watched(simulation: SimpleNamespace) -> None:
    """Fifteen series looked at 200 times: none leaves the band, several leave the repeated interval."""
    missed, repeated, ratio = simulation.alarms.ever_missed("errors", "mixed", 15, 200)
    assert missed <= 100 / 15
    assert repeated > 3 * missed
    assert ratio < 2.5


@pytest.mark.slow
def test_false_alarms_are_rare_at_the_floor_itself(simulation: SimpleNamespace) -> None:
    """Ten series of a whole period in each design: no alarm."""
    for kind in simulation.alarms.FALLS:
        assert simulation.alarms.floor_false(kind, 10, period=1_000) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "most", "too_long"),
    [
        ("ratio, 0/1", 400, 1.6),
        ("ratio, beta", 90, 1.6),
        ("errors, others fail", 570, 1.6),
        ("errors, more errors", 260, 3.0),  # the forecast cannot know that more runs will end in an error
    ],
)
def test_a_fall_by_a_tenth_is_found_in_time(
    simulation: SimpleNamespace, kind: str, most: int, too_long: float
) -> None:
    """In the median of forty series, within 1.2 times the scored runs that the method is known for."""
    delay, foretold = simulation.alarms.floor_delay(kind, 0.1, 40)
    assert delay <= 1.2 * most
    assert 1 / 3 < foretold / delay < too_long


def test_a_design_effect_keeps_alarms_rare_where_runs_resemble_each_other(
    simulation: SimpleNamespace,
) -> None:
    """Taken for independent, most series alarm."""
    ignored, heeded = simulation.alarms.correlated_false(0.5, 10, period=500)
    assert ignored >= 50
    assert heeded <= 10


def test_a_fall_against_a_reference_is_found_and_none_is_not(simulation: SimpleNamespace) -> None:
    """A reference of 5,000 runs; three series each."""
    false, _ = simulation.alarms.reference_delay(5_000, 0.0, 3, limit=1_000)
    found, delay = simulation.alarms.reference_delay(5_000, 0.1, 3, limit=2_000)
    assert (false, found) == (0, 100)
    assert delay <= 1_000


def test_a_mean_that_wanders_is_not_taken_for_a_fall(simulation: SimpleNamespace) -> None:
    """Twenty weeks at the floor, with a memory of six hours; most alarm if it is ignored."""
    ignored, heeded = simulation.alarms.wandering_false(6, 0.05, 10, 20)
    assert ignored >= 50
    assert heeded <= 5


def test_heeding_wandering_costs_little_where_nothing_wanders(simulation: SimpleNamespace) -> None:
    ignored, heeded = simulation.alarms.wandering_delay(0.1, 10, 9)
    assert ignored <= heeded <= 1.3 * ignored


@pytest.mark.slow
def test_a_small_fall_is_found_by_drift(simulation: SimpleNamespace) -> None:
    """By 0.02, of 5,000 runs a day; and nothing where nothing changes."""
    fell, drifted, days = simulation.alarms.small_fall("at once", 0.02, 5_000, 2)
    assert drifted == 100 > fell
    assert days < 21
    assert simulation.alarms.small_fall("none", 0.0, 1_000, 2)[:2] == (0, 0)


def test_intervals_of_differences_hold(simulation: SimpleNamespace) -> None:
    """Two versions that are equal."""
    for design in ("ratio", "errors"):
        assert simulation.versions.difference_coverage(design, "mixed", 200, 300) >= 92


@pytest.mark.slow
def test_a_worse_version_is_found_live(simulation: SimpleNamespace) -> None:
    """Worse by a tenth: in time; equal: not."""
    alarms, scores = simulation.versions.comparison("ratio", 0.1, 0.5, 4_000, 5)
    assert alarms == 100
    assert scores <= 1.5 * 760
    assert simulation.versions.comparison("ratio", 0.0, 0.5, 2_000, 3)[0] == 0


@pytest.mark.skipif(not TRAFFIC, reason="OTEL_EVALS_TRAFFIC is not set")
@pytest.mark.parametrize("design", ["ratio", "tool errors", "long", "failure-linked"])
@pytest.mark.parametrize("rate", [0.1, 0.25])
def test_samples_of_real_conversations_hold(simulation: SimpleNamespace, design: str, rate: float) -> None:
    """A hundred conversations with known outcomes, under samplers that look at them."""
    found = simulation.airline.airline_conversations(Path(TRAFFIC or "") / "airline.jsonl")
    _, covered, _ = simulation.airline.airline_coverage(found, design, rate, 1_000)
    assert covered >= 95
