"""Plots as SVG: a scorer's mean and number of runs over time, and small plots for tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from otel_evals.statistics import Estimate, Interval
from otel_evals_monitor._internal.report.words import Zone, count, interval, length_of, number, one_line
from otel_evals_monitor._internal.store.queries import Measured

_TOP, _BASE, _BOTTOM = 38, 224, 292
_COUNTS = 44
_LEFT, _RIGHT = 46, 12
_Place = tuple[float, float]
"""x and y."""
_LETTER = 7
"""Typical width of a letter."""
STEPS = (60, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
"""Lengths of time steps in seconds."""
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Point:
    start: int
    mean: float
    interval: Interval | None
    """In units of the score, as the mean; None with too few runs."""
    scored: int
    missing: int
    """Runs that should have a score."""
    other: int
    """Runs to which the scorer does not apply."""
    n_effective: float
    href: str | None = None

    @classmethod
    def of(cls, start: int, measured: Measured, known: Estimate, href: str | None) -> Point:
        """Return a point from sums and their estimate in units of the score."""
        counts = measured.counts
        lost = measured.lost.n + measured.lost.unknown
        return cls(
            start=start,
            mean=known.mean or 0.0,
            interval=None if known.too_few else known.interval,
            scored=counts["scored"],
            missing=lost,
            other=sum(counts.values()) - counts["scored"] - lost,
            n_effective=known.n_effective,
            href=href,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    points: Sequence[Point]
    step: int
    span: tuple[int, int]
    """Start and end of the time axis."""
    label: str
    """Description for screen readers."""
    scale: float | None
    """Highest possible score."""
    floor: float | None
    marks: Sequence[tuple[int, str]]
    """Vertical lines, each with a text."""
    zone: Zone


def step_for(first: int, last: int, most: int = 100) -> int:
    return next((step for step in STEPS if (last - first) / step <= most), STEPS[-1])


def timeline(plot: Plot) -> str:
    """Return the plot twice, as `svg` elements for wide and for narrow screens; all texts are escaped."""
    if not plot.points:
        return ""
    return _svg("wide", 1160, plot) + _svg("narrow", 400, plot)


def _svg(name: str, width: int, plot: Plot) -> str:
    axes = _Axes.around(plot, width)
    parts = [
        *_grid(axes, plot),
        *_means(axes, plot.points),
        *_marks(axes, plot),
        *_counts(axes, plot.points),
        *_hits(axes, plot),
    ]
    # A group, since links inside an image are not accessible.
    box = {"viewBox": f"0 0 {width} {_BOTTOM + 24}", "role": "group", "aria-label": plot.label}
    return _element("svg", f"plot {name}", "".join(parts), **box)


@dataclass(frozen=True, slots=True)
class _Axes:
    """The range of times and scores of a plot, and where they are drawn."""

    right: int
    first: int
    last: int
    step: int
    low: float
    high: float
    most: int

    @classmethod
    def around(cls, plot: Plot, width: int) -> _Axes:
        ends = [end for p in plot.points if p.interval for end in (p.interval.low, p.interval.high)]
        # A floor beyond the scale is a mistake that the check for alarms names.
        ends += [] if plot.floor is None else [min(plot.floor, plot.scale or plot.floor)]
        low, high = min(ends, default=0.0), max(ends, default=plot.scale or 1.0)
        margin = 0.08 * (high - low) or 0.1
        low, high = low - margin, high + margin
        if plot.scale is not None:
            low, high = max(0.0, low), min(plot.scale, high)
        # The axis has whole steps: the first and the last point are drawn in full.
        first = min(plot.span[0], *(p.start for p in plot.points))
        last = max(plot.span[1], *(p.start + plot.step for p in plot.points))
        most = max(p.scored + p.missing + p.other for p in plot.points)
        return cls(width - _RIGHT, first, last, plot.step, low, high, max(most, 1))

    def x(self, time: float) -> float:
        return _LEFT + (time - self.first) / (self.last - self.first) * (self.right - _LEFT)

    def middle(self, point: Point) -> float:
        return self.x(point.start + self.step / 2)

    def y(self, score: float) -> float:
        return _BASE - (_BASE - _TOP) * (score - self.low) / (self.high - self.low)

    @property
    def width(self) -> float:
        """Width of a step."""
        return max(self.x(self.first + self.step) - _LEFT, 2.0)


def _grid(axes: _Axes, plot: Plot) -> Iterator[str]:
    for score in _ticks(axes.low, axes.high):
        y = axes.y(score)
        yield _line("grid", (_LEFT, y), (axes.right, y))
        yield _label("end", _LEFT - 6, y + 4, f"{score:g}")
    yield _label("end", _LEFT - 6, _BOTTOM - _COUNTS + 8, count(axes.most))
    unit = "hour" if axes.step == 3600 else length_of(axes.step).removeprefix("1 ")
    yield _label("", _LEFT, _BOTTOM - _COUNTS - 6, f"runs per {unit}")
    yield _line("axis", (_LEFT, _BOTTOM), (axes.right, _BOTTOM))
    for time, text in _times(axes, plot.zone):
        half = len(text) * _LETTER / 2
        x = min(max(axes.x(time), _LEFT + half), axes.right - half)
        yield _label("middle", x, _BOTTOM + 17, text)


def _ticks(low: float, high: float) -> Iterator[float]:
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    # Rounding must not lose a tick at either end.
    for i in range(math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9) + 1):
        # Products such as 3 * 0.1 have digits of rounding error.
        yield round(i * size, 10)


def _times(axes: _Axes, zone: Zone) -> Iterator[tuple[int, str]]:
    """Yield times of the axis with their labels, whole hours and days of the time zone."""
    step = step_for(axes.first, axes.last, axes.right // 80)
    first, last = zone.clock(axes.first), zone.clock(axes.last)
    for local in range(-(-first // step) * step, last, step):
        day, time = step >= _DAY or local % _DAY == 0, zone.when(local)
        yield time, zone.at(time).strftime("%d %b" if day else "%H:%M")


def _means(axes: _Axes, points: Sequence[Point]) -> Iterator[str]:
    for some in _together(axes, points):
        upper = [(axes.middle(p), axes.y(around.high)) for p, around in some]
        lower = [(axes.middle(p), axes.y(around.low)) for p, around in some]
        if len(some) == 1:
            yield _line("alone", upper[0], lower[0])
        yield _path("polygon", "band", [*upper, *reversed(lower)])
        yield _path("polyline", "mean", [(axes.middle(p), axes.y(p.mean)) for p, _ in some])


def _together(axes: _Axes, points: Sequence[Point]) -> list[list[tuple[Point, Interval]]]:
    """Return points joined by a line, with their intervals; steps with too few runs interrupt it."""
    found: list[list[tuple[Point, Interval]]] = []
    end = 0
    for point in points:
        if point.interval is not None:
            if point.start != end:
                found.append([])
            end = point.start + axes.step
            found[-1].append((point, point.interval))
    return found


def _marks(axes: _Axes, plot: Plot) -> Iterator[str]:
    """Yield the floor, and vertical lines; a text that would cover the text before it is left out."""
    if plot.floor is not None:
        y = axes.y(plot.floor)
        yield _line("floor", (_LEFT, y), (axes.right, y))
    free = float(_LEFT)
    for time, text in plot.marks:
        x, shown = axes.x(time), one_line(text, 24)
        yield _line("mark", (x, _TOP - 8), (x, _BOTTOM))
        start = min(x + 4, axes.right - len(shown) * _LETTER)
        if start >= free:
            yield _label("", start, _TOP - 10, shown)
            free = start + len(shown) * _LETTER + 8


def _counts(axes: _Axes, points: Sequence[Point]) -> Iterator[str]:
    width = 0.8 * axes.width
    for p in points:
        y = float(_BOTTOM)
        for kind in ("scored", "missing", "other"):
            height = _COUNTS * getattr(p, kind) / axes.most
            y -= height
            yield _element("rect", kind, x=axes.middle(p) - width / 2, y=y, width=width, height=height)


def _hits(axes: _Axes, plot: Plot) -> Iterator[str]:
    """Yield an area for each point; while the pointer is on it, its numbers show above the plot."""
    for p in plot.points:
        x, height = axes.middle(p), _BOTTOM - _TOP
        inside = _element("rect", "hit", x=x - axes.width / 2, y=_TOP, width=axes.width, height=height)
        mean = "too few runs"
        if p.interval is not None:
            inside += _dot(x, axes.y(p.mean), 3)
            mean = f"{number(p.mean)}, {interval(p.interval)}"
        text = f"{plot.zone.short(p.start)}: {mean}; {p.scored} scored"
        inside += _element("text", "tip end", escape(text), x=axes.right, y=13)
        # The keyboard reaches the table below, which has the same links.
        yield _element("a", "", inside, href=p.href, tabindex="-1") if p.href else f"<g>{inside}</g>"


def sparkline(points: Sequence[_Place], span: tuple[int, int], divide: int, scale: float | None) -> str:
    """Return a line of means by time, with a mark at the time `divide`.

    It has no text: the numbers are next to it.
    """
    if not points:
        return ""
    width, height = 132, 34
    low, high = min(y for _, y in points), max(y for _, y in points)
    capacity = max(high - low, 0.25 * (scale or abs(high) or 1.0))  # small changes stay small

    def at(time: float, mean: float) -> _Place:
        x = 3 + (time - span[0]) / max(span[1] - span[0], 1) * (width - 6)
        return x, height / 2 - (mean - (low + high) / 2) / capacity * (height - 10)

    placed, x = [at(*each) for each in points], at(divide, low)[0]
    parts = (
        _line("mark", (x, 2), (x, height - 2)) + _path("polyline", "mean", placed) + _dot(*placed[-1], 2.6)
    )
    box = {"viewBox": f"0 0 {width} {height}", "aria-hidden": "true"}
    return _element("svg", "spark", parts, **box)


def whisker(mean: float, interval: Interval, low: float, high: float) -> str:
    """Return an interval on an axis from `low` to `high`, for a table; its numbers are next to it."""

    def at(value: float) -> _Place:
        return 4 + (value - low) / ((high - low) or 1.0) * 172, 9

    bar = _line("bar", at(interval.low), at(interval.high))
    inside = _line("axis", at(low), at(high)) + bar + _dot(*at(mean), 4)
    return _element("svg", "interval", inside, **{"viewBox": "0 0 180 18", "aria-hidden": "true"})


def _line(kind: str, start: _Place, end: _Place) -> str:
    return _element("line", kind, x1=start[0], y1=start[1], x2=end[0], y2=end[1])


def _dot(x: float, y: float, r: float) -> str:
    return _element("circle", "dot", cx=x, cy=y, r=r)


def _path(name: str, kind: str, points: Iterable[_Place]) -> str:
    return _element(name, kind, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points))


def _label(side: str, x: float, y: float, text: str) -> str:
    return _element("text", f"tick {side}", escape(text), x=x, y=y)


def _element(name: str, kind: str, inside: str = "", **attributes: float | str) -> str:
    """Return an SVG element with escaped attributes."""
    given = (
        f'{key}="{escape(value) if isinstance(value, str) else f"{value:.1f}"}"'
        for key, value in attributes.items()
    )
    return f'<{name} class="{kind}" {" ".join(given)}>{inside}</{name}>'
