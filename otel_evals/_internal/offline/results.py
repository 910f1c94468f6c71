"""The items of an evaluation and its results: requirements on means, JSON, and a table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from otel_evals._internal.deliver.record import plain, run_record
from otel_evals._internal.model import Direction, Evaluation, Run, Score, ScoredRun
from otel_evals._internal.offline.tally import ScorerTally
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.util.plain import counted, read_json, read_lines, write_json
from otel_evals.errors import ConfigError

EvalsStatus = Literal["failed", "passed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question to a target."""

    input: Any
    """Argument of the target."""
    ground_truth: Any = None
    """The expected answer; scorers that compare read it as the run's `ground_truth`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other data about the item; kept with the result."""


def read_items(data: str | Path | Iterable[Any]) -> tuple[Item, ...]:
    """Read the items of a data set: `input`, and optionally `ground_truth` and `metadata`.

    Args:
        data: mappings or objects with these; or the path of a file with one JSON object per line.

    Raises:
        ConfigError: there are no items, or the named one has no `input`.
    """
    if isinstance(data, str | Path):
        lines = enumerate(read_lines(data, f"data: {data}"), 1)
        items = tuple(_of_line(line, f"{data}:{n}") for n, line in lines if line.strip())
    else:
        items = tuple(_item(each, f"data[{n}]") for n, each in enumerate(data))
    if not items:
        raise ConfigError("data", "contains no items")
    return items


def _of_line(line: str, place: str) -> Item:
    try:
        value = read_json(line)
    except ValueError as error:
        raise ConfigError(place, f"is not JSON: {error}") from None
    return _item(value, place)


def _item(value: Any, place: str) -> Item:
    if isinstance(value, Item):
        return value
    given = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    if "input" not in given:
        raise ConfigError(place, f"has no `input`: {value!r:.100}")
    metadata = given.get("metadata") or {}
    return Item(input=given["input"], ground_truth=given.get("ground_truth"), metadata=metadata)


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


def threshold(scorer_id: str, bounds: Any, directions: Mapping[str, Direction]) -> Requirement:
    """Read `(min, max)`, also as a mapping, or a number: the minimum, or the maximum if lower is better."""
    place = f"thresholds.{scorer_id}"
    if scorer_id not in directions:
        raise ConfigError(place, f"unknown scorer; known: {', '.join(sorted(directions))}")
    if isinstance(bounds, Mapping) and bounds.keys() <= {"min", "max"}:
        low, high = bounds.get("min"), bounds.get("max")
    elif isinstance(bounds, tuple | list) and len(bounds) == 2:
        low, high = bounds
    else:
        low, high = (None, bounds) if directions[scorer_id] is Direction.LOWER else (bounds, None)
    given = [bound for bound in (low, high) if bound is not None]
    if not given or not all(isinstance(b, int | float) and math.isfinite(b) for b in given):
        raise ConfigError(place, f"must be a number or (min, max), not {bounds!r}")
    if given != sorted(given):
        raise ConfigError(place, f"the minimum {low!r} is above the maximum {high!r}")
    return Requirement(scorer_id=scorer_id, kind="threshold", minimum=low, maximum=high)


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


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """One item, the target's answer, and its evaluations."""

    item: Item
    output: Any = None
    """Return value of the target."""
    error: str | None = None
    """Exception of the target."""
    run: Run | None = None
    """The scored run: the last run in its spans; without spans, a run made from input and output. None if the
    target failed without spans."""
    runs: tuple[Run, ...] = ()
    """All runs in its spans, by end time."""
    evaluations: tuple[Evaluation, ...] = ()
    duration: float = 0.0
    """Seconds that the target took."""

    @property
    def scores(self) -> dict[str, float]:
        """Scores by scorer id; other outcomes are left out."""
        return {e.scorer_id: e.outcome.value for e in self.evaluations if isinstance(e.outcome, Score)}

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "input": plain(self.item.input),
            "ground_truth": plain(self.item.ground_truth),
            "metadata": plain(self.item.metadata),
            "error": self.error,
            "duration": self.duration,
            "run": self.run and run_record(ScoredRun(run=self.run, evaluations=self.evaluations)),
        }


