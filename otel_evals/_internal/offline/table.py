"""Tables of tallies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_evals._internal.judges.fence import visible
from otel_evals._internal.offline.requirements import Requirement
from otel_evals._internal.offline.tally import ScorerTally

_FIXED = ("scorer", "scored", "mean", "95%", "n eff", "with missing")


def as_text(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> str:
    rows = _table(tallies, requirements)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def as_rich(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    heads, *rows = _table(tallies, requirements)
    for head in heads:
        table.add_column(head, no_wrap=head in _FIXED)
    unmet = {r.scorer_id for r in requirements if not r.met}
    for row in rows:
        style = "red" if row[0] in unmet else ""
        table.add_row(*(Text(visible(cell), style=style) for cell in row))
    return table


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
