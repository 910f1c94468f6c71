"""Quantiles of Student's t distribution, for any number of degrees of freedom.

Written here because importing a numerical library takes longer than the rest of a command. The tests compare
it with scipy.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_NORMAL = NormalDist()
# From here on the expansion around the normal quantile is exact to 1e-11 at 95% and 99% confidence.
_MANY = 1e3


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
    # Abramowitz and Stegun 26.7.5.
    start = (
        z
        + (z**3 + z) / (4.0 * df)
        + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * df**2)
        + (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * df**3)
    )
    # At probability 0.5 the quantile is 0, which has no logarithm to start `_solve` from.
    if z == 0.0 or df >= _MANY:
        return start
    return _solve(2.0 * (1.0 - probability), df, start)


def _solve(tail: float, df: float, start: float) -> float:
    """Newton's method for log P(|T| > t) = log(tail), in log t, where the left side is concave."""
    u = math.log(start)
    # Bounds the steps, in case rounding keeps them above the tolerance.
    for _ in range(60):
        t = math.exp(u)
        both = _two_sided_tail(t, df)
        step = both * math.log(both / tail) / (2.0 * t * _density(t, df))
        u += step
        if abs(step) < 1e-12:
            break
    return math.exp(u)


def _density(t: float, df: float) -> float:
    constant = math.lgamma((df + 1.0) / 2.0) - math.lgamma(df / 2.0) - math.log(df * math.pi) / 2.0
    return math.exp(constant - (df + 1.0) / 2.0 * math.log1p(t * t / df))


def _two_sided_tail(t: float, df: float) -> float:
    """Return P(|T| > t), the regularised incomplete beta function at df / (df + t^2) with df/2 and 1/2."""
    a, x = df / 2.0, df / (df + t * t)
    # The continued fraction converges fast only below this point; above it, symmetry swaps the sides.
    if x < (a + 1.0) / (a + 2.5):
        return _incomplete_beta(x, t * t / (df + t * t), a, 0.5)
    return 1.0 - _incomplete_beta(t * t / (df + t * t), x, 0.5, a)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """Return I_x(a, b) by its continued fraction (DLMF 8.17.22) and Lentz's method; `rest` is 1 - x."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    # `rest` has its own argument, since 1 - x would lose its digits for x near 1.
    front = math.exp(a * math.log(x) + b * math.log(rest) - log_beta) / a
    value = ratio = 1.0
    inverse = 0.0
    for m in range(10_000):
        for term in _terms(m, x, a, b):
            inverse = 1.0 / (1.0 + term * inverse)
            ratio = 1.0 + term / ratio
            value *= inverse * ratio
        if abs(inverse * ratio - 1.0) < 1e-16:
            break
    return front / value


def _terms(m: int, x: float, a: float, b: float) -> tuple[float, float]:
    """Return the fraction's coefficients d_2m+1 and d_2m+2."""
    odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
    even = (m + 1.0) * (b - m - 1.0) * x / ((a + 2.0 * m + 1.0) * (a + 2.0 * m + 2.0))
    return odd, even
