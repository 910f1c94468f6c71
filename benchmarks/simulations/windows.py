"""Closed windows: how often intervals hold, and how wide they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np
from simulations.tables import row, table
from simulations.traffic import (
    LARGEST,
    POPULATIONS,
    RARE_ERRORS,
    SHARE,
    Array,
    inclusion,
    limited_weights,
    rows,
    sums_of,
)

from otel_evals._internal.statistics.student import t_quantile
from otel_evals.statistics import Interval, Sums, band, estimate


def windows(
    design: str, name: str, n: int, repetitions: int, weights: Array | None = None, seed: int = 2026
) -> Iterator[Sums]:
    """Sums of windows with about n scored runs."""
    rng = np.random.default_rng([seed, n, *f"{design} {name}".encode()])
    population = POPULATIONS[name]
    size = n if weights is not None else round(n / SHARE[design])
    batch = max(1, min(repetitions, 2_000_000 // size))
    for done in range(0, repetitions, batch):
        shape = (min(batch, repetitions - done), size)
        errors = rng.random(shape) < RARE_ERRORS
        x = population.draw(rng, errors)
        if weights is not None:
            starts = rng.integers(0, len(weights) - n + 1, shape[0])
            w = weights[starts[:, None] + np.arange(n)]
        else:
            probability = inclusion(design, errors)
            w = np.where(rng.random(shape) < probability, 1 / probability, 0.0)
        yield from (sums for sums in rows(x, w) if sums.n)


def unweighted(sums: Sums, values: float) -> Interval:
    """Wilson's interval of the unweighted mean, as a table without weights shows it."""
    z, n, mean = 1.959964, sums.n, values / sums.n
    centre, half = mean + z * z / (2 * n), z * math.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return Interval((centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n))


def plain_t(sums: Sums) -> Interval:
    """The t interval of the linearised variance, without pseudo observations."""
    mean = sums.wx / sums.w
    df = max(1.0, sums.n_effective - 1)
    half = t_quantile(0.975, df) * math.sqrt(sums.spread(mean)) / sums.w
    return Interval(mean - half, mean + half)


def hajek_plus_4(sums: Sums) -> Interval:
    interval = estimate(sums).interval
    assert interval
    return interval


def coverage(
    intervals: Callable[[Sums], Interval], samples: Sequence[Sums], truth: float
) -> tuple[float, float]:
    """Share of samples whose interval contains the truth, in percent, and the mean width."""
    made = [intervals(sums) for sums in samples]
    return 100 * fmean(truth in each for each in made), fmean(each.width for each in made)


def cell(
    design: str, name: str, n: int, repetitions: int, weights: Array | None = None, seed: int = 2026
) -> tuple[float, float]:
    """Coverage in percent and mean width of the closed window's interval."""
    samples = list(windows(design, name, n, repetitions, weights, seed))
    return coverage(hajek_plus_4, samples, POPULATIONS[name].mean)


EXPECTED = {
    ("ratio", "rare", 50): "64 (.05); 99 (.13); 100 (.22)",
    ("ratio", "mixed", 1000): "95 (.041); 95.1 (.041); 100 (.076)",
    ("ratio", "crash", 200): "63 (.015); 99 (.036); 100 (.057)",
    ("errors", "mixed", 20): "80 (.29); 99 (.56); 100 (1.0)",
    ("errors", "rare", 200): "60 (.036); 99.5 (.090); 100 (.15)",
    ("errors", "mixed", 1000): "95 (.047); 96.2 (.050); 100 (.097)",
    ("stratified", "mixed", 200): "92 (.13); 96.6 (.14); 100 (.30)",
    ("steady", "mixed", 1000): "-; 95.1 (.050); -",
    ("bursty", "mixed", 20000): "-; 93.0 (.031); -",
}
LIMITED = ("stratified", "steady", "bursty")
SIZES = {20: "97.6", 50: "97.3", 200: "95.8", 1000: "94.7", 5000: "94.3", 20000: "92.9"}


def closed(scale: float) -> None:
    """Intervals of closed windows."""
    pools = {
        design: limited_weights(design, max(2_000, int(400_000 * scale)), np.random.default_rng(1))
        for design in LIMITED
    }
    shares = {design: pool.sum() ** 2 / (pool**2).sum() / len(pool) for design, pool in pools.items()}
    print("; ".join(f"{design}: n_eff is {100 * share:.0f}% of n" for design, share in shares.items()))
    table("design", "values", "n", "plain t", "Hajek+4", "e-process", "expected: the same three")
    for (design, name, n), expected in EXPECTED.items():
        pool = pools.get(design)
        if pool is not None and len(pool) < 2 * n:
            continue
        repetitions, truth = int(3000 * scale * min(1, 2000 / n)) + 20, POPULATIONS[name].mean
        samples = list(windows(design, name, n, repetitions, pool))
        shown = [coverage(f, samples, truth) for f in (plain_t, hajek_plus_4)]
        # Limiters have no largest weight: their weights are capped.
        largest = LARGEST.get(design) or float(np.quantile(pool, 0.95))
        capped = None if pool is None else np.minimum(pool, largest)
        live = list(windows(design, name, n, min(repetitions, 300), capped))
        shown.append(coverage(partial(band, largest=largest), live, truth))
        row(design, name, n, *(f"{percent:.1f} ({width:.3f})" for percent, width in shown), expected)
    # The worst of thirty is low by chance as well, so its coverage is measured again on new samples.
    table(
        "n",
        "worst of 30 cells",
        "cell",
        "on new samples",
        "worst but bursty",
        "cell",
        "on new samples",
        "expected worst",
    )
    for n, expected in SIZES.items():
        repetitions = int(3000 * scale * min(1, 2000 / n)) + 20
        cells = {
            (design, name): cell(design, name, n, repetitions, pools.get(design))[0]
            for design in ("ratio", "errors", *LIMITED)
            for name in POPULATIONS
            if n <= len(pools.get(design, range(n))) // 2 or design not in pools
        }
        shown = []
        for among in (cells, [key for key in cells if key[0] != "bursty"]):
            design, name = worst = min(among, key=cells.__getitem__)
            anew, _ = cell(design, name, n, 4 * repetitions, pools.get(design), seed=2027)
            shown += [f"{cells[worst]:.1f}", f"{design} {name}", f"{anew:.1f}"]
        row(n, *shown, expected)


def unscaled(scale: float) -> None:
    """Values without a scale, lognormal."""
    table("n", "coverage of the t interval", "expected")
    for n, expected in ((50, "86-89"), (200, "-"), (1000, "93-94")):
        rng, held = np.random.default_rng(n), []
        truth = math.exp(0.5)
        for _ in range(int(2000 * scale) + 20):
            w = rng.choice([1.0, 20.0], n, p=[0.1, 0.9])
            sums = sums_of(rng.lognormal(0, 1, n), w)
            held.append(truth in plain_t(sums))
            given = estimate(sums, scaled=False).interval
            assert (given is None) == (sums.n_effective < 200)
        row(n, f"{100 * fmean(held):.1f}", expected)
