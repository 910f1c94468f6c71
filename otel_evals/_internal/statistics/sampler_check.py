"""The sampler check: whether samplers pick the share of runs that their probabilities say.

Every mean rests on it: each score counts for one over its probability. Trace ids that are not random, or a
head sampler that looks at what it should not, break it without any other sign. Each run that a rule was asked
about is picked or not, with a probability p known before: the sum of (picked - p) then stays near 0, with a
variance of at most the sum of p (1 - p).

The evidence is exp(l S - (e^l - 1 - l) V) for S = sum (picked - p), V = sum p (1 - p), and the same for -S: a
supermartingale by Bennett's inequality, since no term exceeds 1; it may be looked at at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_BETS = tuple(0.002 * 2.0**i for i in range(11))
_HIGHEST = 1e100


@dataclass(frozen=True, slots=True)
class Picks:
    """How many runs a rule was asked about, and how many it picked; sums that add up."""

    runs: int = 0
    picked: int = 0
    expected: float = 0.0
    """Sum of the probabilities."""
    variance: float = 0.0
    """Sum of p (1 - p)."""

    def __add__(self, other: Picks) -> Picks:
        return Picks(
            self.runs + other.runs,
            self.picked + other.picked,
            self.expected + other.expected,
            self.variance + other.variance,
        )

    @property
    def z(self) -> float | None:
        """By how many standard deviations too many were picked; None where nothing was left to chance.

        For a look at one time; beyond 4 on either side it is hardly chance.
        """
        return (self.picked - self.expected) / math.sqrt(self.variance) if self.variance > 0.0 else None


@dataclass(frozen=True, slots=True)
class PickDetector:
    """Finds that too many or too few runs are picked, since some time; see `detectors`."""

    period: int
    """In how many buckets any false alarm may occur with the probability of the level."""
    state: tuple[float, ...] = (0.0,) * (2 * len(_BETS))
    """One number for each bet, on too many and on too few."""

    def updated(self, bucket: Picks) -> PickDetector:
        """The detector after one more bucket."""
        excess = bucket.picked - bucket.expected
        logs = [
            bet * side - (math.expm1(bet) - bet) * bucket.variance
            for side in (excess, -excess)
            for bet in _BETS
        ]
        start = 1.0 / self.period
        pairs = zip(self.state, logs, strict=True)
        grown = (min(_HIGHEST, (r + start) * math.exp(min(log, 200.0))) for r, log in pairs)
        return replace(self, state=tuple(grown))

    @property
    def e_value(self) -> float:
        """Evidence so far: an alarm at level a is due from 1/a on."""
        return math.fsum(self.state) / len(self.state)
