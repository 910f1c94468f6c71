"""Evidence about a mean that may be looked at any number of times (e-processes).

If runs have values x in 0..1 and weights w of at most C, and the mean is at least f, then eta = w(f - x) /
(C(1 - f)) is at least -1 and has a mean of at most 0. For 0 < l < 1 and eta >= -1,

    1 + l eta >= exp(l eta + (l + log(1 - l)) eta^2)        (Fan, Grama, Liu 2015)

so the product of the right sides over all runs, which needs only sums, has a mean of at most 1 at all times,
and exceeds 1/a with a probability of at most a, for any number of looks (Ville's inequality; Howard, Ramdas,
McAuliffe, Sekhon 2021; Waudby-Smith, Ramdas 2024). E is the mean of such products over several l; the other
side is mirrored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from otel_evals._internal.statistics.estimate import Interval, check_confidence, check_values
from otel_evals._internal.statistics.sums import Sums

Side = Literal["below", "above"]
"""Which side of a given mean the evidence is for."""


def _ladder(lowest: float, highest: float, steps: int) -> tuple[float, ...]:
    return tuple(lowest * (highest / lowest) ** (i / (steps - 1)) for i in range(steps))


BETS = _ladder(0.004, 0.9, 12)
"""Values of l for a question about one mean; small values find small differences, late."""
FINE_BETS = _ladder(0.001, 0.95, 24)
"""Values of l for a question about all means at once."""

# Means closer than this to the end of the scale are treated as this far from it. That is valid, and allows a
# floor of 1.
_MARGIN = 0.01


def log_e_value(
    sums: Sums,
    mean: float,
    side: Side,
    *,
    largest: float,
    inflation: float = 1.0,
    bets: tuple[float, ...] = BETS,
) -> float:
    """Return the logarithm of E: evidence that the true mean is below, or above, the given mean.

    If it is not, the probability that E ever reaches 1/a is at most a.

    Args:
        sums: of all runs since a start chosen without looking at them; values in 0..1.
        mean: in 0..1.
        side: whether the true mean is suspected to be below or above `mean`.
        largest: C, the upper limit of the weights, fixed beforehand: one over the rule's lowest probability
            above zero.
        inflation: design effect of a reference period, at least 1, if runs are grouped by conversations or
            users; the probability is then approximate.
        bets: values of l, between 0 and 1.

    Raises:
        ValueError: an argument is out of range, values are not within 0..1, or a weight exceeds `largest`.
    """
    check_settings(mean, largest, inflation)
    return _log_mean_exp(log_growths(sums, mean, side, largest=largest, inflation=inflation, bets=bets))


def log_growths(
    sums: Sums, mean: float, side: Side, *, largest: float, inflation: float, bets: tuple[float, ...]
) -> list[float]:
    """Return the logarithms of the products for each bet; see `log_e_value`.

    Raises:
        ValueError: values are not within 0..1, or a weight exceeds `largest`.
    """
    check_values(sums)
    # Tolerates rounding, since both numbers are one over a probability.
    if sums.w_max > largest * (1.0 + 1e-9):
        raise ValueError(f"w_max: must not exceed the largest weight, {largest!r}, but is {sums.w_max!r}")
    # `reach` is the most that one run can lose, which keeps eta at -1 or above.
    if side == "below":
        gain, reach = mean * sums.w - sums.wx, largest * max(1.0 - mean, _MARGIN)
    else:
        gain, reach = sums.wx - mean * sums.w, largest * max(mean, _MARGIN)
    s, v = gain / reach, inflation * sums.spread(mean) / (reach * reach)
    return [bet * s + (bet + math.log1p(-bet)) * v for bet in bets]


def band(sums: Sums, *, largest: float, confidence: float = 0.95, inflation: float = 1.0) -> Interval:
    """Return an interval that holds at all times at once: all means without enough evidence on either side.

    It is wider than a closed window's interval, 1.8 times at 20,000 runs, but may be watched.

    Args:
        sums: as for `log_e_value`.
        largest: as for `log_e_value`.
        confidence: probability that the true mean stays inside forever.
        inflation: as for `log_e_value`.

    Raises:
        ValueError: an argument is out of range, values are not within 0..1, or a weight exceeds `largest`.
    """
    check_confidence(confidence)
    check_settings(0.5, largest, inflation)
    check_values(sums)
    if not sums.w:
        return Interval(0.0, 1.0)
    # A rounded sum may leave the range of the values.
    middle = min(1.0, max(0.0, sums.wx / sums.w))
    # Each side gets half of the error.
    enough = math.log(2.0 / (1.0 - confidence))

    def contradicted(mean: float, side: Side) -> bool:
        growths = log_growths(sums, mean, side, largest=largest, inflation=inflation, bets=FINE_BETS)
        return _log_mean_exp(growths) >= enough

    low = nearest(lambda mean: contradicted(mean, "above"), middle, 0.0)
    return Interval(low, nearest(lambda mean: contradicted(mean, "below"), middle, 1.0))


def nearest(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the point nearest to `inside`, where the condition fails, at which it holds; else `outside`."""
    if not holds(outside):
        return outside
    # Forty halvings leave less than 1e-12 of the distance.
    for _ in range(40):
        middle = (inside + outside) / 2.0
        inside, outside = (inside, middle) if holds(middle) else (middle, outside)
    return outside


def check_settings(mean: float, largest: float, inflation: float) -> None:
    """Raise ValueError if a setting is out of range."""
    if not 0.0 <= mean <= 1.0:
        raise ValueError(f"mean: must lie in 0..1, not {mean!r}")
    if not 1.0 <= largest < math.inf:
        raise ValueError(f"largest: must be at least 1 and finite, not {largest!r}")
    if not 1.0 <= inflation < math.inf:
        raise ValueError(f"inflation: must be at least 1 and finite, not {inflation!r}")


def _log_mean_exp(logs: list[float]) -> float:
    # Without it, `exp` overflows for large logarithms, and all terms vanish for small ones.
    highest = max(logs)
    return highest + math.log(math.fsum(math.exp(log - highest) for log in logs) / len(logs))
