"""Quantiles of Student's t distribution, for any number of degrees of freedom.

Written here because importing a numerical library takes longer than the rest of a command. The tests compare
it with scipy.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
# From here on the expansion around the normal quantile is exact to 1e-10.
_MANY = 1e4


def t_quantile(probability: float, df: float) -> float:
    """Return the value below which Student's t lies with this probability.

    Args:
        probability: at least 0.5, less than 1.
        df: degrees of freedom, at least 1; infinity gives the normal distribution.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0.5 <= probability < 1.0:
        raise ValueError(f"probability: must be at least 0.5 and less than 1, not {probability!r}")
    if not df >= 1.0:
        raise ValueError(f"df: must be at least 1, not {df!r}")
    z = _NORMAL.inv_cdf(probability)
    # At probability 0.5 the quantile is 0, which has no logarithm.
    if z == 0.0 or df >= _MANY:
        # Abramowitz and Stegun 26.7.5.
        return z + (z**3 + z) / (4.0 * df) + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * df**2)
    tail, t = 2.0 * (1.0 - probability), z
    constant = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0) - math.log(df * math.pi) / 2.0
    # Newton's method for log P(|T| > t) = log(tail), in log t, where the left side is concave.
    for _ in range(60):  # in case rounding keeps the steps above the tolerance
        density = math.exp(constant - (df + 1.0) / 2.0 * math.log1p(t * t / df))
        both = _two_sided_tail(t, df)
        step = both * math.log(both / tail) / (2.0 * t * density)
        t *= math.exp(step)
        if abs(step) < 1e-12:
            break
    return t


def _two_sided_tail(t: float, df: float) -> float:
    """Return P(|T| > t), the regularised incomplete beta function at df / (df + t^2) with df/2 and 1/2."""
    x, rest = df / (df + t * t), t * t / (df + t * t)
    # The series converges fast only on the lower half; symmetry swaps the sides.
    return (
        _incomplete_beta(x, rest, df / 2.0, 0.5)
        if x < 0.5
        else 1.0 - _incomplete_beta(rest, x, 0.5, df / 2.0)
    )


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return I_x(a, b) by its power series (DLMF 8.17.8); `rest` is 1 - x, which would lose its digits."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    term = whole = 1.0 / a
    n = 0
    while term > 1e-17 * whole:
        term *= x * (a + b + n) / (a + 1.0 + n)
        whole += term
        n += 1
    return whole * math.exp(a * math.log(x) + b * math.log(rest) - log_beta)
