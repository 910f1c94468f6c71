"""Missing scores bound the mean."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals.statistics import Sums, Tally, estimate, missing, total

RUNS = st.lists(st.tuples(st.floats(0, 1), st.floats(1, 1e4)), min_size=1, max_size=20)
WEIGHTS = st.lists(st.floats(1, 1e4), max_size=20)


def tally(weights: list[float]) -> Tally:
    return sum((Tally.of(w) for w in weights), Tally())


@settings(deadline=None)
@given(RUNS, WEIGHTS, st.data())
def test_whatever_is_missing_the_mean_of_all_lies_within_the_bounds(
    runs: list[tuple[float, float]], lost: list[float], data: st.DataObject
) -> None:
    """The mean of scored and missing together, for any scores the missing might have had."""
    scored = total(Sums.of(x, w) for x, w in runs)
    result = missing(scored, tally(lost))
    everything = scored + total(Sums.of(data.draw(st.floats(0, 1)), w) for w in lost)
    mean = estimate(everything).mean
    assert mean is not None
    assert result.bounds
    assert result.bounds.low - 1e-9 <= mean <= result.bounds.high + 1e-9
    assert result.share == pytest.approx(sum(lost) / everything.w)


def test_nothing_missing_leaves_the_interval_alone() -> None:
    sums = total(Sums.of(float(i % 10 > 0), 4.0) for i in range(100))
    result = missing(sums, Tally())
    assert result.bounds == estimate(sums).interval
    assert result.share == 0.0


def test_nothing_at_all_has_no_bounds() -> None:
    result = missing(Sums(), Tally())
    assert (result.share, result.bounds) == (None, None)


def test_everything_missing_says_nothing() -> None:
    result = missing(Sums(), tally([5.0] * 100))
    assert result.bounds
    assert (result.share, result.bounds.low, result.bounds.high) == (1.0, 0.0, 1.0)


def test_confidence_and_resemblance_apply_to_both_bounds() -> None:
    sums, lost = total(Sums.of(float(i % 10 > 0), 4.0) for i in range(100)), tally([4.0] * 5)
    found = missing(sums, lost, confidence=0.5, inflation=4.0).bounds
    low, high = (
        estimate(sums + lost.valued(value), confidence=0.5, inflation=4.0).interval for value in (0.0, 1.0)
    )
    assert found
    assert low
    assert high
    assert (found.low, found.high) == (low.low, high.high)
