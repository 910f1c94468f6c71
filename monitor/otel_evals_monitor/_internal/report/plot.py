"""Plots as SVG: a scorer's mean and number of runs over time, and small plots for tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from otel_evals.statistics import Estimate
from otel_evals_monitor._internal.report.words import Zone, length_of
from otel_evals_monitor._internal.store.queries import Measured

_TOP, _MEANS, _GAP, _COUNTS = 38, 186, 24, 44
_BASE = _TOP + _MEANS
_BOTTOM = _BASE + _GAP + _COUNTS
STEPS = (60, 300, 600, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
"""Lengths of time steps in seconds."""
_TICKS = (300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Point:
    start: int
    mean: float | None
    """In units of the score; None with too few runs."""
    low: float | None
    high: float | None
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
        interval = None if known.too_few else known.interval
        return cls(
            start=start,
            mean=None if interval is None else known.mean,
            low=None if interval is None else interval.low,
            high=None if interval is None else interval.high,
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
    scale: float | None = 1.0
    """Highest possible score."""
    floor: float | None = None
    marks: Sequence[tuple[int, str]] = ()
    """Vertical lines, each with a text."""
    zone: Zone = field(default_factory=Zone)


def step_for(first: int, last: int, most: int = 100) -> int:
    return next((step for step in STEPS if (last - first) / step <= most), STEPS[-1])


def timeline(plot: Plot) -> str:
    """Return the plot twice, as `svg` elements for wide and for narrow screens; all texts are escaped."""
    if not plot.points:
        return ""
    return _svg(_Frame.around(plot, _WIDE), plot) + _svg(_Frame.around(plot, _NARROW), plot)


@dataclass(frozen=True, slots=True)
class _Layout:
    name: str
    width: int
    left: int
    right: int
    ticks: int
    """Largest number of labels on the time axis."""
    letter: float
    """Typical width of a letter."""


_WIDE = _Layout("wide", 1160, 46, 14, 12, 6.6)
_NARROW = _Layout("narrow", 400, 38, 8, 5, 7.0)


@dataclass(frozen=True, slots=True)
class _Frame:
    layout: _Layout
    zone: Zone
    first: int
    last: int
    step: int
    lowest: float
    highest: float
    most: int

    @classmethod
    def around(cls, plot: Plot, layout: _Layout) -> _Frame:
        ends = [v for p in plot.points for v in (p.low, p.high, p.mean) if v is not None]
        ends += [] if plot.floor is None else [plot.floor]
        lowest, highest = min(ends, default=0.0), max(ends, default=plot.scale or 1.0)
        margin = 0.08 * (highest - lowest) or 0.1
        lowest, highest = lowest - margin, highest + margin
        if plot.scale is not None:
            lowest, highest = max(0.0, lowest), min(plot.scale, highest)
        most = max((p.scored + p.missing + p.other for p in plot.points), default=1)
        # The axis has whole steps: the first and the last point are drawn in full.
        first, last = plot.span[0], max(plot.span[1], plot.span[0] + plot.step)
        first = min(first, *(p.start for p in plot.points)) if plot.points else first
        last = max(last, *(p.start + plot.step for p in plot.points)) if plot.points else last
        return cls(layout, plot.zone, first, last, plot.step, lowest, highest, max(most, 1))

    @property
    def right(self) -> float:
        return self.layout.width - self.layout.right

    def x(self, time: float) -> float:
        left = self.layout.left
        return left + (time - self.first) / max(self.last - self.first, 1) * (self.right - left)

    def middle(self, point: Point) -> float:
        return self.x(point.start + self.step / 2)

    def y(self, score: float) -> float:
        share = (score - self.lowest) / ((self.highest - self.lowest) or 1.0)
        return _TOP + _MEANS * (1.0 - min(1.0, max(0.0, share)))

    @property
    def bar(self) -> float:
        return max((self.x(self.first + self.step) - self.layout.left) * 0.8, 1.0)


def _svg(frame: _Frame, plot: Plot) -> str:
    linked = any(p.href for p in plot.points)
    role = "group" if linked else "img"  # links inside an image are not accessible
    box = f"0 0 {frame.layout.width} {_BOTTOM + 24}"
    name = f'role="{role}" aria-label="{escape(plot.label)}"'
    return "".join(
        [
            f'<svg class="plot {frame.layout.name}" viewBox="{box}" {name}>',
            *_grid(frame),
            *_band(frame, plot.points),
            *_floor(frame, plot.floor),
            *_marks(frame, plot.marks),
            *_counts(frame, plot.points),
            *_hits(frame, plot.points),
            "</svg>",
        ]
    )


def _grid(frame: _Frame) -> Iterator[str]:
    left = frame.layout.left
    for score in _ticks(frame.lowest, frame.highest):
        y = frame.y(score)
        yield f'<line class="grid" x1="{left}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{left - 6}" y="{y + 4:.1f}">{_compact(score)}</text>'
    base = _BASE + _GAP
    yield f'<text class="tick end" x="{left - 6}" y="{base + 8}">{_compact(frame.most)}</text>'
    unit = "hour" if frame.step == 3600 else length_of(frame.step).removeprefix("1 ")
    yield f'<text class="tick" x="{left}" y="{base - 6}">runs per {unit}</text>'
    yield f'<line class="axis" x1="{left}" x2="{frame.right}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>'
    for time, text in _times(frame):
        x = frame.x(time)
        half = len(text) * frame.layout.letter / 2
        x = min(max(x, left + half), frame.layout.width - half)
        yield f'<text class="tick middle" x="{x:.1f}" y="{_BOTTOM + 17}">{text}</text>'


def _compact(number: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= unit:
            return f"{number / (1e3 if name == 'k' else unit):.3g}{name}"
    return f"{number:g}"


def _ticks(lowest: float, highest: float) -> Iterator[float]:
    rough = (highest - lowest) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    # Rounding must not lose a tick at either end.
    for i in range(math.ceil(lowest / size - 1e-9), math.floor(highest / size + 1e-9) + 1):
        # Products such as 3 * 0.1 have digits of rounding error.
        yield round(i * size, 10)


def _times(frame: _Frame) -> Iterator[tuple[int, str]]:
    """Yield times of the axis with their labels, whole hours and days of the time zone."""
    length = frame.last - frame.first
    step = next((s for s in _TICKS if length / s <= frame.layout.ticks), 28 * _DAY)
    # One offset for the axis: ticks after a change of daylight saving are an hour off midnight.
    offset = frame.zone.offset(frame.first)
    for local in range(-(-(frame.first + offset) // step) * step, frame.last + offset, step):
        day = step >= _DAY or local % _DAY == 0
        time = local - offset
        yield time, frame.zone.at(time).strftime("%d %b" if day else "%H:%M")


def _band(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for some in _together(frame, points):
        xs = [frame.middle(p) for p in some]
        upper = [f"{x:.1f},{frame.y(p.high or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        lower = [f"{x:.1f},{frame.y(p.low or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        line = [f"{x:.1f},{frame.y(p.mean or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        if len(some) == 1:
            yield f'<line class="alone" x1="{xs[0]:.1f}" x2="{xs[0]:.1f}" {_ends(frame, some[0])}/>'
        yield f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>'
        yield f'<polyline class="mean" points="{" ".join(line)}"/>'


def _ends(frame: _Frame, p: Point) -> str:
    return f'y1="{frame.y(p.low or 0.0):.1f}" y2="{frame.y(p.high or 0.0):.1f}"'


def _together(frame: _Frame, points: Sequence[Point]) -> Iterator[list[Point]]:
    """Yield points joined by a line; steps with too few runs interrupt it."""
    some: list[Point] = []
    for point in points:
        if some and (point.mean is None or point.start - some[-1].start > frame.step):
            yield some
            some = []
        if point.mean is not None:
            some.append(point)
    if some:
        yield some


def _hits(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for p in points:
        x = frame.middle(p)
        shape = ""
        if p.mean is not None:
            shape = f'<circle class="dot" cx="{x:.1f}" cy="{frame.y(p.mean):.1f}" r="3"/>'
        width = max(frame.x(frame.first + frame.step) - frame.layout.left, 2.0)
        area = _rect("hit", x - width / 2, _TOP, width, _BOTTOM - _TOP)
        tip = _tip(frame, _title(frame, p))
        # The keyboard reaches the table below, which has the same links.
        inside = f"{area}{shape}{tip}"
        yield f'<a href="{escape(p.href)}" tabindex="-1">{inside}</a>' if p.href else f"<g>{inside}</g>"


def _tip(frame: _Frame, text: str) -> str:
    """Return a text that shows while the pointer is on its point, in a strip that nothing else uses."""
    return f'<text class="tip end" x="{frame.right}" y="13">{escape(text)}</text>'


def _title(frame: _Frame, p: Point) -> str:
    mean = "too few runs" if p.mean is None else f"{p.mean:.3f}, {p.low:.3f} to {p.high:.3f}"
    if frame.layout is _NARROW:
        return f"{frame.zone.short(p.start)}: {mean}"
    missing = f", {p.missing} missing" if p.missing else ""
    other = f", {p.other} not applicable" if p.other else ""
    return f"{frame.zone.short(p.start)} · {mean} · {p.scored} scored{missing}{other}"


def _floor(frame: _Frame, floor: float | None) -> Iterator[str]:
    if floor is not None:
        y = frame.y(floor)
        yield f'<line class="floor" x1="{frame.layout.left}" x2="{frame.right}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _marks(frame: _Frame, marks: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield vertical lines; a text that would cover the text before it is left out."""
    free = float(frame.layout.left)
    for time, text in marks:
        if not frame.first <= time < frame.last:
            continue
        x = frame.x(time)
        yield f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 8}" y2="{_BOTTOM}"/>'
        text = text if len(text) <= 24 else text[:23] + "…"
        width = len(text) * frame.layout.letter + 8
        side, start = ("tick", x + 4) if x + width < frame.right else ("tick end", x - width)
        if start >= free:
            left = x + (4 if side == "tick" else -4)
            yield f'<text class="{side}" x="{left:.1f}" y="{_TOP - 10}">{escape(text)}</text>'
            free = start + width


def _counts(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    width = frame.bar
    for p in points:
        x, y = frame.middle(p) - width / 2, float(_BOTTOM)
        for kind, count in (("scored", p.scored), ("missing", p.missing), ("other", p.other)):
            if count:
                height = _COUNTS * count / frame.most
                y -= height
                yield _rect(kind, x, y, width, height)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
