"""Evidence about a mean that may be looked at as often as one likes (e-processes).

If runs have values x in 0..1 and weights w of at most C, and the mean is at least f, then eta = w(f - x) /
(C(1 - f)) is at least -1 and has a mean of at most 0. For 0 < l < 1 and eta >= -1,

    1 + l eta >= exp(l eta + (l + log(1 - l)) eta^2)        (Fan, Grama, Liu 2015)

so the product of the right sides over all runs, which needs nothing but sums, has a mean of at most 1 at all
times, and exceeds 1/a with probability a at most, however often it is looked at (Ville's inequality; Howard,
Ramdas, McAuliffe, Sekhon 2021; Waudby-Smith, Ramdas 2024). The mean of such products over several l is called
E here; the other side is mirrored.

Where a sampler has no largest weight, weights are capped at a fixed C when the sums are made (`Sums.of`), and
statements are then about the capped mean.
"""

from __future__ import annotations

import math
from typing import Literal

from otel_evals._internal.statistics.estimate import Interval, check_confidence, check_values
from otel_evals._internal.statistics.sums import Sums

Side = Literal["below", "above"]
"""Which side of a given mean the evidence is for."""


def _ladder(lowest: float, highest: float, steps: int) -> tuple[float, ...]:
    return tuple(lowest * (highest / lowest) ** (i / (steps - 1)) for i in range(steps))


BETS = _ladder(0.004, 0.9, 12)
"""Values of l for a question about one mean: small ones find small differences, late."""
FINE_BETS = _ladder(0.001, 0.95, 24)
"""Values of l for a question about all means at once."""

# Evidence about means nearer than this to the end of the scale is measured as if they were this far from it,
# which is valid and lets a floor of 1 be asked about.
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
    """The logarithm of E: evidence that the true mean is below, or above, the given one.

    Where it is not, the probability that E ever reaches 1/a is at most a.

    Args:
        sums: of all runs since a start that was chosen without looking at them; values in 0..1.
        mean: in 0..1.
        side: whether the true mean is suspected to be below or above `mean`.
        largest: C, what no weight exceeds, fixed beforehand: one over the lowest probability of the rule that
            is not zero, or the cap.
        inflation: the design effect of a reference period, where runs come in conversations or users; the
            probability is then approximate. At least 1.
        bets: values of l, between 0 and 1.

    Raises:
        ValueError: an argument is out of range, values are not within 0..1, or a weight exceeds `largest`.
    """
    check_settings(mean, largest, inflation)
    return _log_mean_exp(log_growths(sums, mean, side, largest=largest, inflation=inflation, bets=bets))


def log_growths(
    sums: Sums, mean: float, side: Side, *, largest: float, inflation: float, bets: tuple[float, ...]
) -> list[float]:
    """The logarithms of the products for each bet; see `log_e_value`, which is their mean's.

    Raises:
        ValueError: values are not within 0..1, or a weight exceeds `largest`.
    """
    _check_sums(sums, largest)
    return _growths(sums, mean, side, largest, inflation, bets)


def band(sums: Sums, *, largest: float, confidence: float = 0.95, inflation: float = 1.0) -> Interval:
    """An interval that holds at all times at once: the means against which neither side has enough evidence.

    Wider than a closed window's interval, 1.8 times at 20,000 runs; in return it may be watched.

    Args:
        sums: as for `log_e_value`.
        largest: as for `log_e_value`.
        confidence: how often the true mean stays inside forever.
        inflation: as for `log_e_value`.

    Raises:
        ValueError: an argument is out of range, values are not within 0..1, or a weight exceeds `largest`.
    """
    check_confidence(confidence)
    check_settings(0.5, largest, inflation)
    _check_sums(sums, largest)
    if not sums.w:
        return Interval(0.0, 1.0)
    middle = min(1.0, max(0.0, sums.wx / sums.w))
    enough = math.log(2.0 / (1.0 - confidence))

    def contradicted(mean: float, side: Side) -> bool:
        return _log_mean_exp(_growths(sums, mean, side, largest, inflation, FINE_BETS)) >= enough

    def end(outermost: float, side: Side) -> float:
        if not contradicted(outermost, side):
            return outermost
        inside, outside = middle, outermost
        for _ in range(40):
            mean = (inside + outside) / 2.0
            inside, outside = (inside, mean) if contradicted(mean, side) else (mean, outside)
        return outside

    return Interval(end(0.0, "above"), end(1.0, "below"))


def check_settings(mean: float, largest: float, inflation: float) -> None:
    """Raise ValueError unless these can be asked about."""
    if not 0.0 <= mean <= 1.0:
        raise ValueError(f"mean: must lie in 0..1, not {mean!r}")
    if not 1.0 <= largest < math.inf:
        raise ValueError(f"largest: must be at least 1 and finite, not {largest!r}")
    if not 1.0 <= inflation < math.inf:
        raise ValueError(f"inflation: must be at least 1 and finite, not {inflation!r}")


def _check_sums(sums: Sums, largest: float) -> None:
    check_values(sums)
    if sums.w_max > largest * (1.0 + 1e-9):
        raise ValueError(f"w_max: must not exceed the largest weight, {largest!r}, but is {sums.w_max!r}")


def _growths(
    sums: Sums, mean: float, side: Side, largest: float, inflation: float, bets: tuple[float, ...]
) -> list[float]:
    if side == "below":
        gain, reach = mean * sums.w - sums.wx, largest * max(1.0 - mean, _MARGIN)
    else:
        gain, reach = sums.wx - mean * sums.w, largest * max(mean, _MARGIN)
    s, v = gain / reach, inflation * sums.spread(mean) / (reach * reach)
    return [bet * s + (bet + math.log1p(-bet)) * v for bet in bets]


def _log_mean_exp(logs: list[float]) -> float:
    highest = max(logs)
    return highest + math.log(math.fsum(math.exp(log - highest) for log in logs) / len(logs))
