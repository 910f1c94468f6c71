"""A judge's mean, corrected by labels."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.student import t_quantile
from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Labelled, Sums, corrected, estimate, total

SHARES = st.floats(0, 1)
GROUPS = st.integers(0, 3) | st.integers(0, CLUSTER_GROUPS - 1)
LABELS = st.lists(
    st.builds(Labelled, SHARES, SHARES, st.floats(1, 100), st.floats(0.01, 1), GROUPS),
    min_size=1,
    max_size=20,
)


def judged_of(labelled: list[Labelled], extra: int = 100) -> Sums:
    rest = [Sums.of(float(i % 4 > 0), 2.0) for i in range(extra)]
    return total([*(Sums.of(each.judged, each.w) for each in labelled), *rest])


@settings(deadline=None)
@given(LABELS)
def test_the_interval_contains_the_mean_within_the_scale(labelled: list[Labelled]) -> None:
    result = corrected(judged_of(labelled), labelled)
    assert result
    assert result.mean in result.interval
    assert 0.0 <= result.interval.low <= result.interval.high <= 1.0
    assert 0.0 <= result.judge_weight <= 1.0
    wide = corrected(judged_of(labelled), labelled, confidence=0.99)
    assert wide
    assert wide.interval.width >= result.interval.width - 1e-12


@settings(deadline=None)
@given(LABELS, st.randoms())
def test_the_order_of_labels_does_not_matter(labelled: list[Labelled], rng: random.Random) -> None:
    shuffled = rng.sample(labelled, len(labelled))
    one, other = (corrected(judged_of(labelled), each) for each in (labelled, shuffled))
    assert one
    assert other
    assert one.mean == pytest.approx(other.mean, abs=1e-9)
    assert one.interval.width == pytest.approx(other.interval.width, abs=1e-6)


@settings(deadline=None)
@given(LABELS)
def test_each_label_stands_for_as_many_runs_as_its_weight_and_probability_say(
    labelled: list[Labelled],
) -> None:
    """A judge that always says the same changes nothing."""
    same = [replace(each, judged=0.5) for each in labelled]
    result = corrected(total(Sums.of(0.5, each.w) for each in same), same)
    weights = [each.w / each.probability for each in same]
    assert result
    mean = math.fsum(w * each.label for w, each in zip(weights, same, strict=True)) / math.fsum(weights)
    assert result.mean == pytest.approx(mean)


@settings(deadline=None)
@given(LABELS)
def test_the_judge_has_the_weight_of_the_least_variance(labelled: list[Labelled]) -> None:
    """The variance is the sum of the squared influences of the runs, with four pseudo labels."""
    judged = judged_of(labelled)
    result = corrected(judged, labelled)
    rows = [(each.w / each.probability, each.w, each.label, each.judged) for each in labelled]
    weight = math.fsum(row[0] for row in rows)
    typical = math.fsum(row[0] ** 2 for row in rows) / weight
    rows += [(typical, 0.0, y, f) for y, f in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))]
    weight += 4 * typical
    y_mean, f_mean = (math.fsum(row[0] * row[place] for row in rows) / weight for place in (2, 3))
    assert judged.mean is not None
    assert result

    def variance(b: float) -> float:
        assert judged.mean is not None
        rest = 25 * [0.0] + 75 * [1.0]
        found = math.fsum((b * 2.0 * (f - judged.mean) / judged.w) ** 2 for f in rest)
        for v, w, y, f in rows:
            own = b * w * (f - judged.mean) / judged.w
            found += (v * (y - y_mean - b * (f - f_mean)) / weight + own) ** 2
        return found

    assert variance(result.judge_weight) <= min(variance(b / 20) for b in range(21)) + 1e-12


@settings(deadline=None)
@given(LABELS, st.booleans(), st.sampled_from([0.8, 0.95]))
def test_the_interval_is_that_of_the_formulas(
    labelled: list[Labelled], grouped: bool, confidence: float
) -> None:
    """Where the runs of a group are alike, it has the variance of the groups, and heavier pseudo labels."""
    runs = [(each.group, each.judged, each.w) for each in labelled]
    runs += [(i % CLUSTER_GROUPS, float(i % 4 > 0), 2.0) for i in range(100)]
    groups = [[(f, w) for g, f, w in runs if g == group] for group in range(CLUSTER_GROUPS)]
    clusters = Clusters(
        tuple(math.fsum(w * f for f, w in each) for each in groups),
        tuple(math.fsum(w for _, w in each) for each in groups),
    )
    judged = judged_of(labelled)
    result = corrected(judged, labelled, confidence=confidence, clusters=clusters if grouped else None)
    assert judged.mean is not None
    assert result
    f_mean, b = judged.mean, result.judge_weight
    labels = [(each.w / each.probability, each.label, each.judged) for each in labelled]
    weights = [sum(v for (v, *_), x in zip(labels, labelled, strict=True) if x.group == g) for g in range(32)]
    typical = math.fsum(v * v for v, *_ in labels) / math.fsum(weights)
    n = math.fsum(weights) / typical

    def padded(times: float) -> tuple[float, float, float]:
        """The mean with the pseudo labels, its variance, and that of the groups."""
        rows = labels + [(times * typical, float(i % 2), float(i // 2)) for i in range(4)]
        weight = math.fsum(v for v, *_ in rows)
        rest = math.fsum(v * (y - b * f) for v, y, f in rows) / weight
        own = [v * (y - b * f - rest) / weight for v, y, f in rows]
        judging = [(group, b * w * (f - f_mean) / judged.w) for group, f, w in runs]
        pseudo = math.fsum(each**2 for each in own[-4:])
        both = [one + other for one, (_, other) in zip(own, judging, strict=False)][: len(labels)]
        alone = math.fsum(each**2 for each in both + [x for _, x in judging[len(labels) :]]) + pseudo
        sums = [math.fsum(x for g, x in judging if g == group) for group in range(32)]
        for each, influence in zip(labelled, own, strict=False):
            sums[each.group] += influence
        known = sum(w > 0 for w in weights)
        shares = [w / math.fsum(weights) for w in weights]
        alike = math.inf
        if known > 1:
            squares = math.fsum((r / (1 - s)) ** 2 for r, s in zip(sums, shares, strict=True))
            alike = squares * (known - 1) / known + pseudo
        return b * f_mean + rest, alone, alike

    (centre, variance, alike), df = padded(1.0), n + 3
    if grouped:
        assume(not math.isclose(alike, variance, rel_tol=1e-6))
    if grouped and alike > variance:
        centre, _, variance = padded(max(1.0, min(alike / variance, n / 4)))
        df = max(1.0, sum(w**2 for w in weights) ** 2 / sum(w**4 for w in weights) - 1)
    mean = b * f_mean + math.fsum(v * (y - b * f) for v, y, f in labels) / math.fsum(weights)
    half = math.hypot(t_quantile((1 + confidence) / 2, df) * math.sqrt(variance), mean - centre)
    mean = min(1.0, max(0.0, mean))
    assert result.mean == pytest.approx(mean, abs=1e-9)
    assert result.interval.low == pytest.approx(max(0.0, min(mean, centre - half)), abs=1e-6)
    assert result.interval.high == pytest.approx(min(1.0, max(mean, centre + half)), abs=1e-6)


def sample(agreement: float, labels: int = 300) -> tuple[Sums, list[Labelled]]:
    """3,000 judged runs of weight 10, the first ones labelled, of mean 0.9; the judge is right this often."""
    rng = random.Random(5)
    runs = [
        (truth, truth if rng.random() < agreement else 1 - truth)
        for truth in (float(rng.random() < 0.9) for _ in range(3_000))
    ]
    judged = total(Sums.of(f, 10.0) for _, f in runs)
    return judged, [Labelled(y, f, 10.0, labels / 3_000) for y, f in runs[:labels]]


def test_a_good_judge_narrows_what_the_labels_say() -> None:
    """To two thirds of it or less, and corrects the judge's own mean."""
    judged, labelled = sample(0.97)
    result = corrected(judged, labelled)
    alone = estimate(total(Sums.of(each.label, 100.0) for each in labelled)).interval
    assert result
    assert alone
    assert result.interval.width < 0.67 * alone.width
    assert 0.9 in result.interval
    assert result.judge_weight > 0.5
    assert (result.labels, result.n_effective) == (300, pytest.approx(300))


