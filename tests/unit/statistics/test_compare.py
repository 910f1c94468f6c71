"""Two versions: the interval of their difference, and evidence that the second is worse."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.eprocess import FINE_BETS, log_e_value
from otel_evals.statistics import Sums, difference, estimate, log_e_value_worse, total

RUNS = st.lists(st.tuples(st.floats(0, 1), st.floats(1, 20)), min_size=1, max_size=20)


def sums_of(runs: list[tuple[float, float]]) -> Sums:
    return total(Sums.of(x, w) for x, w in runs)


def passing(passed: int, failed: int) -> Sums:
    return sums_of([(1.0, 5.0)] * passed + [(0.0, 5.0)] * failed)


@settings(deadline=None)
@given(RUNS, RUNS)
def test_the_difference_has_the_interval_of_both_sides_ends(
    a: list[tuple[float, float]], b: list[tuple[float, float]]
) -> None:
    first, second = estimate(sums_of(a)), estimate(sums_of(b))
    found = difference(first, second)
    assert found
    assert first.mean is not None
    assert second.mean is not None
    assert first.interval
    assert second.interval
    assert found.mean == second.mean - first.mean
    down = math.hypot(first.interval.high - first.mean, second.mean - second.interval.low)
    up = math.hypot(first.mean - first.interval.low, second.interval.high - second.mean)
    assert found.interval.low == pytest.approx(found.mean - down)
    assert found.interval.high == pytest.approx(found.mean + up)


def test_without_an_interval_there_is_no_difference() -> None:
    assert difference(estimate(Sums()), estimate(passing(8, 2))) is None
    with pytest.raises(ValueError, match=r"^confidence: "):
        difference(estimate(passing(8, 2), confidence=0.9), estimate(passing(8, 2)))


def test_a_worse_version_is_told_and_an_equal_or_better_one_is_not() -> None:
    good, bad = passing(900, 100), passing(750, 250)
    largest = (5.0, 5.0)
    assert log_e_value_worse(good, bad, largest=largest) > math.log(20)
    for inflation in ((4.0, 1.0), (1.0, 4.0)):
        inflated = log_e_value_worse(good, bad, largest=largest, inflation=inflation)
        assert inflated < 0.7 * log_e_value_worse(good, bad, largest=largest)
    assert log_e_value_worse(good, good, largest=largest) <= 0
    assert log_e_value_worse(bad, good, largest=largest) <= 0
    assert log_e_value_worse(good, Sums(), largest=largest) <= 0


PATTERNS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.2, 0.9, 1.0]), st.sampled_from([1.0, 20.0])), min_size=1, max_size=5
)


@settings(deadline=None)
@given(PATTERNS, PATTERNS, st.integers(1, 100), st.sampled_from([(1.0, 1.0), (4.0, 1.0), (1.0, 4.0)]))
def test_no_mean_has_less_evidence_than_was_found(
    a: list[tuple[float, float]], b: list[tuple[float, float]], times: int, inflation: tuple[float, float]
) -> None:
    """None of another grid, up to a hundredth."""
    first, second = sums_of(a * times), sums_of(b * times)
    found = log_e_value_worse(first, second, largest=(20.0, 30.0), inflation=inflation)
    before, after = inflation
    for i in range(0, 101, 4):
        above = log_e_value(first, i / 100, "above", largest=20.0, inflation=before, bets=FINE_BETS)
        below = log_e_value(second, i / 100, "below", largest=30.0, inflation=after, bets=FINE_BETS)
        assert found <= above + below + 0.01 * max(1.0, found)
