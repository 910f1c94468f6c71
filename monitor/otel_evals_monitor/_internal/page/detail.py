"""Plot and summary of a scorer and agent, for the page, and the report as one HTML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection

from otel_evals.errors import ConfigError
from otel_evals.statistics import Estimate, estimate
from otel_evals_monitor._internal.page.templates import STYLE, render
from otel_evals_monitor._internal.report.inputs import ReportOptions, TraceLink
from otel_evals_monitor._internal.report.plot import STEPS, Plot, Point, step_for, timeline
from otel_evals_monitor._internal.report.report import ScoreReport, SliceReport
from otel_evals_monitor._internal.report.terminal import columns_of
from otel_evals_monitor._internal.report.words import Zone
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import EVERY, RunFilter, Window
from otel_evals_monitor._internal.store.queries import (
    Measured,
    Slices,
    first_seen,
    matching,
    series,
    stored_slices,
)

_MOST_STEPS, _LEAST_STEPS = 96, 6
_FILLED = 0.9
_MOST_MARKS = 16


def detail_of(
    connection: Connection,
    slices: Slices,
    row: SliceReport,
    window: Window,
    recorded: tuple[int, int],
    *,
    runs: RunFilter = EVERY,
    floor: float | None = None,
    href: Callable[[int, int], str] | None = None,
    zone: Zone | None = None,
) -> dict[str, Any]:
    """Return the values of a template for slices taken together, whose report is `row`.

    `href` returns the address of the runs between two times.
    """
    first, last = window.ends(recorded)
    last = max(last, first + 60)
    step, steps = _steps(connection, slices, window, (first, last), runs)
    # A single step is too short to estimate a design effect.
    points = [
        Point.of(start, each, _estimate(each, row.design_effect), href(start, start + step) if href else None)
        for start, each in sorted(steps.items())
    ]
    label = f"Mean score over time of {row.slice['scorer_id']}; the table below has the numbers"
    plot = Plot(
        points=points,
        step=step,
        span=(first, last),
        label=label,
        scale=row.scale,
        floor=floor,
        marks=_marks(connection, slices, (first, last)),
        zone=zone or Zone(),
    )
    return {
        "row": row,
        "points": points,
        "step": step,
        "floor": floor,
        "plot": Markup(timeline(plot)),
    }


def _steps(
    connection: Connection,
    slices: Slices,
    window: Window,
    span: tuple[int, int],
    runs: RunFilter,
) -> tuple[int, dict[int, Measured]]:
    """Return a time step and its sums: the shortest with which nine of ten steps have enough runs."""
    length = span[1] - span[0]
    shortest = step_for(*span, _MOST_STEPS)
    for step in (each for each in STEPS if each >= shortest):
        steps = series(connection, slices, window, step, runs=runs).get((), {})
        enough = [not _estimate(each, 1.0).too_few for each in steps.values() if each.scored.n]
        if sum(enough) >= _FILLED * len(enough) or length / step <= _LEAST_STEPS:
            break
    return step, steps


def _estimate(measured: Measured, effect: float) -> Estimate:
    known = estimate(measured.scored, scaled=measured.scale is not None, inflation=effect)
    return known.in_units(measured.scale or 1.0)


def _marks(connection: Connection, slices: Slices, span: tuple[int, int]) -> list[tuple[int, str]]:
    """Return the first appearance of each version of the agent and of the scorer within the span."""
    agents = first_seen(connection, slices, "agent_version")
    scorers = first_seen(connection, slices, "scorer_version")[1:]
    marks = [(start, f"version {version}") for start, version in agents if version]
    marks += [(start, f"scorer {version}") for start, version in scorers]
    return sorted(mark for mark in marks if span[0] < mark[0] < span[1])[-_MOST_MARKS:]


_MOST = 60


def write_html(
    path: Path, report: ScoreReport, database: Database, options: ReportOptions, link: TraceLink, source: str
) -> None:
    """Write a report, with plots of the first 60 slices."""
    parts: list[dict[str, Any]] = []
    columns = columns_of(report)
    rows = sorted(report.slices, key=lambda row: bool(row.unstated))  # leads with what has enough runs
    with database.reading() as connection:
        slices = stored_slices(connection, **options.only)
        for row in rows[:_MOST]:
            inside = matching(slices, row.slice)
            found = detail_of(connection, inside, row, options.window, report.recorded or (0, 0))
            title = " · ".join(str(row.slice[name]) for name in columns if row.slice[name])
            parts.append({**found, "title": title})
    text = render(
        "report.html",
        style=Markup(STYLE),
        source=source,
        recorded=report.recorded,
        since=report.window.since,
        until=report.window.until,
        rows=rows,
        notes=report.notes,
        columns=columns,
        parts=parts,
        link=link,
    )
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError("--html", f"cannot write {path}: {error}") from error
