"""Alarms whose false-alarm rate is known: a mean below a floor, above a limit, or below a reference period's.

A detector keeps, for each bet l of `eprocess`, R <- (R + 1/T) * growth of the bucket that came last: the sum
of the e-processes started before each bucket, each with its share of one (an e-detector: Shin, Ramdas,
Rinaldo 2024). While there is nothing to find, the probability of any alarm within T buckets is at most the
level, whatever the traffic does and however often it is looked at. A fall is found soon whenever it begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from otel_evals._internal.statistics.eprocess import BETS, Side, check_settings, log_e_value, log_growths
from otel_evals._internal.statistics.sums import Sums, Tally

# Larger numbers change no decision, and their products would leave the range of a double.
_HIGHEST = 1e100
_CELLS = 32
_CERTAIN = math.log(1e9)


@dataclass(frozen=True, slots=True)
class Detector:
    """Finds that a mean is below a floor (or above a limit), since some time.

    Raises:
        ValueError: a setting is out of range.
    """

    mean: float
    """The floor, or the limit; in 0..1."""
    period: int
    """T: in how many buckets any false alarm may occur with the probability of the level."""
    largest: float
    """What no weight exceeds; see `eprocess.log_e_value`."""
    side: Side = "below"
    inflation: float = 1.0
    """Design effect of a reference period; see `eprocess.log_e_value`."""
    state: tuple[float, ...] = (0.0,) * len(BETS)
    """One number for each bet; all there is to keep between buckets."""

    def __post_init__(self) -> None:
        check_settings(self.mean, self.largest, self.inflation)
        if self.period < 1:
            raise ValueError(f"period: must be at least one bucket, not {self.period!r}")
        if len(self.state) != len(BETS) or not all(0.0 <= r < math.inf for r in self.state):
            raise ValueError(f"state: must be {len(BETS)} finite numbers of at least 0")

    def updated(self, bucket: Sums) -> Detector:
        """The detector after one more bucket of runs, each of which is in one bucket only.

        Raises:
            ValueError: values are not within 0..1, or a weight exceeds `largest`.
        """
        growths = log_growths(
            bucket, self.mean, self.side, largest=self.largest, inflation=self.inflation, bets=BETS
        )
        start = 1.0 / self.period
        state = tuple(_grown(r + start, growth) for r, growth in zip(self.state, growths, strict=True))
        return replace(self, state=state)

    @property
    def e_value(self) -> float:
        """Evidence so far: an alarm at level a is due from 1/a on; from K/a where K detectors share it."""
        return math.fsum(self.state) / len(self.state)


@dataclass(frozen=True, slots=True)
class ReferenceDetector:
    """Finds that a mean has fallen below that of a reference period, of which only a sample is known.

    For every mean f there is evidence that the reference was above f, and a detector of falls below f. The
    reference's true mean is one of them, so the least product of both is evidence of a fall. Between two grid
    points each factor is taken where it is smaller.
    """

    references: tuple[float, ...]
    """Evidence that the reference is above each grid point."""
    detectors: tuple[Detector, ...]
    """One for each grid point."""

    @classmethod
    def start(
        cls, reference: Sums, *, period: int, largest: float, inflation: float = 1.0
    ) -> ReferenceDetector:
        """A detector that has seen no bucket yet.

        Args:
            reference: sums of the reference period, which must be over; values in 0..1.
            period: as for `Detector`.
            largest: what no weight exceeds, in the reference period and now.
            inflation: design effect of the reference period.

        Raises:
            ValueError: the reference has no weight, or a setting is out of range.
        """
        if reference.mean is None:
            raise ValueError("reference: must have scored runs of known probability")
        check_settings(0.5, largest, inflation)

        def log_evidence(mean: float, side: Side) -> float:
            return log_e_value(reference, mean, side, largest=largest, inflation=inflation)

        low = _where(lambda f: log_evidence(f, "above"), reference.mean, 0.0)
        high = _where(lambda f: log_evidence(f, "below"), reference.mean, 1.0)
        grid = [low + (high - low) * i / _CELLS for i in range(_CELLS + 1)]
        return cls(
            references=tuple(_grown(1.0, log_evidence(f, "above")) for f in grid),
            detectors=tuple(Detector(f, period, largest, inflation=inflation) for f in grid),
        )

    def updated(self, bucket: Sums) -> ReferenceDetector:
        """The detector after one more bucket; see `Detector.updated`."""
        return replace(self, detectors=tuple(each.updated(bucket) for each in self.detectors))

    @property
    def e_value(self) -> float:
        """Evidence so far; see `Detector.e_value`."""
        above, below = self.references, [each.e_value for each in self.detectors]
        inner = min(a * b for a, b in zip(above[1:], below[:-1], strict=True))
        return min(above[0], inner, below[-1])


def _grown(value: float, log_growth: float) -> float:
    return min(_HIGHEST, value * math.exp(min(log_growth, 200.0)))


def _where(log_evidence: Callable[[float], float], inside: float, outside: float) -> float:
    """Where, between a point without evidence and an end of the scale, there is plenty; else that end."""
    if log_evidence(outside) < _CERTAIN:
        return outside
    for _ in range(40):
        middle = (inside + outside) / 2.0
        inside, outside = (inside, middle) if log_evidence(middle) >= _CERTAIN else (middle, outside)
    return outside


def missing_indicator(scored: Sums, lost: Tally) -> Sums:
    """Sums of 1 for each missing score and 0 for each that is there, for a detector of side `above`."""
    there = Tally(n=scored.n, w=scored.w, ww=scored.ww, w_max=scored.w_max, unknown=scored.unknown)
    return lost.valued(1.0) + there.valued(0.0)


def expected_delay(sums: Sums, fall: float, *, period: int, level: float = 0.05) -> float | None:
    """About how many scored runs it takes until a fall below the floor raises an alarm.

    2.6 n V ln(T / a) / (W d)^2, with V = sum w^2 ((x - m)^2 + d^2): the usual variance, and what the fall
    adds to it. The factor is fitted to simulations of falls by 0.02 to 0.1 from the floor: within 1.6 of the
    median delay in most. Where runs of large weight begin to fail, V grows, and it takes up to 2.7 times as
    long.

    Args:
        sums: of a usual period.
        fall: d, in 0..1; above 0.
        period: T, as for `Detector`.
        level: a, the probability of a false alarm in a period.

    Returns:
        None where the sums have no weight.

    Raises:
        ValueError: an argument is out of range.
    """
    if not 0.0 < fall <= 1.0:
        raise ValueError(f"fall: must be above 0 and at most 1, not {fall!r}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: must be between 0 and 1, not {level!r}")
    if period < 1:
        raise ValueError(f"period: must be at least one bucket, not {period!r}")
    mean = sums.mean
    if mean is None:
        return None
    variance = sums.spread(mean) + fall * fall * sums.ww
    return 2.6 * sums.n * variance * math.log(period / level) / (sums.w * fall) ** 2
