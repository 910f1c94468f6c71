"""Sums: they merge in any order, come back from plain values exactly, and refuse what is no number."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.rollup import Rollup
from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Sums, Tally, total

VALUES = st.floats(0, 1)
WEIGHTS = st.floats(1, 2.0**56)
RUNS = st.lists(st.tuples(VALUES, st.none() | st.just(0.0) | WEIGHTS), max_size=20)
NOT_FINITE = [math.nan, math.inf, -math.inf]


def sums_of(runs: Sequence[tuple[float, float | None]]) -> Sums:
    return total(Sums.of(x, w) for x, w in runs)


def close(a: Any, b: Any) -> bool:
    """Equal up to 1e-12, field by field."""
    pairs = [(getattr(a, each.name), getattr(b, each.name)) for each in fields(a)]
    return all(x == y or math.isclose(x, y, rel_tol=1e-12) for x, y in pairs)


@settings(deadline=None)
@given(RUNS, RUNS, RUNS)
def test_order_and_grouping_do_not_matter(a: Any, b: Any, c: Any) -> None:
    """Addition is commutative and associative, and the empty sums change nothing."""
    one, two, three = sums_of(a), sums_of(b), sums_of(c)
    assert one + two == two + one
    assert one + Sums() == one
    assert close((one + two) + three, one + (two + three))


@settings(deadline=None)
@given(st.lists(st.tuples(VALUES, WEIGHTS), min_size=31, max_size=60))
def test_many_parts_make_the_whole(runs: list[tuple[float, float]]) -> None:
    """31 processes' sums add up to those of all runs, and these to what the names say."""
    parts = [sums_of(runs[i::31]) for i in range(31)]
    whole = total(parts)
    assert close(whole, sums_of(runs))
    assert close(
        whole,
        Sums(
            n=len(runs),
            w=math.fsum(w for _, w in runs),
            wx=math.fsum(w * x for x, w in runs),
            wxx=math.fsum(w * x * x for x, w in runs),
            ww=math.fsum(w * w for _, w in runs),
            wwx=math.fsum(w * w * x for x, w in runs),
            wwxx=math.fsum(w * w * x * x for x, w in runs),
            w_max=max(w for _, w in runs),
            x_min=min(x for x, _ in runs),
            x_max=max(x for x, _ in runs),
        ),
    ) or any(0 < x < 1e-140 for x, _ in runs)  # whose squares are none


@settings(deadline=None)
@given(RUNS, RUNS)
def test_what_was_added_can_be_taken_back(kept: Any, replaced: Any) -> None:
    """Up to the rounding of the sums of weights; the extremes stay as bounds."""
    before, old = sums_of(kept), sums_of(replaced)
    after = (before + old) - old
    assert (after.n, after.unknown) == (before.n, before.unknown)
    for name in ("w", "wx", "wxx", "ww", "wwx", "wwxx"):
        power = name.rstrip("x")
        scale = getattr(before, power) + getattr(old, power)
        assert abs(getattr(after, name) - getattr(before, name)) <= 1e-12 * scale
    if before.n:
        assert after.w_max >= before.w_max or after.w == 0.0


def test_unknown_probabilities_and_zero_weights_count_but_do_not_weigh() -> None:
    """None stands in no sum; a weight of zero counts as a scored run."""
    sums = Sums.of(0.25, None) + Sums.of(0.5, 0.0)
    assert sums == Sums(n=1, unknown=1, x_min=0.5, x_max=0.5)
    assert sums.mean is None
    assert sums.n_effective == 0.0


def test_a_cap_cuts_weights_and_says_how_much() -> None:
    """The capped share is what was cut off among all weight."""
    sums = Sums.of(1.0, 50.0, cap=30.0) + Sums.of(0.0, 10.0, cap=30.0)
    assert (sums.w, sums.w_max, sums.capped) == (40.0, 30.0, 20.0)
    assert Tally.of(50.0, cap=30.0) == Tally(n=1, w=30.0, ww=900.0, w_max=30.0)


@pytest.mark.parametrize("name", [each.name for each in fields(Sums)])
@pytest.mark.parametrize("bad", [*NOT_FINITE, "1", True])
def test_sums_of_anything_but_numbers_are_refused(name: str, bad: Any) -> None:
    """The message starts with the field's name."""
    good = Sums.of(0.5, 2.0)
    with pytest.raises(ValueError, match=rf"^{name}: must be a"):
        replace(good, **{name: bad})
    with pytest.raises(ValueError, match=rf"^{name}: "):
        Sums.from_plain({**good.to_plain(), name: bad})


