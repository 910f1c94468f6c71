"""Many monitors share one budget of false alarms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.multiple import e_bh
from otel_evals.statistics import shared_threshold


def test_the_threshold_grows_with_the_number_of_monitors() -> None:
    assert shared_threshold(0.05, 1) == 20
    assert shared_threshold(0.05, 400) == 8_000


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6) | st.just(math.inf), max_size=50), st.floats(0.01, 0.5))
def test_the_list_is_the_longest_that_is_allowed(e_values: list[float], level: float) -> None:
    """Checked against the definition for every length; never shorter than what Bonferroni finds."""
    listed = e_bh(e_values, level)
    ordered = sorted(e_values, reverse=True)
    allowed = [
        k for k in range(1, len(ordered) + 1) if ordered[k - 1] >= len(ordered) / (k * level) * (1 - 1e-12)
    ]
    assert len(listed) in {
        max(allowed, default=0),
        *(k for k in allowed if ordered[k - 1] * k * level < len(ordered) * (1 + 1e-9)),
    }
    assert [e_values[i] for i in listed] == ordered[: len(listed)]
    if e_values:
        assert len(listed) >= sum(e > shared_threshold(level, len(e_values)) for e in e_values)


def test_two_weak_signs_support_each_other() -> None:
    assert e_bh([25.0, 0.0, 25.0, 1.0], 0.2) == [0, 2]
    assert e_bh([12.0, 0.0, 12.0, 1.0], 0.2) == [0, 2]
    assert e_bh([12.0, 0.0, 1.0, 1.0], 0.2) == []
    assert e_bh([], 0.05) == []


def test_what_is_no_e_value_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^e_values\[1\]: "):
        e_bh([1.0, math.nan], 0.05)
    with pytest.raises(ValueError, match=r"^e_values\[0\]: "):
        e_bh([-1.0], 0.05)
    with pytest.raises(ValueError, match=r"^level: "):
        e_bh([1.0], 1.5)
    with pytest.raises(ValueError, match=r"^monitors: "):
        shared_threshold(0.05, 0)