def test_a_useless_judge_is_not_relied_on() -> None:
    """The labels alone decide, and the interval is that of the labels alone."""
    judged, labelled = sample(0.5)
    result = corrected(judged, labelled)
    alone = estimate(total(Sums.of(each.label, 100.0) for each in labelled))
    assert result
    assert alone.interval
    assert result.judge_weight < 0.1
    assert result.mean == pytest.approx(alone.mean, abs=0.01)
    assert result.interval.width == pytest.approx(alone.interval.width, rel=0.05)


def test_labels_of_everything_leave_the_judge_no_say() -> None:
    """With every run labelled, the mean is the labels' own whatever the judge said."""
    labelled = [Labelled(float(i % 10 > 0), float(i % 7 > 0), 3.0) for i in range(500)]
    result = corrected(total(Sums.of(each.judged, each.w) for each in labelled), labelled)
    assert result
    assert result.mean == pytest.approx(0.9)


def test_nothing_to_correct_or_to_correct_with() -> None:
    assert corrected(Sums(), [Labelled(1.0, 1.0)]) is None
    assert corrected(judged_of([]), []) is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("label", (math.nan, 0.5)),
        ("judged", (0.5, 1.5)),
        ("w", (0.5, 0.5, 0.05)),
        ("w", (0.5, 0.5, math.inf)),
        ("probability", (0.5, 0.5, 1.0, 0.0)),
        ("probability", (0.5, 0.5, 1.0, math.nan)),
        ("group", (0.5, 0.5, 1.0, 1.0, -1)),
        ("group", (0.5, 0.5, 1.0, 1.0, CLUSTER_GROUPS)),
    ],
)
def test_a_broken_label_is_refused_by_its_field(name: str, values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        Labelled(*values)


def test_unscaled_values_and_confidences_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^x_max: "):
        corrected(judged_of([]) + Sums.of(4.0, 1.0), [Labelled(1.0, 1.0)])
    with pytest.raises(ValueError, match=r"^confidence: "):
        corrected(judged_of([]), [Labelled(1.0, 1.0)], confidence=0.0)
