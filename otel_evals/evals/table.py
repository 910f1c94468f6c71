"""Tallies as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_evals.evals.requirements import Requirement
from otel_evals.evals.tally import ScorerTally

__all__ = ["as_rich", "as_text"]

_HEADS = ("scorer", "scored", "not scored", "failed", "mean", "95%", "required")


def as_text(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> str:
    """The table in plain text."""
    heads = _HEADS if requirements else _HEADS[:-1]
    rows = [heads, *_rows(tallies, requirements)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(map(_padded, row, widths)).rstrip() for row in rows)


def as_rich(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement] = ()) -> Any:
    """The table for rich."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    heads = _HEADS if requirements else _HEADS[:-1]
    for head in heads:
        table.add_column(head, no_wrap=head in ("scorer", "scored", "mean", "95%"))
    unmet = {r.scorer_id for r in requirements if not r.met}
    for row in _rows(tallies, requirements):
        style = "red" if row[0] in unmet else ""
        table.add_row(*(Text(cell, style=style) for cell in row[: len(heads)]))
    return table


def _rows(tallies: Sequence[ScorerTally], requirements: Sequence[Requirement]) -> Iterable[tuple[str, ...]]:
    for tallied in tallies:
        required = [_required(r) for r in requirements if r.scorer_id == tallied.scorer_id]
        yield (
            tallied.scorer_id,
            str(tallied.scored),
            _counts(tallied.not_scored),
            _counts(tallied.failed),
            "" if tallied.mean is None else f"{tallied.mean:.3f}",
            "" if tallied.interval is None else "{:.3f}..{:.3f}".format(*tallied.interval),
            "; ".join(required),
        )


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
