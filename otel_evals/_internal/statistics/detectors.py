"""Alarms of a known false-alarm rate: a mean below a floor, above a limit, or below a reference period's.

A detector keeps, for each bet l of `eprocess`, R <- (R + 1/T) * growth of the last bucket: the sum of the
e-processes started before each bucket, each with its share of one (an e-detector: Shin, Ramdas, Rinaldo
2024). Without a change, the probability of any alarm within T buckets is at most the level, for any traffic
and any number of looks. A fall is found soon, whenever it begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from otel_evals._internal.statistics.eprocess import (
    BETS,
    Side,
    check_settings,
    log_e_value,
    log_growths,
    nearest,
)
from otel_evals._internal.statistics.sums import Picks, Sums, Tally

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

    def updated(self, bucket: Sums) -> Detector:
        """Return the detector after a bucket of runs; each run is in one bucket only.

        Raises:
            ValueError: values are not within 0..1, or a weight exceeds `largest`.
        """
        growths = log_growths(
            bucket, self.mean, self.side, largest=self.largest, inflation=self.inflation, bets=BETS
        )
        return replace(self, state=_after(self.state, growths, self.period))

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

    def updated(self, bucket: Sums) -> ReferenceDetector:
        """Return the detector after a bucket; see `Detector.updated`."""
        return replace(self, detectors=tuple(each.updated(bucket) for each in self.detectors))

    @property
    def e_value(self) -> float:
        """Evidence so far; see `Detector.e_value`."""
        above, below = self.references, [each.e_value for each in self.detectors]
        # The reference's evidence falls with f and the detector's grows, so a cell uses opposite ends.
        inner = min(a * b for a, b in zip(above[1:], below[:-1], strict=True))
        return min(above[0], inner, below[-1])


def _after(state: Sequence[float], logs: Sequence[float], period: int) -> tuple[float, ...]:
    """Return the state after a bucket, which starts another process with an equal share of 1."""
    start = 1.0 / period
    return tuple(_grown(r + start, log) for r, log in zip(state, logs, strict=True))


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


# --- the sampler check: do samplers pick the share of runs that their probabilities state? ---
#
# Every mean depends on it, since each score counts for one over its probability. Trace ids that are not
# random, or a head sampler that depends on the run, break it without any other sign. A rule picks each run
# with a probability p known beforehand; the sum of (picked - p) then stays near 0, with a variance of at most
# the sum of p (1 - p).
#
# The evidence is exp(l S - (e^l - 1 - l) V) for S = sum (picked - p), V = sum p (1 - p), and the same for -S:
# a supermartingale by Bennett's inequality, since no term exceeds 1. It may be looked at at any time.

# From 0.002 to about 2: small bets find small errors late, large bets find large errors soon.
_PICK_BETS = tuple(0.002 * 2.0**i for i in range(11))


@dataclass(frozen=True, slots=True)
class PickDetector:
    """Detects that a rule has begun to pick too many or too few runs; see the module."""

    period: int
    """Number of buckets within which a false alarm may occur with the probability of the level."""
    state: tuple[float, ...] = (0.0,) * (2 * len(_PICK_BETS))
    """One number for each bet, on too many and on too few."""

    def updated(self, bucket: Picks) -> PickDetector:
        """Return the detector after one more bucket."""
        excess = bucket.picked - bucket.expected
        logs = [
            bet * side - (math.expm1(bet) - bet) * bucket.variance
            for side in (excess, -excess)
            for bet in _PICK_BETS
        ]
        return replace(self, state=_after(self.state, logs, self.period))

    @property
    def e_value(self) -> float:
        """Evidence so far. Raise an alarm at level a from 1/a on."""
        return math.fsum(self.state) / len(self.state)
