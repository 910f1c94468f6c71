"""Sums over sampled runs, the only input of the estimates.

Each scored run has a value x (its score divided by the scorer's scale, so 0..1) and a weight w: one over its
sampling probability. Estimates use only sums of products of x and w, so rows of many processes and time
buckets add up to the row of all their runs, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Sums = TypeVar("_Sums")
_UNSEEN = 0.1
# Beyond it, squares would leave the range of a double.
_LARGEST_VALUE = 1e50


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the scored runs of a slice. The names are the products: `wwx` is the sum of w * w * x.

    Raises:
        ValueError: a field is not a finite number, or is below zero but must not be; the message names it.
    """

    n: int = 0
    """Scored runs of known probability."""
    w: float = 0.0
    """Sum of w: an estimate of the number of runs, sampled or not."""
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
    unknown: int = 0
    """Scored runs of unknown probability; they are in no other field."""

    def __post_init__(self) -> None:
        check_numbers(self, signed={"wx", "wwx", "x_min", "x_max"})
        # `n_effective` divides by ww wherever w is above zero.
        if (self.w > 0.0) != (self.ww > 0.0):
            raise ValueError(f"ww: must be above zero where w is, and only there, not {self.ww!r}")

    @classmethod
    def of(cls, x: float, w: float | None) -> Sums:
        """Return a scored run's sums.

        Args:
            x: the score divided by the scale; without a scale, the score minus a fixed offset near the
                typical score, since squares of large values leave no digits for a variance.
            w: one over the sampling probability; 0 if a sampler of known probability did not pick the run;
                None if the probability is unknown.

        Raises:
            ValueError: x is not finite or too large, or w is neither 0 nor at least 1; the message says
                which.
        """
        return cls.of_runs([(x, w)])

    @classmethod
    def of_runs(cls, runs: Iterable[tuple[float, float | None]]) -> Sums:
        """Return the sums of many scored runs, rounded once.

        Args:
            runs: value and weight of each run, as for `of`.

        Raises:
            ValueError: as for `of`.
        """
        given = list(runs)
        known = [(x, check_weight(w)) for x, w in given if w is not None]
        for x, _ in known:
            check_number("x", x, signed=True)
            if abs(x) > _LARGEST_VALUE:
                raise ValueError(f"x: must be a finite number of at most {_LARGEST_VALUE:g}, not {x!r}")
        if not known:
            return cls(unknown=len(given))
        products = [(w, w * x, w * x * x, w * w, w * w * x, w * x * w * x) for x, w in known]
        sums = map(math.fsum, zip(*products, strict=True))
        values, weights = zip(*known, strict=True)
        return cls(
            n=len(known),
            **dict(zip(("w", "wx", "wxx", "ww", "wwx", "wwxx"), sums, strict=True)),
            w_max=max(weights),
            x_min=min(values),
            x_max=max(values),
            unknown=len(given) - len(known),
        )

    def __add__(self, other: Sums) -> Sums:
        return added(self, other, {"w_max": max, "x_min": min, "x_max": max})

    @property
    def mean(self) -> float | None:
        """The Hájek mean, sum wx / sum w; None without weight."""
        return self.wx / self.w if self.w else None

    @property
    def n_effective(self) -> float:
        """Kish's effective sample size, (sum w)^2 / sum w^2: runs of equal weight with the same precision."""
        # In this order, the square of a large sum of weights cannot overflow.
        return self.w / self.ww * self.w if self.w else 0.0

    def spread(self, centre: float) -> float:
        """Return the sum of w^2 (x - centre)^2: the linearised variance of the mean, times (sum w)^2."""
        # The difference of large sums may be below zero by rounding.
        return max(0.0, self.wwxx - 2.0 * centre * self.wwx + centre * centre * self.ww)


@dataclass(frozen=True, slots=True)
class Tally:
    """Number and weight of the sampled runs with one outcome.

    Raises:
        ValueError: a field is not a finite number of at least zero; the message names it.
    """

    n: int = 0
    """Runs of known probability."""
    w: float = 0.0
    """Sum of w."""
    ww: float = 0.0
    """Sum of w^2."""
    w_max: float = 0.0
    """Largest weight."""
    unknown: int = 0
    """Runs of unknown probability; they are in no other field."""

    def __post_init__(self) -> None:
        check_numbers(self)

    @classmethod
    def of(cls, w: float | None) -> Tally:
        """Return a run's tally; the weight as for `Sums.of`."""
        if w is None:
            return cls(unknown=1)
        check_weight(w)
        return cls(n=1, w=w, ww=w * w, w_max=w)

    def __add__(self, other: Tally) -> Tally:
        return added(self, other, {"w_max": max})

    def valued(self, x: float) -> Sums:
        """Return the sums of these runs as if each had the value x."""
        end = x if self.n else None
        return Sums(
            n=self.n,
            w=self.w,
            wx=self.w * x,
            wxx=self.w * x * x,
            ww=self.ww,
            wwx=self.ww * x,
            wwxx=self.ww * x * x,
            w_max=self.w_max,
            x_min=end,
            x_max=end,
            unknown=self.unknown,
        )


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


def added(one: _Sums, other: _Sums, by: Mapping[str, Callable[..., Any]]) -> _Sums:
    """Return the sum of two dataclasses: field by field, with the functions in `by` instead of addition."""
    kind: Any = type(one)
    values = {}
    for name in kind.__dataclass_fields__:
        pair = [v for v in (getattr(one, name), getattr(other, name)) if v is not None]
        values[name] = by.get(name, sum)(pair) if pair else None
    added_up: _Sums = kind(**values)
    return added_up


def total(parts: Iterable[Sums]) -> Sums:
    """Return the total of sums."""
    return sum(parts, Sums())


# Beyond it, the square of a weight would leave the range of a double.
_LARGEST_WEIGHT = 1e100


def check_weight(w: float) -> float:
    """Return the weight, which must be 0 or one over a probability."""
    if w != 0.0 and not 1.0 <= w <= _LARGEST_WEIGHT:
        raise ValueError(f"w: must be 0, or one over a probability, so at least 1, not {w!r}")
    return w


def check_numbers(record: Any, *, signed: Collection[str] = ()) -> None:
    """Raise ValueError unless all fields of a dataclass are finite numbers; only `signed` may be below zero.

    None is allowed where it is the default; `n` and `unknown` must be whole numbers.
    """
    for name, field in record.__dataclass_fields__.items():
        value, whole = getattr(record, name), name in ("n", "unknown")
        # Reports add up many thousands of sums, so plain numbers are passed first.
        plain = type(value) is float and 0.0 <= value < math.inf and not whole
        if not plain and (value is not None or field.default is not None):
            check_number(name, value, signed=name in signed, whole=whole)


def check_number(name: str, value: Any, *, signed: bool, whole: bool = False) -> None:
    """Raise ValueError unless this is a finite number, at least 0 if not `signed`, whole if `whole`."""
    kind = "a whole number" if whole else "a finite number"
    # `isinstance` takes a bool for an int.
    allowed = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not allowed or not math.isfinite(value):
        raise ValueError(f"{name}: must be {kind}, not {value!r}")
    if value < 0 and not signed:
        raise ValueError(f"{name}: must not be below zero, not {value!r}")