@pytest.mark.parametrize("name", ["n", "w", "wxx", "ww", "wwxx", "w_max", "capped", "unknown"])
def test_sums_that_cannot_be_negative_are_not(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: must not be below zero"):
        replace(Sums.of(0.5, 2.0), **{name: -1})


@pytest.mark.parametrize("bad", [*NOT_FINITE, 1e200, -1e200])
def test_a_run_with_a_bad_number_is_refused(bad: float) -> None:
    """Value and weight, each by its name; also what would overflow."""
    with pytest.raises(ValueError, match=r"^x: must be a finite number"):
        Sums.of(bad, 1.0)
    with pytest.raises(ValueError, match=r"^w: must be 0, or one over a probability"):
        Sums.of(0.5, bad)
    with pytest.raises(ValueError, match=r"^w: must be 0, or one over a probability"):
        Tally.of(bad)
    with pytest.raises(ValueError, match=r"^w: must be 0, or one over a probability"):
        Clusters.of("a", 0.5, bad)


@pytest.mark.parametrize("bad", [True, "0.5"])
def test_a_value_of_another_type_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^x: must be a finite number, not"):
        Sums.of(bad, 1.0)


def test_weights_below_one_are_refused() -> None:
    """One over a probability is at least one: a probability was given instead of a weight."""
    with pytest.raises(ValueError, match=r"^w: .* at least 1, not 0.05"):
        Sums.of(0.5, 0.05)


def test_a_weight_without_its_square_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^ww: "):
        Sums(n=1, w=2.0)


ROLLUPS = st.builds(
    lambda runs, others, clustered: Rollup(
        scored=sums_of(runs),
        others={key: Tally.of(w) for key, w in others.items()},
        clusters=sum((Clusters.of(f"user{x}", x, w) for x, w in runs if w), Clusters())
        if clustered
        else None,
    ),
    RUNS,
    st.dictionaries(
        st.tuples(st.sampled_from(["failed", "dropped"]), st.sampled_from(["timeout", "budget", "full"])),
        st.none() | WEIGHTS,
    ),
    st.booleans(),
)


@settings(deadline=None)
@given(ROLLUPS)
def test_rollups_come_back_from_plain_values_exactly(rollup: Rollup) -> None:
    """Through JSON, to the last bit."""
    assert Rollup.from_plain(json.loads(json.dumps(rollup.to_plain()))) == rollup


@settings(deadline=None)
@given(ROLLUPS, ROLLUPS, ROLLUPS)
def test_rollups_merge_in_any_order(a: Rollup, b: Rollup, c: Rollup) -> None:
    """Scored runs, outcomes and groups; groups vanish when a part with weight has none."""
    assert (a + b).scored == (b + a).scored
    assert (a + b).others == (b + a).others
    assert (a + b).clusters == (b + a).clusters
    assert (a + Rollup()).scored == a.scored
    left, right = (a + b) + c, a + (b + c)
    assert close(left.scored, right.scored)
    assert left.others.keys() == right.others.keys()
    assert all(close(left.others[key], right.others[key]) for key in left.others)
    assert (left.clusters is None) == (right.clusters is None)
    if left.clusters and right.clusters:
        assert left.clusters.w == pytest.approx(right.clusters.w, rel=1e-12)
        assert left.clusters.wx == pytest.approx(right.clusters.wx, rel=1e-12)
    if any(part.scored.w and part.clusters is None for part in (a, b, c)):
        assert left.clusters is None


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({"score": {}}, "score"),
        ({"scored": {"m": 1}}, "m"),
        ({"others": [{"outcome": "failed", "reason": "timeout", "w": math.nan}]}, "w"),
        ({"others": [{"outcome": "failed", "reason": "timeout", "mass": 1}]}, "mass"),
        ({"clusters": {"wx": [0.0], "w": [0.0]}}, "clusters.wx"),
        ({"clusters": {"wx": [0.0] * CLUSTER_GROUPS, "w": [math.inf] * CLUSTER_GROUPS}}, "clusters.w"),
    ],
)
def test_a_broken_row_is_refused_by_its_field(plain: dict[str, Any], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: "):
        Rollup.from_plain(plain)


def test_a_cluster_stays_in_its_group_in_every_process() -> None:
    """Pinned, since rows of processes and of yesterday are added up."""
    assert [Clusters.of(key, 1.0, 1.0).w.index(1.0) for key in ("user-1", "user-2", "")] == [31, 25, 14]
    assert Clusters.of("\ud800", 1.0, 1.0).groups == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1, 1000) | st.none()), max_size=20))
def test_many_runs_at_once_have_the_sums_of_one_after_the_other(
    runs: list[tuple[float, float | None]],
) -> None:
    at_once, one_by_one = Sums.of_runs(runs).to_plain(), total(Sums.of(x, w) for x, w in runs).to_plain()
    for name, number in one_by_one.items():
        assert at_once[name] == (number if number is None else pytest.approx(number, rel=1e-12)), name
