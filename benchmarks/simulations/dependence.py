"""Runs that resemble each other, scores that are missing, probabilities that are unknown."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
from simulations.tables import row, table
from simulations.traffic import RARE_ERRORS, inclusion, passing, scored, sums_of
from simulations.windows import hajek_plus_4

from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Sums, Tally, estimate, missing


def clustered(
    users: int,
    icc: float,
    rng: np.random.Generator,
    design: str,
    sizes: str = "even",
    *,
    mean: float = 0.9,
    counted: bool = False,
) -> tuple[Sums, Clusters]:
    """A sample of runs whose users differ; independent where icc is 0, all of a user alike where it is 1.

    Users have about 200 runs each, or `uneven` numbers of them: most have about a hundred, a few thousands.
    `counted` users are told apart, others are known by group.
    """
    counts = rng.geometric(1 / 200, users)
    if sizes == "uneven":
        counts = np.minimum(100 * (1 + rng.pareto(1.0, users)), 50_000).astype(int)
    if icc == 1.0 or mean in (0.0, 1.0):
        rates = np.repeat((rng.random(users) < mean).astype(float), counts)
    else:
        strength = (1 - icc) / icc if icc else 1e9
        rates = np.repeat(rng.beta(mean * strength, (1 - mean) * strength, users), counts)
    kin = np.repeat(np.arange(users), counts)
    groups = rng.integers(0, CLUSTER_GROUPS, users) + CLUSTER_GROUPS * np.arange(users)
    errors = rng.random(len(rates)) < RARE_ERRORS
    probability = inclusion(design, errors)
    picked = rng.random(len(rates)) < probability
    x = (rng.random(len(rates)) < rates).astype(float)[picked]
    w = 1 / probability[picked]
    columns = (np.bincount(kin[picked], each, users).tolist() for each in (w, w * x))
    rows = zip(groups.tolist(), *columns, strict=True)
    clusters = Clusters.of_sums({group: (weight, above) for group, weight, above in rows}, counted=counted)
    return sums_of(x, w) if len(x) else Sums(), clusters


def cluster_coverage(
    users: int, icc: float, design: str, repetitions: int, sizes: str = "even"
) -> tuple[float, float]:
    """Coverage in percent, without and with groups."""
    rng = np.random.default_rng([users, int(100 * icc)])
    alone, grouped = [], []
    for _ in range(repetitions):
        sums, clusters = clustered(users, icc, rng, design, sizes)
        if sums.n:
            alone.append(0.9 in hajek_plus_4(sums))
            interval = estimate(sums, clusters=clusters).interval
            grouped.append(interval is not None and 0.9 in interval)
    return 100 * fmean(alone), 100 * fmean(grouped)


def counted_coverage(users: int, mean: float, icc: float, repetitions: int) -> tuple[float, float]:
    """Coverage in percent and mean width, of users that are counted."""
    rng = np.random.default_rng([users, int(100 * mean), int(100 * icc)])
    held, width = [], []
    for _ in range(repetitions):
        sums, clusters = clustered(users, icc, rng, "ratio", mean=mean, counted=True)
        interval = estimate(sums, clusters=clusters).interval
        if interval is not None:
            held.append(mean in interval)
            width.append(interval.width)
    return 100 * fmean(held), fmean(width)


def counted(scale: float) -> None:
    """Users that are told apart, of every mean."""
    likeness = (0.0, 0.2, 1.0)
    table("users", "mean", *(f"icc {icc:g}" for icc in likeness))
    for users, mean in itertools.product((5, 15, 50, 500), (0.0, 0.02, 0.5, 0.98, 1.0)):
        repetitions = int((250 if users == 500 else 1000) * scale) + 20
        found = (counted_coverage(users, mean, icc, repetitions) for icc in likeness)
        row(users, mean, *(f"{held:.1f} ({width:.3f})" for held, width in found))


def conversations(scale: float) -> None:
    """Runs of one conversation or user resemble each other."""
    table("users", "runs per user", "icc", "design", "ignored", "in 32 groups")
    cells = [
        (5, "even"),
        (15, "even"),
        (50, "even"),
        (200, "even"),
        (1000, "even"),
        (50, "uneven"),
        (200, "uneven"),
    ]
    for (users, sizes), icc, design in itertools.product(cells, (0.0, 0.2, 0.5), ("ratio", "errors")):
        ignored, grouped = cluster_coverage(users, icc, design, int(1000 * scale) + 20, sizes)
        row(users, sizes, icc, design, f"{ignored:.1f}", f"{grouped:.1f}")


def known_side(repetitions: int) -> tuple[float, float, float]:
    """`ratio(0.05) | when(f)`, f picking the bad: mean of all picks, of the known side's, and its
    coverage."""
    rng = np.random.default_rng(23)
    every, known, held = [], [], []
    for _ in range(repetitions):
        x = (rng.random(20_000) < 0.9).astype(float)
        chosen = rng.random(20_000) < np.where(x > 0, 0.005, 0.5)
        by_ratio = rng.random(20_000) < 0.05
        picked = chosen | by_ratio
        sums = sums_of(x[picked], np.where(by_ratio[picked], 20.0, 0.0))
        every.append(x[picked].mean())
        known.append(sums.wx / sums.w)
        held.append(0.9 in hajek_plus_4(sums))
    return fmean(every), fmean(known), 100 * fmean(held)


def missing_coverage(rate: float, repetitions: int, n: int = 400) -> tuple[float, float, float, float, float]:
    """Failing runs miss their score 4 times as often: share missing; coverage, width of complete cases,
    bounds."""
    rng = np.random.default_rng([24, int(1000 * rate)])
    found = []
    for _ in range(repetitions):
        x, w = scored("ratio", passing(0.9, 0.9), n, rng)
        lost = rng.random(n) < np.where(x > 0, rate, 4 * rate)
        sums = sums_of(x[~lost], w[~lost])
        gone = Tally(int(lost.sum()), w[lost].sum().item(), (w[lost] ** 2).sum().item(), 10.0)
        result, complete = missing(sums, gone), hajek_plus_4(sums)
        assert result.share is not None
        assert result.bounds
        found.append(
            (result.share, 0.9 in complete, complete.width, 0.9 in result.bounds, result.bounds.width)
        )
    share, held, width, bounded, bounds_width = (fmean(column) for column in zip(*found, strict=True))
    return share, 100 * held, width, 100 * bounded, bounds_width


def incomplete(scale: float) -> None:
    """Unknown probabilities, and missing scores."""
    every, known, held = known_side(int(500 * scale) + 10)
    table("truth", "all picks", "known side", "coverage", "expected")
    row(".900", f"{every:.3f}", f"{known:.3f}", f"{held:.1f}", ".460, .899, 94")
    table("missing", "complete cases", "bounds", "expected: complete cases, bounds")
    for rate, expected in ((0.1, "41 (.05), 100 (.18)"), (0.05, "84, 100")):
        share, held, width, bounded, bounds_width = missing_coverage(rate, int(1000 * scale) + 20)
        row(
            f"{100 * share:.1f}%",
            f"{held:.1f} ({width:.3f})",
            f"{bounded:.1f} ({bounds_width:.3f})",
            expected,
        )
