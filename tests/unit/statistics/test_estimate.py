"""Intervals of closed windows: what they contain, how they grow, and what is left of them in the extremes."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.student import t_quantile
from otel_evals.statistics import Clusters, Interval, Sums, design_effect, estimate, total

VALUES = st.floats(0, 1) | st.sampled_from([0.0, 1.0])
WEIGHTS = st.floats(1, 1e3) | st.floats(1, 2.0**56) | st.just(0.0)
RUNS = st.lists(st.tuples(VALUES, WEIGHTS), min_size=1, max_size=40)


def sums_of(runs: list[tuple[float, float]]) -> Sums:
    return total(Sums.of(x, w) for x, w in runs)


def interval_of(sums: Sums, confidence: float = 0.95) -> Interval:
    interval = estimate(sums, confidence=confidence).interval
    assert interval
    return interval


@settings(deadline=None)
@given(RUNS)
def test_the_interval_contains_the_mean_within_the_scale(runs: list[tuple[float, float]]) -> None:
    """Whatever the weights, and there is one as soon as anything has weight."""
    result = estimate(sums_of(runs))
    if all(w == 0.0 for _, w in runs):
        assert result.mean is None
        assert result.interval is None
        return
    assert result.mean is not None
    assert result.interval
    assert result.mean in result.interval
    assert 0.0 <= result.interval.low <= result.interval.high <= 1.0
    assert result.mean == pytest.approx(
        math.fsum(w * x for x, w in runs) / math.fsum(w for _, w in runs), rel=1e-9, abs=1e-12
    )


@settings(deadline=None)
@given(RUNS, st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_more_confidence_takes_a_wider_interval(runs: list[tuple[float, float]], a: float, b: float) -> None:
    assume(any(w for _, w in runs))
    narrow, wide = (interval_of(sums_of(runs), confidence) for confidence in sorted((a, b)))
    assert wide.low <= narrow.low + 1e-12
    assert narrow.high <= wide.high + 1e-12


@settings(deadline=None)
@given(RUNS, st.floats(1, 1e6))
def test_only_the_ratios_of_weights_matter(runs: list[tuple[float, float]], factor: float) -> None:
    """Weights in tens are as good as weights in ones."""
    assume(any(w for _, w in runs))
    one, other = interval_of(sums_of(runs)), interval_of(sums_of([(x, w * factor) for x, w in runs]))
    # The variance of nearly equal values is lost in rounding at about the root of a double's precision.
    assert other.low == pytest.approx(one.low, abs=1e-6)
    assert other.high == pytest.approx(one.high, abs=1e-6)


@settings(deadline=None)
@given(RUNS)
def test_good_and_bad_are_treated_alike(runs: list[tuple[float, float]]) -> None:
    """Turning every score round turns the interval round."""
    assume(any(w for _, w in runs))
    one, other = interval_of(sums_of(runs)), interval_of(sums_of([(1.0 - x, w) for x, w in runs]))
    assert other.low == pytest.approx(1.0 - one.high, abs=1e-6)
    assert other.high == pytest.approx(1.0 - one.low, abs=1e-6)


@settings(deadline=None)
@given(st.integers(1, 2000), st.data())
def test_equal_weights_give_agresti_and_coull(n: int, data: st.DataObject) -> None:
    """With 0/1 scores, the textbook's centre and standard error of n + 4, with t for z."""
    passed = data.draw(st.integers(0, n))
    weight = data.draw(st.sampled_from([1.0, 20.0]))
    sums = Sums(
        n=n,
        w=weight * n,
        wx=weight * passed,
        wxx=weight * passed,
        ww=weight**2 * n,
        wwx=weight**2 * passed,
        wwxx=weight**2 * passed,
        w_max=weight,
        x_min=0.0,
        x_max=1.0,
    )
    centre = (passed + 2) / (n + 4)
    error = math.sqrt(centre * (1 - centre) / (n + 4))
    half = math.hypot(t_quantile(0.975, n + 3) * error, passed / n - centre)
    interval = interval_of(sums)
    assert interval.low == pytest.approx(max(0.0, min(passed / n, centre - half)), abs=1e-9)
    assert interval.high == pytest.approx(min(1.0, max(passed / n, centre + half)), abs=1e-9)


def test_nothing_gives_no_mean() -> None:
    """No run, only unknown probabilities, or only zero weights."""
    for sums in (Sums(), Sums.of(0.5, None), Sums.of(0.5, 0.0)):
        result = estimate(sums)
        assert (result.mean, result.interval, result.n_effective) == (None, None, 0.0)
        assert result.too_few
    assert estimate(Sums.of(0.5, None)).unknown == 1
    assert estimate(Sums(), scaled=False).interval is None


def test_one_run_says_next_to_nothing() -> None:
    result = estimate(Sums.of(1.0, 20.0))
    assert result.mean == 1.0
    assert result.interval
    assert result.interval.width > 0.5
    assert result.too_few
    assert result.dominated


