"""Intervals of closed windows: what they contain, how they grow, and what is left of them in the extremes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.student import t_quantile
from otel_evals.statistics import (
    CLUSTER_GROUPS,
    Clusters,
    Interval,
    Sums,
    design_effect,
    estimate,
    total,
    wander,
)

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


Grouped = list[tuple[int, float, float]]
"""Group, value and weight of each run."""
GROUPED = st.lists(
    st.tuples(st.integers(0, 3) | st.integers(0, CLUSTER_GROUPS - 1), VALUES, st.floats(1, 50)),
    min_size=1,
    max_size=60,
)


def clusters_of(runs: Grouped) -> Clusters:
    sums = [[w * x for g, x, w in runs if g == group] for group in range(CLUSTER_GROUPS)]
    weights = [[w for g, _, w in runs if g == group] for group in range(CLUSTER_GROUPS)]
    return Clusters(tuple(map(math.fsum, sums)), tuple(map(math.fsum, weights)))


def own_variance(runs: Grouped, centre: float) -> float:
    return math.fsum((w * (x - centre)) ** 2 for _, x, w in runs)


def jackknifed(rests: Mapping[int, float], weights: Mapping[int, float]) -> float:
    """(G - 1) / G * sum (r / (1 - s))^2, for each group's sum r of w (x - centre) and its share s."""
    whole, groups = math.fsum(weights.values()), len(weights)
    return math.fsum((rests[g] / (1 - weights[g] / whole)) ** 2 for g in weights) * (groups - 1) / groups


def group_variance(runs: Grouped, centre: float) -> float:
    rests, weights = defaultdict[int, float](float), defaultdict[int, float](float)
    for group, x, w in runs:
        rests[group] += w * (x - centre)
        weights[group] += w
    return jackknifed(rests, weights)


def satterthwaite(weights: list[float]) -> float:
    return max(1.0, sum(w**2 for w in weights) ** 2 / sum(w**4 for w in weights) - 1)


@settings(deadline=None)
@given(GROUPED, st.sampled_from([0.8, 0.95]), st.sampled_from([1.0, 3.0]))
def test_the_interval_is_that_of_the_formulas(runs: Grouped, confidence: float, inflation: float) -> None:
    """Agresti and Coull's with weights; the pseudo observations weigh more where groups are alike."""
    sums, clusters = sums_of([(x, w) for _, x, w in runs]), clusters_of(runs)
    whole, typical = math.fsum(w for *_, w in runs), sums.ww / sums.w
    mean = math.fsum(w * x for _, x, w in runs) / whole
    own = own_variance(runs, mean)

    def interval(effect: float, df: float) -> tuple[float, float]:
        k = min(typical * effect, max(typical, whole / 4))
        centre = (mean * whole + 2 * k) / (whole + 4 * k)
        variance = effect * own_variance(runs, centre) + 2 * k**2 * (centre**2 + (1 - centre) ** 2)
        half = math.hypot(
            t_quantile((1 + confidence) / 2, df) * math.sqrt(variance) / (whole + 4 * k), mean - centre
        )
        return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))

    low, high = interval(inflation, whole / typical + 3)
    found = estimate(sums, confidence=confidence, inflation=inflation).interval
    assert found
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)
    grouped = [w for w in clusters.w if w]
    assume(len(grouped) > 1 and own > 1e-8 * sums.ww)
    effect = min(group_variance(runs, mean) / own, sums.n_effective)
    found = estimate(sums, confidence=confidence, clusters=clusters, inflation=inflation).interval
    if effect > inflation + 1e-9:
        wide = interval(effect, min(whole / typical + 3, clusters.freedom_at(mean)))
        low, high = min(low, wide[0]), max(high, wide[1])
    assert found
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


@pytest.mark.parametrize(("users", "low"), [(1, 0.025), (5, 0.478), (50, 0.929), (500, 0.9927)])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_perfect_scores_have_the_exact_bound_for_the_number_of_users(
    users: int, low: float, value: float
) -> None:
    """They say nothing about the likeness of a user's runs; 0.718 for 50 users before."""
    runs = [(f"user {i % users}", value, 1.0) for i in range(users * 18)]
    found = estimate(sums_of([(x, w) for _, x, w in runs]), clusters=Clusters.of_runs(runs))
    assert found.interval
    ends = (found.interval.low, found.interval.high)
    assert (ends if value else (1 - ends[1], 1 - ends[0])) == pytest.approx((low, 1.0), abs=1e-3)
    assert found.clusters == users


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(1, 30), st.lists(st.booleans(), min_size=40, max_size=40))
def test_no_interval_is_wider_than_its_number_of_users_justifies(
    users: int, each: int, passes: list[bool]
) -> None:
    """Not wider than if every user had one run."""
    runs = [(f"user {i}", float(passes[i]), 1.0) for i in range(users) for _ in range(each)]
    one = [(x, w) for _, x, w in runs[::each]]
    found = estimate(sums_of([(x, w) for _, x, w in runs]), clusters=Clusters.of_runs(runs)).interval
    single = estimate(sums_of(one)).interval
    assert found
    assert single
    assert found.width <= single.width + 1e-6


