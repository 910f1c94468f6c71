"""Missing scores bound the mean; the sampler check tells a wrong sampler from bad luck."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.bounds import SAMPLER_LIMIT, sampler_z
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
    result = missing(scored, tally(lost), floor=0.7)
    everything = scored + total(Sums.of(data.draw(st.floats(0, 1)), w) for w in lost)
    mean = estimate(everything).mean
    assert mean is not None
    assert result.bounds
    assert result.bounds.low - 1e-9 <= mean <= result.bounds.high + 1e-9
    assert result.share == pytest.approx(sum(lost) / everything.w)
    if result.break_even is None:
        assert not lost
    else:
        at_break_even = result.break_even * sum(lost) + scored.wx
        assert at_break_even / everything.w == pytest.approx(0.7, abs=1e-6)


def test_nothing_missing_leaves_the_interval_alone() -> None:
    sums = total(Sums.of(float(i % 10 > 0), 4.0) for i in range(100))
    result = missing(sums, Tally(), floor=0.8)
    assert result.bounds == estimate(sums).interval
    assert (result.share, result.break_even) == (0.0, None)


def test_nothing_at_all_has_no_bounds() -> None:
    result = missing(Sums(), Tally())
    assert (result.share, result.bounds, result.break_even) == (None, None, None)


def test_everything_missing_says_nothing() -> None:
    result = missing(Sums(), tally([5.0] * 100), floor=0.9)
    assert result.bounds
    assert (result.share, result.bounds.low, result.bounds.high) == (1.0, 0.0, 1.0)
    assert result.break_even is None


def test_resemblance_widens_the_bounds() -> None:
    sums = total(Sums.of(float(i % 10 > 0), 4.0) for i in range(100))
    narrow, wide = missing(sums, tally([4.0] * 5)), missing(sums, tally([4.0] * 5), inflation=4.0)
    assert narrow.bounds
    assert wide.bounds
    assert wide.bounds.width > narrow.bounds.width


def test_the_sampler_check_tells_a_wrong_probability() -> None:
    """A sampler that does what it records stays near zero; one that samples half as often does not."""
    rng = random.Random(3)
    right = tally([20.0 for _ in range(20_000) if rng.random() < 0.05])
    wrong = tally([20.0 for _ in range(20_000) if rng.random() < 0.025])
    assert abs(sampler_z(right, 20_000)) < SAMPLER_LIMIT
    assert sampler_z(wrong, 20_000) < -SAMPLER_LIMIT


def test_a_sampler_that_picks_all_must_pick_all() -> None:
    assert sampler_z(tally([1.0] * 50), 50) == 0.0
    assert sampler_z(tally([1.0] * 49), 50) == -math.inf
    assert sampler_z(Tally(), 0) == 0.0
    assert sampler_z(Tally(), 50) == -math.inf
