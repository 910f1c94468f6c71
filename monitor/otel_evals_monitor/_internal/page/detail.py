"""Plot and summary of a scorer and agent, for the page and the HTML report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection

from otel_evals.statistics import Estimate, estimate
from otel_evals_monitor._internal.report.plot import Point, step_for, timeline
from otel_evals_monitor._internal.report.report import SliceReport, of_measured, unrepresentative
from otel_evals_monitor._internal.report.terminal import number
from otel_evals_monitor._internal.store.queries import Measured, Window, measure, series


def detail_of(
    connection: Connection,
    slices: Mapping[int, Any],
    window: Window,
    recorded: tuple[int, int],
    *,
    floor: float | None = None,
    href: Callable[[int, int], str] | None = None,
    delay: float | None = None,
) -> dict[str, Any] | None:
    """Return the values of a template for slices taken together; None if nothing is on record.

    `href` returns the address of the runs between two times; `delay` is the time in seconds until a fall is
    found.
    """
    whole = measure(connection, slices, window, ()).get(())
    if whole is None:
        return None
    row, (first, last) = _report(connection, slices, window, whole), _range(window, recorded)
    step = step_for(first, last)
    steps = series(connection, slices, window, step).get((), {})
    # A single step is too short to estimate a design effect.
    effect = whole.design_effect
    points = [
        Point.of(start, each, _estimate(each, effect), href(start, start + step) if href else None)
        for start, each in sorted(steps.items())
    ]
    marks = _marks(connection, slices, window, step, first)
    label = f"Mean score over time of {row.slice['scorer_id']}; the table below has the numbers"
    plot = Markup(timeline(points, step, label, scale=whole.scale, floor=floor, marks=marks))
    sentence = _sentence(row, delay)
    return {"row": row, "sentence": sentence, "points": points, "step": step, "plot": plot}


def summary_of(
    connection: Connection, slices: Mapping[int, Any], window: Window, delay: float | None = None
) -> tuple[SliceReport, str] | None:
    """Return the report of slices taken together, and its sentence; None if nothing is on record."""
    whole = measure(connection, slices, window, ()).get(())
    if whole is None:
        return None
    row = _report(connection, slices, window, whole)
    return row, _sentence(row, delay)


def _report(
    connection: Connection, slices: Mapping[int, Any], window: Window, whole: Measured
) -> SliceReport:
    lacking = unrepresentative(connection, slices, window)
    return of_measured(dict(next(iter(slices.values()))), whole, lacking=lacking)


def _range(window: Window, recorded: tuple[int, int]) -> tuple[int, int]:
    first = recorded[0] if window.since is None else window.since
    return first, recorded[1] if window.until is None else window.until


def _sentence(row: SliceReport, delay: float | None) -> str:
    """Return a sentence with the mean, its interval, and the time until an alarm finds a fall of 0.05."""
    known = row.estimate
    if known.mean is None:
        return "No scored run of known probability."
    if not row.representative:
        return f"{number(known.mean)} in the sample, which is not representative of all runs."
    if known.too_few or known.interval is None:
        return f"Too few runs for a statement: {known.n_effective:.0f} effective."
    text = f"{number(known.mean)}, between {number(known.interval.low)} and {number(known.interval.high)}"
    if delay is not None:
        text += f"; a fall of {0.05 * (row.scale or 1):g} would raise an alarm in {_length(delay)}"
    return text + "."


def _estimate(measured: Measured, effect: float) -> Estimate:
    known = estimate(measured.scored, scaled=measured.scale is not None, inflation=effect)
    return known.in_units(measured.scale or 1.0)


def _length(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3600, "h")):
        if seconds >= 2 * unit:
            return f"about {seconds / unit:.0f} {name}"
    return f"about {max(seconds / 60, 1):.0f} min"


def _marks(
    connection: Connection, slices: Mapping[int, Any], window: Window, step: int, first: int
) -> list[tuple[int, str]]:
    """Return the first appearance of each agent version within the window."""
    by_version = series(connection, slices, window, step, ("agent_version",))
    starts = sorted((min(steps), version) for (version,), steps in by_version.items() if version and steps)
    return [(start, f"version {version}") for start, version in starts[-8:] if start > first]
