"""Small plots for tables, as SVG; their numbers are next to them."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals.statistics import Interval

_SPARK, _SPARK_HEIGHT = 132, 34


def sparkline(
    points: Sequence[tuple[float, float]], span: tuple[int, int], divide: int, scale: float | None
) -> str:
    """Return a line of means by time; the part before the time `divide` is drawn lighter.

    It has no text: the numbers are next to it.
    """
    if not points:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    capacity = max(high - low, 0.25 * (scale or (abs(high) or 1.0)))  # small changes stay small
    middle = (low + high) / 2
    width, height = _SPARK, _SPARK_HEIGHT

    def at(time: float, mean: float) -> tuple[float, float]:
        x = 3 + (time - span[0]) / max(span[1] - span[0], 1) * (width - 6)
        return x, height / 2 - (mean - middle) / capacity * (height - 10)

    placed = [at(*each) for each in points]
    before = [place for place, (time, _) in zip(placed, points, strict=True) if time < divide]
    after = placed[len(before) :]
    joined = [*before[-1:], *after]
    x = at(divide, middle)[0]
    parts = [f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="2" y2="{height - 2}"/>'] if before else []
    for kind, line in (("before", before), ("mean", joined)):
        if len(line) > 1:
            parts.append(
                f'<polyline class="{kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in line)}"/>'
            )
    last = placed[-1]
    parts.append(f'<circle class="dot" cx="{last[0]:.1f}" cy="{last[1]:.1f}" r="2.6"/>')
    return f'<svg class="spark" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>'


def whisker(mean: float, interval: Interval, low: float, high: float) -> str:
    """Return an interval on an axis from `low` to `high`, for a table; its numbers are next to it."""
    width, height = 180, 18

    def x(value: float) -> float:
        return 4 + (value - low) / ((high - low) or 1.0) * (width - 8)

    line = f'x1="{x(interval.low):.1f}" x2="{x(interval.high):.1f}" y1="9" y2="9"'
    inside = f'<line class="axis" x1="4" x2="{width - 4}" y1="9" y2="9"/><line class="bar" {line}/>'
    inside += f'<circle class="dot" cx="{x(mean):.1f}" cy="9" r="4"/>'
    return f'<svg class="interval" viewBox="0 0 {width} {height}" aria-hidden="true">{inside}</svg>'