@settings(deadline=None)
@given(GROUPED)
def test_few_clusters_are_named_where_their_runs_are_alike_beyond_chance(runs: Grouped) -> None:
    sums, clusters = sums_of([(x, w) for _, x, w in runs]), clusters_of(runs)
    assert clusters.groups == len({group for group, *_ in runs})
    assume(clusters.groups > 1)
    assert sums.mean is not None
    own = own_variance(runs, sums.mean)
    assume(own > 1e-8 * sums.ww)  # less is lost in rounding
    effect = max(1.0, min(group_variance(runs, sums.mean) / own, sums.n_effective))
    assert design_effect(sums, clusters) == pytest.approx(effect, rel=1e-6)
    shares = math.fsum((w / sums.w) ** 2 for w in clusters.w) - 1 / CLUSTER_GROUPS
    effective = (1 - 1 / CLUSTER_GROUPS) / shares if shares > 0 else math.inf
    assert clusters.effective == pytest.approx(effective)
    bound = 1 + 2.5 * math.sqrt(2 / satterthwaite([w for w in clusters.w if w]))
    assume(abs(effect - bound) > 1e-6 and abs(effective - 50) > 1e-6)
    assert estimate(sums, clusters=clusters).few_clusters == (effective < 50 and effect > bound)


def test_what_does_not_wander_has_no_factor() -> None:
    good, bad = sums_of([(1.0, 1.0)] * 9 + [(0.0, 1.0)]), sums_of([(1.0, 1.0)] * 5 + [(0.0, 1.0)] * 5)
    assert wander({}) == wander({3: sums_of([(1.0, 1.0)])}) == wander({3: Sums()}) == 1.0
    assert wander(dict.fromkeys(range(48), good)) == 1.0
    assert wander({hour: good if hour < 20 else bad for hour in range(48)}) == 1.0, "one lasting fall"
    assert wander({hour: good if hour % 12 < 6 else bad for hour in range(48)}) > 2.0


def test_nothing_gives_no_mean() -> None:
    """No run, only unknown probabilities, or only zero weights."""
    for sums in (Sums(), Sums.of(0.5, None), Sums.of(0.5, 0.0)):
        result = estimate(sums)
        assert (result.mean, result.interval, result.n_effective) == (None, None, 0.0)
        assert result.too_few
    assert estimate(Sums.of(0.5, None)).unknown == 1
    assert estimate(Sums(), scaled=False).interval is None


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


def test_values_without_a_scale_have_the_variance_of_clusters_where_it_is_larger() -> None:
    """Twenty conversations of twenty equal scores are twenty observations, not four hundred."""
    runs = [(f"conversation {i % 20}", float(i % 20), 1.0) for i in range(400)]
    sums, clusters = sums_of([(x, w) for _, x, w in runs]), Clusters.of_runs(runs)
    mean, plain = estimate(sums, scaled=False).mean, estimate(sums, scaled=False).interval
    grouped = estimate(sums, scaled=False, clusters=clusters).interval
    assert mean is not None
    assert plain
    assert grouped
    half = t_quantile(0.975, clusters.freedom) * math.sqrt(clusters.spread(mean)) / sums.w
    assert grouped.high - mean == pytest.approx(half)
    assert grouped.high - mean > 2 * (plain.high - mean)
    inflated = estimate(sums, scaled=False, inflation=4.0).interval
    assert inflated
    assert inflated.high - mean == pytest.approx(2 * (plain.high - mean))


@pytest.mark.parametrize(("groups", "known"), [(1, False), (2, True)])
def test_values_without_a_scale_need_two_groups(groups: int, known: bool) -> None:
    share = tuple(400.0 / groups if i < groups else 0.0 for i in range(32))
    clusters = Clusters(tuple(w * i for i, w in enumerate(share)), share)
    sums = sums_of([(float(i % 2), 1.0) for i in range(400)])
    assert (estimate(sums, scaled=False, clusters=clusters).interval is not None) == known


def test_a_score_on_another_scale_comes_back_in_its_units() -> None:
    result = estimate(sums_of([(score / 5, 1.0) for score in (5, 4, 5, 3)])).in_units(scale=5)
    assert result.mean == pytest.approx(4.25)
    assert result.interval
    assert 4.25 in result.interval
    assert result.interval.high <= 5.0


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
