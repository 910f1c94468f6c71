"""Tallies as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otel_evals._internal.judges.fence import visible
from otel_evals._internal.offline.requirements import Requirement
from otel_evals._internal.offline.tally import ScorerTally

_FIXED = ("scorer", "scored", "mean", "95%", "n eff", "with missing")


def as_text(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> str:
    """The table in plain text."""
    rows = _table(tallies, requirements)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(map(_padded, row, widths)).rstrip() for row in rows)


def as_rich(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> Any:
    """The table for rich."""
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
    """The mean; empty without one."""
    return "" if tallied.mean is None else f"{tallied.mean:.3f}"


def interval_cell(tallied: ScorerTally) -> str:
    """The mean's confidence interval, or why there is none to rely on."""
    if tallied.mean is None:
        return "unknown probability" if tallied.unknown else ""
    if tallied.too_few or tallied.interval is None:
        return "too few"
    return _range(tallied.interval)


def bounds_cell(tallied: ScorerTally) -> str:
    """The interval for whatever the missing scores are; empty where none are missing."""
    return _range(tallied.bounds) if tallied.bounds and not tallied.too_few else ""


def is_uneven(tallied: ScorerTally) -> bool:
    """Whether the scores' weights differ, so that their number says more than they do."""
    return tallied.n_effective < 0.995 * tallied.scored


def _table(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement]) -> list[tuple[str, ...]]:
    """The heads, and a row for each scorer; columns that would say nothing are left out."""
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
        columns.append(("required", lambda t: _all_required(t, requirements)))
    return [tuple(head for head, _ in columns), *(tuple(cell(t) for _, cell in columns) for t in tallies)]


def _all_required(tallied: ScorerTally, requirements: Sequence[Requirement]) -> str:
    return "; ".join(_required(r) for r in requirements if r.scorer_id == tallied.scorer_id)


def _range(interval: tuple[float, float]) -> str:
    return "{:.3f}..{:.3f}".format(*interval)


def _counts(by_reason: Mapping[str, int]) -> str:
    """The sum, and the reasons with the most cases."""
    ordered = sorted(by_reason.items(), key=lambda pair: -pair[1])
    reasons = ", ".join(f"{reason} {count}" for reason, count in ordered[:2])
    return f"{sum(by_reason.values())} ({reasons}{', …' * (len(ordered) > 2)})" if by_reason else "0"


def _required(requirement: Requirement) -> str:
    low, high = requirement.minimum, requirement.maximum
    bounds = [f"{sign} {bound:g}" for sign, bound in ((">=", low), ("<=", high)) if bound is not None]
    met = "met" if requirement.met else f"NOT met: {requirement.problem}"
    return f"{requirement.kind} {' and '.join(bounds)} {met}"


def _padded(cell: str, width: int) -> str:
    return cell.ljust(width)