@dataclass(frozen=True, kw_only=True)
class EvalsResult:
    """Results of all items, in the order of the data. `print` shows a table."""

    items: tuple[ItemResult, ...]
    scorers: Mapping[str, ScorerTally]
    """By scorer id."""
    requirements: tuple[Requirement, ...] = ()
    """Gates first."""
    status: EvalsStatus | None = None
    """`failed`: a requirement is not met; `passed`: all are met; None: no requirements."""

    @property
    def errors(self) -> int:
        """Number of items whose target raised."""
        return sum(item.error is not None for item in self.items)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "status": self.status,
            "errors": self.errors,
            "scorers": {name: plain(tallied) for name, tallied in self.scorers.items()},
            "requirements": [plain(requirement) for requirement in self.requirements],
            "items": [item.as_json() for item in self.items],
        }

    def write(self, path: str | Path) -> None:
        """Write everything as a JSON file, without secrets."""
        Path(path).write_text(write_json(redacted(self.as_json()), indent=2) + "\n", "utf-8")

    def __str__(self) -> str:
        return "\n".join([as_text(tuple(self.scorers.values()), self.requirements), self._last_line()])

    def _last_line(self) -> str:
        items = f"{counted(len(self.items), 'item')}, {self.errors} failed"
        return items if self.status is None else f"{items}; {self.status}"


# --- the table ---


def as_text(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> str:
    rows = _table(tallies, requirements)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def mean_cell(tallied: ScorerTally) -> str:
    """Format the mean; empty without one."""
    return "" if tallied.mean is None else f"{tallied.mean:.3f}"


def interval_cell(tallied: ScorerTally) -> str:
    """Format the mean's confidence interval, or the reason that there is none."""
    if tallied.mean is None:
        return "unknown probability" if tallied.unknown else ""
    if tallied.too_few or tallied.interval is None:
        return "too few"
    return _range(tallied.interval)


def bounds_cell(tallied: ScorerTally) -> str:
    """Format the interval over all values of the missing scores; empty if none are missing."""
    return _range(tallied.bounds) if tallied.bounds and not tallied.too_few else ""


def is_uneven(tallied: ScorerTally) -> bool:
    """Return True if the weights differ: the number of scores then exceeds their effective number."""
    return tallied.n_effective < 0.995 * tallied.scored


def _table(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement]) -> list[tuple[str, ...]]:
    """Return the heads, and a row for each scorer; empty columns are left out."""
    columns: list[tuple[str, Callable[[ScorerTally], str]]] = [
        ("scorer", lambda t: t.scorer_id),
        ("scored", lambda t: str(t.scored)),
    ]
    if any(map(is_uneven, tallies)):
        columns.append(("n eff", lambda t: f"{t.n_effective:.0f}"))
    columns += [
        ("not scored", lambda t: _counts(t.not_scored)),
        ("failed", lambda t: _counts(t.failed)),
        ("mean", mean_cell),
        ("95%", interval_cell),
    ]
    if any(map(bounds_cell, tallies)):
        columns.append(("with missing", bounds_cell))
    if requirements:
        required: dict[str, list[str]] = defaultdict(list)
        for each in requirements:
            required[each.scorer_id].append(_required(each))
        columns.append(("required", lambda t: "; ".join(required[t.scorer_id])))
    return [tuple(head for head, _ in columns), *(tuple(cell(t) for _, cell in columns) for t in tallies)]


def _range(interval: tuple[float, float]) -> str:
    return "{:.3f}..{:.3f}".format(*interval)


def _counts(by_reason: Mapping[str, int]) -> str:
    """Format the sum, and the two most frequent reasons."""
    ordered = sorted(by_reason.items(), key=lambda pair: -pair[1])
    reasons = ", ".join(f"{reason} {count}" for reason, count in ordered[:2])
    return f"{sum(by_reason.values())} ({reasons}{', …' * (len(ordered) > 2)})" if by_reason else "0"


def _required(requirement: Requirement) -> str:
    low, high = requirement.minimum, requirement.maximum
    bounds = [f"{sign} {bound:g}" for sign, bound in ((">=", low), ("<=", high)) if bound is not None]
    met = "met" if requirement.met else f"NOT met: {requirement.problem}"
    return f"{requirement.kind} {' and '.join(bounds)} {met}"
