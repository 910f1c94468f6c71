"""Two versions of an agent."""

from __future__ import annotations

import itertools
import math
from statistics import fmean, median

import numpy as np
from simulations.alarms import buckets, stream
from simulations.tables import row, table
from simulations.traffic import LARGEST, LEVEL
from simulations.windows import windows

from otel_evals.statistics import difference, estimate, log_e_value_worse


def difference_coverage(design: str, name: str, n: int, repetitions: int) -> float:
    """Percent of pairs whose interval of the difference contains 0, both having the same mean."""
    pairs = zip(
        windows(design, name, n, repetitions), windows(design, name, n + 1, repetitions), strict=False
    )
    found = [difference(estimate(a), estimate(b)) for a, b in pairs]
    return 100 * fmean(each is not None and 0.0 in each.interval for each in found)


def live_comparison(
    design: str, fall: float, second: float, limit: int, rng: np.random.Generator
) -> int | None:
    """After how many scores of both versions the second is found to be worse; it has this share of them."""
    kind = "ratio, 0/1" if design == "ratio" else "errors, others fail"
    looks, step = 100, limit // 100
    sizes = round(step * (1 - second)), max(1, round(step * second))
    series = [
        list(itertools.accumulate(buckets(*stream(kind, drop, looks * size, rng), size)))
        for drop, size in zip((0.0, fall), sizes, strict=True)
    ]
    largest = LARGEST[design]
    for number, (a, b) in enumerate(zip(*series, strict=True), start=1):
        if log_e_value_worse(a, b, largest=(largest, largest)) >= math.log(1 / LEVEL):
            return number * sum(sizes)
    return None


def comparison(design: str, fall: float, second: float, limit: int, series: int) -> tuple[float, float]:
    """Percent of series that alarm, and the median number of scores it takes."""
    rng = np.random.default_rng([4, int(1000 * fall), int(100 * second)])
    found = [live_comparison(design, fall, second, limit, rng) for _ in range(series)]
    return 100 * fmean(f is not None for f in found), median(f or math.inf for f in found)


def versions(scale: float) -> None:
    """Two versions."""
    table("design", "values", "n", "difference covers", "expected")
    for design, name, n in itertools.product(("ratio", "errors"), ("rare", "mixed", "beta"), (50, 200, 1000)):
        percent = difference_coverage(design, name, n, int(1500 * scale) + 20)
        row(design, name, n, f"{percent:.1f}", "94.5-100")
    table("design", "second's share", "fall", "alarms", "median scores", "expected")
    cases = (
        ("ratio", 0.0, 0.5, 20_000, "false 0.7-1.0%"),
        ("errors", 0.0, 0.5, 20_000, "false 0.7-1.0%"),
        ("ratio", 0.02, 0.5, 40_000, "11,400"),
        ("ratio", 0.05, 0.5, 10_000, "2,200"),
        ("ratio", 0.1, 0.5, 4_000, "760"),
        ("errors", 0.02, 0.5, 50_000, "14,500"),
        ("errors", 0.05, 0.5, 12_000, "2,800"),
        ("errors", 0.1, 0.5, 4_000, "960"),
        ("ratio", 0.05, 0.1, 20_000, "5,950"),
    )
    for design, fall, second, limit, expected in cases:
        alarms, scores = comparison(design, fall, second, limit, int((200 if fall else 600) * scale) + 3)
        row(design, second, fall, f"{alarms:.1f}%", f"{scores:,.0f}", expected)
