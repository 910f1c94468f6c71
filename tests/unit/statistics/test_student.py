"""Quantiles of Student's t, compared with scipy's."""

from __future__ import annotations

import math

import pytest

from otel_evals._internal.statistics.student import t_quantile

DEGREES = [1, 1.7, 2, 3.5, 4, 9, 31, 53.3, 199.9, 999, 1000, 12_345.6, 1e6, math.inf]


@pytest.mark.parametrize("probability", [0.5, 0.51, 0.75, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_quantiles_are_those_of_scipy(probability: float) -> None:
    """For whole and broken degrees of freedom, on both sides of where the expansion takes over."""
    from scipy import stats  # takes seconds to import

    for df in DEGREES:
        assert t_quantile(probability, df) == pytest.approx(
            stats.t.ppf(probability, df), rel=1e-10, abs=1e-15
        )


@pytest.mark.parametrize(
    ("probability", "df", "field"),
    [
        (0.4, 5, "probability"),
        (1.0, 5, "probability"),
        (math.nan, 5, "probability"),
        (0.9, 0.5, "df"),
        (0.9, math.nan, "df"),
    ],
)
def test_arguments_out_of_range_are_named(probability: float, df: float, field: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field}: "):
        t_quantile(probability, df)
