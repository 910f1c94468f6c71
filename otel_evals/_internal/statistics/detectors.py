"""Alarms of a known false-alarm rate: a mean below a floor, above a limit, or below a reference period's.

A detector keeps, for each bet l of `eprocess`, R <- (R + 1/T) * growth of the last bucket: the sum of the
e-processes started before each bucket, each with its share of one (an e-detector: Shin, Ramdas, Rinaldo
2024). Without a change, the probability of any alarm within T buckets is at most the level, for any traffic
and any number of looks. A fall is found soon, whenever it begins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from otel_evals._internal.statistics.eprocess import (
    BETS,
    Side,
    check_settings,
    log_e_value,
    log_growths,
    nearest,
)
from otel_evals._internal.statistics.sums import Sums, Tally

# Larger numbers change no decision, and their products would leave the range of a double.
_HIGHEST = 1e100
_CELLS = 32
# The grid of a reference ends at means that the reference contradicts with this evidence.
_CERTAIN = math.log(1e9)


@dataclass(frozen=True, slots=True)
class Detector:
    """Detects that a mean has fallen below a floor, or risen above a limit.

    Raises:
        ValueError: a setting is out of range.
    """

    mean: float
    """The floor, or the limit; in 0..1."""
    period: int
    """T: number of buckets within which a false alarm may occur with the probability of the level."""
    largest: float
    """Upper limit of the weights; see `eprocess.log_e_value`."""
    side: Side = "below"
    inflation: float = 1.0
    """Design effect of a reference period; see `eprocess.log_e_value`."""
    state: tuple[float, ...] = (0.0,) * len(BETS)
    """One number for each bet; nothing else is kept between buckets."""

    def __post_init__(self) -> None:
        check_settings(self.mean, self.largest, self.inflation)
        if self.period < 1:
            raise ValueError(f"period: must be at least one bucket, not {self.period!r}")
        if len(self.state) != len(BETS) or not all(0.0 <= r < math.inf for r in self.state):
            raise ValueError(f"state: must be {len(BETS)} finite numbers of at least 0")

    def updated(self, bucket: Sums, times: int = 1) -> Detector:
        """Return the detector after a bucket of runs, or several equal ones; each run is in one bucket only.

        Raises:
            ValueError: values are not within 0..1, or a weight exceeds `largest`.
        """
        growths = log_growths(
            bucket, self.mean, self.side, largest=self.largest, inflation=self.inflation, bets=BETS
        )
        # After m buckets: r e^(mg) and, of the processes started before each of them, e^g + ... + e^(mg).
        state = tuple(
            min(_HIGHEST, _grown(r, g * times) + _grown(_series(g, times) / self.period, g))
            for r, g in zip(self.state, growths, strict=True)
        )
        return replace(self, state=state)

    @property
    def e_value(self) -> float:
        """Evidence so far. Raise an alarm at level a from 1/a on; from K/a if K detectors share the level."""
        return math.fsum(self.state) / len(self.state)


@dataclass(frozen=True, slots=True)
class ReferenceDetector:
    """Detects that a mean has fallen below the mean of a reference period, which is known from a sample.

    For every mean f, there is evidence that the reference was above f, and a detector of falls below f. The
    true mean of the reference is one of these f, so the smallest product of both is evidence of a fall.
    Between two grid points, the smaller value of each factor is used.
    """

    references: tuple[float, ...]
    """Evidence that the reference is above each grid point."""
    detectors: tuple[Detector, ...]
    """One for each grid point."""

    @classmethod
    def start(
        cls, reference: Sums, *, period: int, largest: float, inflation: float = 1.0
    ) -> ReferenceDetector:
        """Return a detector before its first bucket.

        Args:
            reference: sums of the reference period, which must be over; values in 0..1.
            period: as for `Detector`.
            largest: upper limit of the weights, in the reference period and now.
            inflation: design effect of the reference period.

        Raises:
            ValueError: the reference has no weight, or a setting is out of range.
        """
        if reference.mean is None:
            raise ValueError("reference: must have scored runs of known probability")
        check_settings(0.5, largest, inflation)

        def log_evidence(mean: float, side: Side) -> float:
            return log_e_value(reference, mean, side, largest=largest, inflation=inflation)

        # Beyond these two ends, the reference contradicts a mean, so the grid needs no points there.
        low = nearest(lambda f: log_evidence(f, "above") >= _CERTAIN, reference.mean, 0.0)
        high = nearest(lambda f: log_evidence(f, "below") >= _CERTAIN, reference.mean, 1.0)
        grid = [low + (high - low) * i / _CELLS for i in range(_CELLS + 1)]
        return cls(
            references=tuple(_grown(1.0, log_evidence(f, "above")) for f in grid),
            detectors=tuple(Detector(f, period, largest, inflation=inflation) for f in grid),
        )

    def updated(self, bucket: Sums, times: int = 1) -> ReferenceDetector:
        """Return the detector after a bucket, or several equal ones; see `Detector.updated`."""
        return replace(self, detectors=tuple(each.updated(bucket, times) for each in self.detectors))

    @property
    def e_value(self) -> float:
        """Evidence so far; see `Detector.e_value`."""
        above, below = self.references, [each.e_value for each in self.detectors]
        # The reference's evidence falls with f and the detector's grows, so a cell uses opposite ends.
        inner = min(a * b for a, b in zip(above[1:], below[:-1], strict=True))
        return min(above[0], inner, below[-1])


def _series(growth: float, times: int) -> float:
    """Return 1 + e^growth + ... + e^((times - 1) growth), without overflow."""
    # Without growth, the quotient is 0 / 0.
    if times == 1 or abs(growth) < 1e-12:
        return float(times)
    # Cut at e^200, since `expm1` and `exp` raise OverflowError from e^710 on.
    return math.expm1(min(growth * times, 200.0)) / math.expm1(min(growth, 200.0))


def _grown(value: float, log_growth: float) -> float:
    return min(_HIGHEST, value * math.exp(min(log_growth, 200.0)))


def missing_indicator(scored: Sums, lost: Tally) -> Sums:
    """Return sums of 1 for a missing score and 0 for a present one, for a detector of side `above`."""
    there = Tally(n=scored.n, w=scored.w, ww=scored.ww, w_max=scored.w_max, unknown=scored.unknown)
    return lost.valued(1.0) + there.valued(0.0)


def shared_threshold(level: float, monitors: int) -> float:
    """Return the e-value at which one of several monitors raises an alarm: K / a (Bonferroni).

    The probability of any false alarm among all of them is then at most the level.

    Args:
        level: a, between 0 and 1.
        monitors: K, the number of monitors that share the level; at least 1.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: must be between 0 and 1, not {level!r}")
    if monitors < 1:
        raise ValueError(f"monitors: must be at least 1, not {monitors!r}")
    return monitors / level
