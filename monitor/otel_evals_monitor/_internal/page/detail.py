"""What the page and the HTML report tell of one scorer and agent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from sqlalchemy import Connection

from otel_evals.statistics import Estimate, design_effect, estimate, expected_delay
from otel_evals_monitor._internal.report.plot import Mark, Point, step_for, timeline
from otel_evals_monitor._internal.report.report import SliceReport, of_measured
from otel_evals_monitor._internal.report.terminal import number
from otel_evals_monitor._internal.store.queries import Measured, Window, measure, series

_PERIOD, _FALL = 1008, 0.05


@dataclass(frozen=True, slots=True)
class Detail:
    """One scorer and agent in a window of time."""

    row: SliceReport
    sentence: str
    points: Sequence[Point]
    step: int
    plot: Markup


def detail_of(
    connection: Connection,
    slices: Mapping[int, Any],
    window: Window,
    recorded: tuple[int, int],
    *,
    floor: float | None = None,
    href: Callable[[int, int], str] | None = None,
) -> Detail | None:
    """The plot and the sentence of some slices taken together; None if nothing is on record.

    Args:
        connection: from `Database.reading`.
        slices: which ones, by id.
        window: when.
        recorded: from when to when there is anything on record.
        floor: a mean to draw a line at.
        href: address of the runs between two times.
    """
    whole = measure(connection, slices, window, ()).get(())
    if whole is None:
        return None
    row = of_measured(dict(next(iter(slices.values()))), whole)
    first = recorded[0] if window.since is None else window.since
    last = recorded[1] if window.until is None else window.until
    step = step_for(first, last)
    steps = series(connection, slices, window, step).get((), {})
    effect = _effect(whole)
    points = [
        Point.of(start, each, _estimate(each, effect), href(start, start + step) if href else None)
        for start, each in sorted(steps.items())
    ]
    marks = _marks(connection, slices, window, step, first)
    label = f"Mean score over time of {row.slice['scorer_id']}; the table below has the numbers"
    picture = timeline(points, step, label, scale=whole.scale, floor=floor, marks=marks)
    return Detail(row, sentence_of(row, whole, last - first), points, step, Markup(picture))


def summary_of(
    connection: Connection, slices: Mapping[int, Any], window: Window, recorded: tuple[int, int]
) -> tuple[SliceReport, str] | None:
    """The report of some slices taken together, and its sentence; None if nothing is on record."""
    whole = measure(connection, slices, window, ()).get(())
    if whole is None:
        return None
    row = of_measured(dict(next(iter(slices.values()))), whole)
    first = recorded[0] if window.since is None else window.since
    last = recorded[1] if window.until is None else window.until
    return row, sentence_of(row, whole, last - first)


def sentence_of(row: SliceReport, measured: Measured, seconds: int) -> str:
    """The mean, how sure it is, and how soon a fall would show."""
    known = row.estimate
    if known.mean is None:
        return "No scored run of known probability."
    if known.too_few or known.interval is None:
        return f"Too few runs for a statement: {known.n_effective:.0f} effective."
    text = f"{number(known.mean)}, between {number(known.interval.low)} and {number(known.interval.high)}"
    delay = expected_delay(measured.scored, _FALL, period=_PERIOD) if row.scale else None
    if delay and seconds > 0 and known.n:
        text += f"; a fall of {_FALL * (row.scale or 1):g} would show in {_length(delay * seconds / known.n)}"
    return text + "."


def _effect(whole: Measured) -> float:
    """By how much conversations widen the intervals; each step is too short to tell by itself."""
    if whole.clusters is None or whole.clusters.groups < 2:
        return 1.0
    effect = design_effect(whole.scored, whole.clusters)
    return effect if math.isfinite(effect) else 1.0


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
) -> list[Mark]:
    """When each version of the agent was first seen, if that was within the window."""
    by_version = series(connection, slices, window, step, ("agent_version",))
    starts = sorted((min(steps), version) for (version,), steps in by_version.items() if version and steps)
    return [Mark(start, f"version {version}") for start, version in starts[-8:] if start > first]
