"""The sampler check: do samplers pick the share of runs that their probabilities state?

Every mean depends on it, since each score counts for one over its probability. Trace ids that are not random,
or a head sampler that depends on the run, break it without any other sign. A rule picks each run with a
probability p known beforehand; the sum of (picked - p) then stays near 0, with a variance of at most the sum
of p (1 - p).

The evidence is exp(l S - (e^l - 1 - l) V) for S = sum (picked - p), V = sum p (1 - p), and the same for -S: a
supermartingale by Bennett's inequality, since no term exceeds 1. It may be looked at at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from otel_evals._internal.statistics.sums import added

# From 0.002 to about 2: small bets find small errors late, large bets find large errors soon.
_BETS = tuple(0.002 * 2.0**i for i in range(11))
# Larger numbers change no decision, and their products would leave the range of a double.
_HIGHEST = 1e100
_UNSEEN = 0.1


@dataclass(frozen=True, slots=True)
class Picks:
    """Number of runs that a rule decided about, and number of runs that it picked; sums that add up."""

    runs: int = 0
    picked: int = 0
    expected: float = 0.0
    """Sum of the probabilities."""
    variance: float = 0.0
    """Sum of p (1 - p)."""
    represented: float = 0.0
    """Sum of 1 / p over the picked runs: the number of runs that they stand for."""
    represented_variance: float = 0.0
    """Sum of (1 - p) / p^2 over the picked runs: an estimate of the variance of `represented`."""

    @classmethod
    def of(cls, p: float, picked: bool) -> Picks:
        """Return a run's picks with this probability, above zero."""
        if not picked:
            return cls(1, 0, p, p * (1.0 - p))
        return cls(1, 1, p, p * (1.0 - p), 1.0 / p, (1.0 - p) / (p * p))

    def __add__(self, other: Picks) -> Picks:
        return added(self, other, {})

    @property
    def representative(self) -> bool:
        """False if the picked runs stand for a tenth more or fewer runs than there were, beyond chance.

        That is so when none of a large group of rarely picked runs was picked: the sample itself cannot
        show that it lacks them.
        """
        apart = abs(self.represented - self.runs)
        return apart <= max(_UNSEEN * self.runs, 4.0 * math.sqrt(self.represented_variance))

    @property
    def z(self) -> float | None:
        """Standard deviations by which too many runs were picked; None if no decision was random.

        It is for a single look; beyond 4 on either side, chance is unlikely.
        """
        return (self.picked - self.expected) / math.sqrt(self.variance) if self.variance > 0.0 else None


@dataclass(frozen=True, slots=True)
class PickDetector:
    """Detects that a rule has begun to pick too many or too few runs; see `detectors`."""

    period: int
    """Number of buckets within which a false alarm may occur with the probability of the level."""
    state: tuple[float, ...] = (0.0,) * (2 * len(_BETS))
    """One number for each bet, on too many and on too few."""

    def updated(self, bucket: Picks) -> PickDetector:
        """Return the detector after one more bucket."""
        excess = bucket.picked - bucket.expected
        logs = [
            bet * side - (math.expm1(bet) - bet) * bucket.variance
            for side in (excess, -excess)
            for bet in _BETS
        ]
        # Each bucket starts another process, which gets an equal share of 1; see `detectors`.
        start = 1.0 / self.period
        pairs = zip(self.state, logs, strict=True)
        grown = (min(_HIGHEST, (r + start) * math.exp(min(log, 200.0))) for r, log in pairs)
        return replace(self, state=tuple(grown))

    @property
    def e_value(self) -> float:
        """Evidence so far. Raise an alarm at level a from 1/a on."""
        return math.fsum(self.state) / len(self.state)
