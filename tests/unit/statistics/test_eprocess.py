"""E-processes: evidence is bounded where there is nothing to find, and grows where there is."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.eprocess import BETS, FINE_BETS, log_e_value
from otel_evals.statistics import Sums, band, total

LARGEST = 20.0
RUNS = st.lists(st.tuples(st.floats(0, 1), st.floats(1, LARGEST)), min_size=1, max_size=30)


def sums_of(runs: list[tuple[float, float]]) -> Sums:
    return total(Sums.of(x, w) for x, w in runs)


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(1, LARGEST), st.floats(0.01, 0.99))
def test_no_run_gains_more_than_its_bet(x: float, w: float, mean: float) -> None:
    """exp(l eta + (l + log(1 - l)) eta^2) <= 1 + l eta, on both sides: what the guarantee rests on."""
    for side, eta in (
        ("below", w * (mean - x) / (LARGEST * (1 - mean))),
        ("above", w * (x - mean) / (LARGEST * mean)),
    ):
        for bet in BETS:
            grown = log_e_value(Sums.of(x, w), mean, side, largest=LARGEST, bets=(bet,))  # type: ignore[arg-type]
            assert math.exp(grown) <= 1 + bet * eta + 1e-9


@pytest.mark.parametrize(("rate", "largest"), [(1.0, 1.0), (0.2, 5.0)])
def test_evidence_is_one_at_most_on_average(rate: float, largest: float) -> None:
    """Over all outcomes of six sampled runs at the given mean: counted, not simulated."""
    mean, expected = 0.8, 0.0
    for picked in itertools.product((None, 0.0, 1.0), repeat=6):
        chances = [1 - rate if x is None else rate * (mean if x else 1 - mean) for x in picked]
        sums = total(Sums.of(x, largest) for x in picked if x is not None)
        expected += math.prod(chances) * math.exp(log_e_value(sums, mean, "below", largest=largest))
    assert 0.5 < expected <= 1.0 + 1e-9


def test_evidence_grows_with_the_fall_and_only_on_its_side() -> None:
    runs = [(float(i % 5 > 0), 10.0) for i in range(2_000)]
    below = [log_e_value(sums_of(runs), mean, "below", largest=10.0) for mean in (0.7, 0.8, 0.85, 0.9)]
    assert below == sorted(below)
    assert below[1] < 0 < math.log(20) < below[3]
    assert log_e_value(sums_of(runs), 0.9, "above", largest=10.0) < 0


def test_a_design_effect_weakens_the_evidence() -> None:
    sums = sums_of([(float(i % 5 > 0), 10.0) for i in range(2_000)])
    alone = log_e_value(sums, 0.9, "below", largest=10.0)
    assert log_e_value(sums, 0.9, "below", largest=10.0, inflation=4.0) < alone


def test_without_runs_any_mean_is_in_the_band() -> None:
    assert band(Sums(), largest=1.0).width == 1.0


@settings(deadline=None)
@given(RUNS)
def test_the_band_contains_the_mean_and_widens_with_confidence(runs: list[tuple[float, float]]) -> None:
    sums = sums_of(runs)
    narrow, wide = (band(sums, largest=LARGEST, confidence=c) for c in (0.8, 0.99))
    assert sums.mean is not None
    assert 0.0 <= wide.low <= narrow.low <= sums.mean + 1e-9
    assert sums.mean - 1e-9 <= narrow.high <= wide.high <= 1.0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.9, 1.0]), st.sampled_from([1.0, 20.0])), min_size=1, max_size=5
    ),
    st.integers(50, 2_000),
)
def test_outside_the_band_every_mean_is_contradicted_and_inside_none(
    pattern: list[tuple[float, float]], times: int
) -> None:
    """The ends are found by halving: nothing was passed over."""
    one = sums_of(pattern)
    names = ("n", "w", "wx", "wxx", "ww", "wwx", "wwxx")
    sums = Sums(
        **{name: getattr(one, name) * times for name in names},
        w_max=one.w_max,
        x_min=one.x_min,
        x_max=one.x_max,
    )
    found, enough = band(sums, largest=LARGEST), math.log(2 / 0.05)
    for mean in (i / 50 for i in range(51)):
        evidence = max(
            log_e_value(sums, mean, "below", largest=LARGEST, bets=FINE_BETS),
            log_e_value(sums, mean, "above", largest=LARGEST, bets=FINE_BETS),
        )
        if mean in found:
            assert evidence <= enough + 1e-6
        else:
            assert evidence >= enough - 1e-6


def test_what_does_not_fit_is_refused_by_name() -> None:
    good = Sums.of(0.5, 2.0)
    with pytest.raises(ValueError, match=r"^w_max: must not exceed the largest weight, 1.0, but is 2.0"):
        log_e_value(good, 0.9, "below", largest=1.0)
    with pytest.raises(ValueError, match=r"^w_max: "):
        band(good, largest=1.0)
    with pytest.raises(ValueError, match=r"^x_min: "):
        log_e_value(Sums.of(3.0, 2.0), 0.9, "below", largest=2.0)
    with pytest.raises(ValueError, match=r"^confidence: "):
        band(good, largest=2.0, confidence=1.0)
    for name, arguments in {
        "mean": {"mean": 1.5},
        "largest": {"largest": math.inf},
        "inflation": {"inflation": 0.0},
    }.items():
        with pytest.raises(ValueError, match=rf"^{name}: "):
            log_e_value(good, **{"mean": 0.9, "side": "below", "largest": 2.0, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_the_ends_of_the_scale_can_be_asked_about(mean: float) -> None:
    """A floor of 1 is broken by failures, a limit of 0 by anything above it."""
    runs = sums_of([(0.5, 1.0)] * 100)
    side = "below" if mean else "above"
    assert log_e_value(runs, mean, side, largest=1.0) > math.log(20)  # type: ignore[arg-type]
    assert log_e_value(sums_of([(mean, 1.0)] * 100), mean, side, largest=1.0) <= 1e-9  # type: ignore[arg-type]
