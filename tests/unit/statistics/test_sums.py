"""Sums merge in any order and refuse anything but numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Sums, Tally, total

# Squares of smaller values lose digits, below what a double holds.
VALUES = st.just(0.0) | st.floats(1e-100, 1)
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


def test_unknown_probabilities_and_zero_weights_count_but_do_not_weigh() -> None:
    """None stands in no sum; a weight of zero counts as a scored run."""
    sums = Sums.of(0.25, None) + Sums.of(0.5, 0.0)
    assert sums == Sums(n=1, unknown=1, x_min=0.5, x_max=0.5)
    assert sums.mean is None
    assert sums.n_effective == 0.0


@pytest.mark.parametrize("name", [each.name for each in fields(Sums)])
@pytest.mark.parametrize("bad", [*NOT_FINITE, "1", True])
def test_sums_of_anything_but_numbers_are_refused(name: str, bad: Any) -> None:
    """The message starts with the field's name."""
    good = Sums.of(0.5, 2.0)
    with pytest.raises(ValueError, match=rf"^{name}: must be a"):
        replace(good, **{name: bad})


@pytest.mark.parametrize("name", ["n", "w", "wxx", "ww", "wwxx", "w_max", "unknown"])
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
        Clusters.of_runs([("a", 0.5, bad)])


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


@pytest.mark.parametrize(
    ("wx", "w", "field"),
    [
        ([0.0], [0.0], "clusters.wx"),
        ([0.0] * CLUSTER_GROUPS, [math.inf] * CLUSTER_GROUPS, "clusters.w"),
    ],
)
def test_broken_clusters_are_refused_by_their_field(wx: list[float], w: list[float], field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: "):
        Clusters(tuple(wx), tuple(w))


def test_a_cluster_stays_in_its_group_in_every_process() -> None:
    """Pinned, since rows of processes and of yesterday are added up."""
    one_each = [Clusters.of_runs([(key, 1.0, 1.0)]) for key in ("user-1", "user-2", "")]
    assert [each.w.index(1.0) for each in one_each] == [8, 8, 20]
    assert Clusters.of_runs([("\ud800", 1.0, 1.0)]).groups == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1, 1000) | st.none()), max_size=20))
def test_many_runs_at_once_have_the_sums_of_one_after_the_other(
    runs: list[tuple[float, float | None]],
) -> None:
    at_once, one_by_one = asdict(Sums.of_runs(runs)), asdict(total(Sums.of(x, w) for x, w in runs))
    for name, number in one_by_one.items():
        assert at_once[name] == (number if number is None else pytest.approx(number, rel=1e-12)), name


@given(st.lists(st.none() | WEIGHTS, max_size=20), VALUES)
def test_tallies_with_a_value_have_the_sums_of_their_runs(weights: list[float | None], x: float) -> None:
    tally = sum((Tally.of(w) for w in weights), Tally())
    assert close(tally.valued(x), sums_of([(x, w) for w in weights]))
