"""Plot as SVG: a scorer's mean over time with its interval, and the number of runs on the same axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from otel_evals.statistics import Estimate
from otel_evals_monitor._internal.store.queries import Measured

_WIDTH, _LEFT, _RIGHT = 860, 46, 12
_TOP, _MEANS, _GAP, _COUNTS = 20, 190, 26, 70
_BOTTOM = _TOP + _MEANS + _GAP + _COUNTS
_STEPS = (60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400)


@dataclass(frozen=True, slots=True)
class Point:
    """One time step."""

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


def step_for(first: int, last: int, most: int = 100) -> int:
    """Return the seconds of a step, for at most `most` steps."""
    return next((step for step in _STEPS if (last - first) / step <= most), _STEPS[-1])


def timeline(
    points: Sequence[Point],
    step: int,
    label: str,
    *,
    scale: float | None = 1.0,
    floor: float | None = None,
    marks: Sequence[tuple[int, str]] = (),
) -> str:
    """Return the plot as an `svg` element; all texts are escaped.

    `label` describes it for screen readers, `scale` is the highest possible score, `floor` a horizontal line,
    `marks` are vertical lines with a text.
    """
    if not points:
        return ""
    frame = _Frame.around(points, step, scale, floor)
    box, name = f"0 0 {_WIDTH} {_BOTTOM + 22}", escape(label)
    role = "group" if any(p.href for p in points) else "img"  # links inside an image are not accessible
    shown = [(i, *mark) for i, mark in enumerate(marks) if frame.first <= mark[0] < frame.last]
    return "".join(
        [
            f'<svg class="plot" viewBox="{box}" role="{role}" aria-label="{name}">',
            *_grid(frame),
            *_band(frame, points),
            *_floor(frame, floor),
            *(_mark(frame, *mark) for mark in shown),
            *_counts(frame, points),
            *_dots(frame, points),
            "</svg>",
        ]
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Coordinates of times, scores and counts."""

    first: int
    last: int
    step: int
    lowest: float
    highest: float
    most: int

    @classmethod
    def around(cls, points: Sequence[Point], step: int, scale: float | None, floor: float | None) -> _Frame:
        ends = [v for p in points for v in (p.low, p.high, p.mean) if v is not None]
        ends += [] if floor is None else [floor]
        lowest, highest = min(ends, default=0.0), max(ends, default=scale or 1.0)
        margin = 0.08 * (highest - lowest) or 0.1
        lowest, highest = lowest - margin, highest + margin
        if scale is not None:
            lowest, highest = max(0.0, lowest), min(scale, highest)
        most = max((p.scored + p.missing + p.other for p in points), default=1)
        return cls(points[0].start, points[-1].start + step, step, lowest, highest, max(most, 1))

    def x(self, time: float) -> float:
        return _LEFT + (time - self.first) / max(self.last - self.first, 1) * (_WIDTH - _LEFT - _RIGHT)

    def middle(self, point: Point) -> float:
        return self.x(point.start + self.step / 2)

    def y(self, score: float) -> float:
        share = (score - self.lowest) / ((self.highest - self.lowest) or 1.0)
        return _TOP + _MEANS * (1.0 - min(1.0, max(0.0, share)))


def _grid(frame: _Frame) -> Iterator[str]:
    for score in _ticks(frame.lowest, frame.highest):
        y = frame.y(score)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4:.1f}">{score:g}</text>'
    base = _TOP + _MEANS + _GAP
    yield f'<text class="tick end" x="{_LEFT - 6}" y="{base + 8}">{frame.most}</text>'
    yield f'<text class="tick" x="{_LEFT}" y="{base - 6}">runs: scored, missing, not applicable</text>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_BOTTOM}" y2="{_BOTTOM}"/>'
    for time, text in _times(frame):
        yield f'<text class="tick middle" x="{frame.x(time):.1f}" y="{_BOTTOM + 16}">{text}</text>'


def _ticks(lowest: float, highest: float) -> Iterator[float]:
    rough = (highest - lowest) / 4 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    for i in range(math.ceil(lowest / size - 1e-9), math.floor(highest / size + 1e-9) + 1):
        yield round(i * size, 10)


def _times(frame: _Frame) -> Iterator[tuple[int, str]]:
    length = frame.last - frame.first
    step = next((s for s in (300, 900, 3600, 6 * 3600, 86_400, 7 * 86_400) if length / s <= 9), 28 * 86_400)
    form = "%H:%M" if step < 6 * 3600 else "%d %b %H:%M" if step < 86_400 else "%d %b"
    for time in range(-(-frame.first // step) * step, frame.last, step):
        if frame.x(time) > _LEFT + 20:
            yield time, datetime.fromtimestamp(time, UTC).strftime(form)


def _band(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for some in _together(frame, points):
        xs = [frame.middle(p) for p in some]
        upper = [f"{x:.1f},{frame.y(p.high or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        lower = [f"{x:.1f},{frame.y(p.low or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        line = [f"{x:.1f},{frame.y(p.mean or 0.0):.1f}" for x, p in zip(xs, some, strict=True)]
        yield f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>'
        yield f'<polyline class="mean" points="{" ".join(line)}"/>'


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


def _dots(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    for p in points:
        x = frame.middle(p)
        dot = "" if p.mean is None else f'cx="{x:.1f}" cy="{frame.y(p.mean):.1f}" r="3.2"/>'
        shape = dot and f'<circle class="dot" {dot}'
        width = max(frame.x(frame.first + frame.step) - _LEFT, 2.0)
        area = _rect("hit", x - width / 2, _TOP, width, _BOTTOM - _TOP)
        inside = f"<title>{escape(_title(p))}</title>{area}{shape}"
        # The keyboard reaches the table below, which has the same links.
        yield f'<a href="{escape(p.href)}" tabindex="-1">{inside}</a>' if p.href else f"<g>{inside}</g>"


def _title(p: Point) -> str:
    time = datetime.fromtimestamp(p.start, UTC).strftime("%Y-%m-%d %H:%M UTC")
    mean = "too few runs" if p.mean is None else f"{p.mean:.3f}, {p.low:.3f} to {p.high:.3f}"
    return f"{time}: {mean}; {p.scored} scored, {p.missing} missing, {p.other} not applicable"


def _floor(frame: _Frame, floor: float | None) -> Iterator[str]:
    if floor is not None:
        y = frame.y(floor)
        yield f'<line class="floor" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="tick end" x="{_WIDTH - _RIGHT}" y="{y - 4:.1f}">floor {floor:g}</text>'


def _mark(frame: _Frame, index: int, time: int, text: str) -> str:
    x, base = frame.x(time), _TOP - 6 + (index % 2) * 12
    line = f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>'
    side = "tick" if x < _WIDTH - 160 else "tick end"
    left = x + (4 if side == "tick" else -4)
    return f'{line}<text class="{side}" x="{left:.1f}" y="{base}">{escape(text)}</text>'


def _counts(frame: _Frame, points: Sequence[Point]) -> Iterator[str]:
    width = max((frame.x(frame.first + frame.step) - _LEFT) * 0.8, 1.0)
    for p in points:
        x, y = frame.middle(p) - width / 2, float(_BOTTOM)
        for kind, count in (("scored", p.scored), ("missing", p.missing), ("other", p.other)):
            if count:
                height = _COUNTS * count / frame.most
                y -= height
                yield _rect(kind, x, y, width, height)


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
