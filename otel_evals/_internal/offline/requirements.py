"""Requirements on scores: gates and thresholds, and the overall status."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from otel_evals._internal.model import Direction
from otel_evals._internal.offline.tally import ScorerTally
from otel_evals.errors import ConfigError

EvalsStatus = Literal["failed", "passed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """Bounds of a scorer's mean, and the result of checking them."""

    scorer_id: str
    kind: Literal["gate", "threshold"]
    minimum: float | None = None
    maximum: float | None = None
    met: bool = False
    problem: str | None = None
    """Reason that it is not met."""


def gate(scorer_id: str, direction: Direction) -> Requirement:
    """Require a mean of 1, or 0 if lower is better, and no failures."""
    low, high = (None, 0.0) if direction is Direction.LOWER else (1.0, None)
    return Requirement(scorer_id=scorer_id, kind="gate", minimum=low, maximum=high)


def thresholds_of(
    thresholds: Mapping[str, Any], directions: Mapping[str, Direction]
) -> tuple[Requirement, ...]:
    """Read thresholds: by scorer id a number, `(min, max)`, or a mapping with `min`, `max` or both.

    A number is the minimum of the mean, or the maximum if lower is better.
    """
    return tuple(_threshold(name, bounds, directions) for name, bounds in thresholds.items())


def _threshold(name: str, bounds: Any, directions: Mapping[str, Direction]) -> Requirement:
    field = f"thresholds.{name}"
    if name not in directions:
        raise ConfigError(field, f"unknown scorer; known: {', '.join(sorted(directions))}")
    low, high = _bounds(bounds, directions[name])
    given = [bound for bound in (low, high) if bound is not None]
    if not given or not all(isinstance(b, int | float) and math.isfinite(b) for b in given):
        raise ConfigError(field, f"must be a number, (min, max) or {{min, max}}, not {bounds!r}")
    if given != sorted(given):
        raise ConfigError(field, f"the minimum {low!r} is above the maximum {high!r}")
    return Requirement(scorer_id=name, kind="threshold", minimum=low, maximum=high)


def _bounds(bounds: Any, direction: Direction) -> tuple[Any, Any]:
    """Return minimum and maximum; None for both if the value has another form."""
    match bounds:
        case int() | float() if not isinstance(bounds, bool):
            return (None, bounds) if direction is Direction.LOWER else (bounds, None)
        case (low, high):
            return low, high
        case {**named} if named.keys() <= {"min", "max"}:
            return named.get("min"), named.get("max")
    return None, None


def check(requirement: Requirement, tallied: ScorerTally, lost: int) -> Requirement:
    """Check a requirement; `lost` is how many items have no run to score."""
    problem = _problem(requirement, tallied, lost)
    return replace(requirement, met=problem is None, problem=problem)


def _problem(requirement: Requirement, tallied: ScorerTally, lost: int) -> str | None:
    low, high, mean = requirement.minimum, requirement.maximum, tallied.mean
    failed = sum(tallied.failed.values())
    if mean is None:
        return "no score has a known probability" if tallied.unknown else "nothing was scored"
    if low is not None and mean < low:
        return f"the mean {mean:.3g} is below {low:g}"
    if high is not None and mean > high:
        return f"the mean {mean:.3g} is above {high:g}"
    if requirement.kind == "gate" and (failed or lost):
        return f"{failed} evaluations failed, {lost} items left no run"
    return None


def overall_status(requirements: Sequence[Requirement]) -> EvalsStatus | None:
    """Return `failed` if a requirement is not met, `passed`, or None without any."""
    if not requirements:
        return None
    return "passed" if all(requirement.met for requirement in requirements) else "failed"