def test_fifty_perfect_scores_are_not_certainty() -> None:
    """They leave a tenth of the scale, where a plain t interval leaves nothing."""
    assert interval_of(sums_of([(1.0, 10.0)] * 50)).width == pytest.approx(0.1, abs=0.02)


def test_too_few_and_dominated_say_so() -> None:
    """Below ten effective runs; one run above a twentieth of all weight."""
    assert estimate(sums_of([(1.0, 1.0)] * 9)).too_few
    assert not estimate(sums_of([(1.0, 1.0)] * 10)).too_few
    assert not estimate(sums_of([(1.0, 1.0)] * 100)).dominated
    assert estimate(sums_of([(1.0, 1.0)] * 100 + [(1.0, 10.0)])).dominated


def test_values_without_a_scale_get_a_rough_interval_from_200_effective_runs_on() -> None:
    """In the scores' own units, the offset added again."""
    runs = [(float(i % 7), 2.0) for i in range(199)]
    assert estimate(sums_of(runs), scaled=False).interval is None
    result = estimate(sums_of([*runs, (3.0, 2.0)]), scaled=False)
    assert result.approximate
    assert result.interval
    raw = result.in_units(offset=1_000.0)
    assert raw.mean == pytest.approx(1_000 + sum(x for x, _ in [*runs, (3.0, 0)]) / 200)
    assert raw.interval
    assert raw.interval.low == pytest.approx(1_000 + result.interval.low)


def test_an_offset_keeps_the_digits_of_the_variance() -> None:
    """Scores around a million: their own sums lose what sums less an offset keep."""
    scores = [1e6 + math.sin(i) for i in range(500)]
    t = t_quantile(0.975, 499)
    half = t * math.sqrt(math.fsum((s - math.fsum(scores) / 500) ** 2 for s in scores)) / 500
    result = estimate(sums_of([(s - 1e6, 1.0) for s in scores]), scaled=False).in_units(offset=1e6)
    assert result.interval
    assert result.interval.width == pytest.approx(2 * half, rel=1e-6)


def test_a_score_on_another_scale_comes_back_in_its_units() -> None:
    result = estimate(sums_of([(score / 5, 1.0) for score in (5, 4, 5, 3)])).in_units(scale=5)
    assert result.mean == pytest.approx(4.25)
    assert result.interval
    assert 4.25 in result.interval
    assert result.interval.high <= 5.0


def test_resemblance_within_conversations_widens_the_interval() -> None:
    """Ten runs of each of forty users, satisfied or not: forty observations rather than four hundred."""
    runs = [(f"user{user}", float(user % 4 > 0)) for user in range(40) for _ in range(10)]
    sums = sums_of([(x, 5.0) for _, x in runs])
    clusters = sum((Clusters.of_runs([(user, x, 5.0)]) for user, x in runs), Clusters())
    ignored, grouped = estimate(sums).interval, estimate(sums, clusters=clusters).interval
    assert ignored
    assert grouped
    assert grouped.width > 2 * ignored.width
    assert 5 < design_effect(sums, clusters) < 20
    assert estimate(sums, clusters=clusters).few_clusters
    inflated = estimate(sums, inflation=design_effect(sums, clusters)).interval
    assert inflated
    assert inflated.width == pytest.approx(grouped.width, rel=0.1)


def test_one_group_alone_tells_nothing_about_others() -> None:
    """The whole scale, or no interval where there is none."""
    runs = [(0.5, 1.0)] * 300
    clusters = sum((Clusters.of_runs([("one", x, w)]) for x, w in runs), Clusters())
    assert estimate(sums_of(runs), clusters=clusters).interval == Interval(0.0, 1.0)
    assert estimate(sums_of(runs), clusters=clusters, scaled=False).interval is None


@settings(deadline=None)
@given(RUNS)
def test_groups_never_narrow_the_interval(runs: list[tuple[float, float]]) -> None:
    assume(any(w for _, w in runs))
    sums = sums_of(runs)
    clusters = sum((Clusters.of_runs([(str(i), x, w)]) for i, (x, w) in enumerate(runs)), Clusters())
    alone, grouped = interval_of(sums), estimate(sums, clusters=clusters).interval
    assert grouped
    assert grouped.low <= alone.low + 1e-9
    assert grouped.high >= alone.high - 1e-9


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match=r"^confidence: "):
        estimate(Sums.of(0.5, 1.0), confidence=confidence)


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^x_min: values must lie in 0\.\.1, not 5.0"):
        estimate(Sums.of(5.0, 1.0))
    with pytest.raises(ValueError, match=r"^x_max: "):
        estimate(Sums.of(0.1, 1.0) + Sums.of(1.1, 1.0))
    with pytest.raises(ValueError, match=r"^clusters: "):
        estimate(Sums.of(0.5, 1.0), clusters=Clusters.of_runs([("a", 0.5, 2.0)]))
    with pytest.raises(ValueError, match=r"^inflation: "):
        estimate(Sums.of(0.5, 1.0), inflation=0.5)
