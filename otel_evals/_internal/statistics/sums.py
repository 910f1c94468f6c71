"""Sums over sampled runs: all that the estimates need, merged by addition.

Each scored run has a value x (its score divided by the scorer's scale, so 0..1) and a weight w: one over the
probability with which the run was sampled. Estimates read nothing but sums of products of the two, so rows of
many processes and time buckets add up to the row of all their runs, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from otel_evals._internal.statistics.checks import check_names, check_number, check_numbers, check_weight

# Beyond it, squares would leave the range of a double.
_LARGEST_VALUE = 1e50


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the scored runs of one slice. The names are the products: `wwx` is the sum of w * w * x.

    Raises:
        ValueError: a field is no finite number, or below zero where that cannot be; the message names it.
    """

    n: int = 0
    """Scored runs whose probability is known."""
    w: float = 0.0
    """Sum of w: an estimate of how many runs there were, sampled or not."""
    wx: float = 0.0
    wxx: float = 0.0
    ww: float = 0.0
    wwx: float = 0.0
    wwxx: float = 0.0
    w_max: float = 0.0
    """Largest weight."""
    x_min: float | None = None
    """Smallest value; None without runs."""
    x_max: float | None = None
    """Largest value; None without runs."""
    capped: float = 0.0
    """Weight that a cap cut off; the share of it is `capped / (w + capped)`."""
    unknown: int = 0
    """Scored runs whose probability is unknown. They are in no other field."""

    def __post_init__(self) -> None:
        check_numbers(self, signed={"wx", "wwx", "x_min", "x_max"})
        if (self.w > 0.0) != (self.ww > 0.0):
            raise ValueError(f"ww: must be above zero where w is, and only there, not {self.ww!r}")

    @classmethod
    def of(cls, x: float, w: float | None, *, cap: float = math.inf) -> Sums:
        """The sums of one scored run.

        Args:
            x: its value: the score divided by the scale; for a scorer without a scale, the score minus a
                fixed offset near the typical score, since squares of large values leave no digits for a
                variance.
            w: one over its probability; 0 where the sampler whose probability is known did not pick it; None
                where the probability is unknown.
            cap: weights above it count as this much.

        Raises:
            ValueError: x is not finite or too large, or w is neither 0 nor at least 1; it says which.
        """
        _check_value(x)
        if w is None:
            return cls(unknown=1)
        used = min(check_weight(w), cap)
        wx = used * x
        return cls(
            n=1,
            w=used,
            wx=wx,
            wxx=wx * x,
            ww=used * used,
            wwx=used * wx,
            wwxx=wx * wx,
            w_max=used,
            x_min=x,
            x_max=x,
            capped=w - used,
        )

    @classmethod
    def of_runs(cls, runs: Iterable[tuple[float, float | None]]) -> Sums:
        """The sums of many scored runs, rounded once.

        Args:
            runs: value and weight of each, as for `of`.

        Raises:
            ValueError: as for `of`.
        """
        given = list(runs)
        known = [(x, check_weight(w)) for x, w in given if w is not None]
        for x, _ in known:
            _check_value(x)

        def over(product: Callable[[float, float], float]) -> float:
            return math.fsum(product(x, w) for x, w in known)

        return cls(
            n=len(known),
            w=over(lambda x, w: w),
            wx=over(lambda x, w: w * x),
            wxx=over(lambda x, w: w * x * x),
            ww=over(lambda x, w: w * w),
            wwx=over(lambda x, w: w * w * x),
            wwxx=over(lambda x, w: w * x * w * x),
            w_max=max((w for _, w in known), default=0.0),
            x_min=min((x for x, _ in known), default=None),
            x_max=max((x for x, _ in known), default=None),
            unknown=len(given) - len(known),
        )

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            n=self.n + other.n,
            w=self.w + other.w,
            wx=self.wx + other.wx,
            wxx=self.wxx + other.wxx,
            ww=self.ww + other.ww,
            wwx=self.wwx + other.wwx,
            wwxx=self.wwxx + other.wwxx,
            w_max=max(self.w_max, other.w_max),
            x_min=min((x for x in (self.x_min, other.x_min) if x is not None), default=None),
            x_max=max((x for x in (self.x_max, other.x_max) if x is not None), default=None),
            capped=self.capped + other.capped,
            unknown=self.unknown + other.unknown,
        )

    def __sub__(self, old: Sums) -> Sums:
        """Takes back runs that were added, such as a score that a revision replaces.

        Exact up to the rounding of the sums of weights. `w_max`, `x_min` and `x_max` stay, as bounds, since a
        sum does not tell the second largest.
        """
        n, unknown, w = self.n - old.n, self.unknown - old.unknown, self.w - old.w
        if n == 0:
            return Sums(unknown=unknown)
        if w <= 0.0:
            return Sums(n=n, x_min=self.x_min, x_max=self.x_max, unknown=unknown)
        return Sums(
            n=n,
            w=w,
            wx=self.wx - old.wx,
            wxx=max(0.0, self.wxx - old.wxx),
            ww=max(self.ww - old.ww, w * w / n),  # no smaller, whatever rounding left
            wwx=self.wwx - old.wwx,
            wwxx=max(0.0, self.wwxx - old.wwxx),
            w_max=self.w_max,
            x_min=self.x_min,
            x_max=self.x_max,
            capped=max(0.0, self.capped - old.capped),
            unknown=unknown,
        )

    @property
    def mean(self) -> float | None:
        """The Hájek mean, sum wx / sum w; None without weight."""
        return self.wx / self.w if self.w else None

    @property
    def n_effective(self) -> float:
        """Kish's effective sample size, (sum w)^2 / sum w^2: how many runs of equal weight say as much."""
        return self.w / self.ww * self.w if self.w else 0.0

    def spread(self, centre: float) -> float:
        """The sum of w^2 (x - centre)^2: the linearised variance of the mean, times (sum w)^2."""
        return max(0.0, self.wwxx - 2.0 * centre * self.wwx + centre * centre * self.ww)

    def to_plain(self) -> dict[str, Any]:
        """Numbers by field name; `from_plain` gives exactly this object back."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Sums:
        """The opposite of `to_plain`.

        Raises:
            ValueError: a field is unknown or no number of its kind; the message names it.
        """
        check_names(cls, values)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many sampled runs ended with one outcome.

    Raises:
        ValueError: a field is no finite number of at least zero; the message names it.
    """

    n: int = 0
    """Runs whose probability is known."""
    w: float = 0.0
    """Sum of w."""
    ww: float = 0.0
    """Sum of w^2."""
    w_max: float = 0.0
    """Largest weight."""
    unknown: int = 0
    """Runs whose probability is unknown; they are in no other field."""

    def __post_init__(self) -> None:
        check_numbers(self)

    @classmethod
    def of(cls, w: float | None, *, cap: float = math.inf) -> Tally:
        """The tally of one run; its weight as for `Sums.of`."""
        if w is None:
            return cls(unknown=1)
        used = min(check_weight(w), cap)
        return cls(n=1, w=used, ww=used * used, w_max=used)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            n=self.n + other.n,
            w=self.w + other.w,
            ww=self.ww + other.ww,
            w_max=max(self.w_max, other.w_max),
            unknown=self.unknown + other.unknown,
        )

    def valued(self, x: float) -> Sums:
        """These runs as if each had been scored x, a number in 0..1."""
        return Sums(
            n=self.n,
            w=self.w,
            wx=self.w * x,
            wxx=self.w * x * x,
            ww=self.ww,
            wwx=self.ww * x,
            wwxx=self.ww * x * x,
            w_max=self.w_max,
            x_min=x if self.n else None,
            x_max=x if self.n else None,
            unknown=self.unknown,
        )


def _check_value(x: float) -> None:
    check_number("x", x, signed=True)
    if abs(x) > _LARGEST_VALUE:
        raise ValueError(f"x: must be a finite number of at most {_LARGEST_VALUE:g}, not {x!r}")


def total(parts: Iterable[Sums]) -> Sums:
    """All these sums added up."""
    return sum(parts, Sums())
