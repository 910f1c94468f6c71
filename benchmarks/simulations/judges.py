"""Judges that err, and labels that correct them."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from simulations.tables import row, table
from simulations.traffic import passing, scored, sums_of
from simulations.windows import hajek_plus_4

from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Labelled, corrected


def judge_coverage(
    sensitivity: float, specificity: float, labels: int, design: str, repetitions: int
) -> tuple[float, float, float, float]:
    """Coverage in percent and mean width, of the labels alone and corrected; 3,000 judged runs, truth 0.9."""
    rng = np.random.default_rng([5, labels, int(100 * specificity), *design.encode()])
    alone, both = [], []
    for _ in range(repetitions):
        y, w = scored("ratio", passing(0.9, 0.9), 3000, rng)
        if design == "errors":
            y, w = scored(design, passing(0.2, 0.88 / 0.9), 3000, rng)
        judged = (rng.random(3000) < np.where(y > 0, sensitivity, 1 - specificity)).astype(float)
        q = labels / 3000
        chosen = np.flatnonzero(rng.random(3000) < q)
        sample = [Labelled(y[i].item(), judged[i].item(), w[i].item(), q) for i in chosen]
        result = corrected(sums_of(judged, w), sample)
        assert result
        alone.append(hajek_plus_4(sums_of(y[chosen], w[chosen])))
        both.append(result.interval)
    shown = [(100 * fmean(0.9 in i for i in made), fmean(i.width for i in made)) for made in (alone, both)]
    return *shown[0], *shown[1]


def clustered_coverage(users: int, icc: float, labels: int, repetitions: int) -> tuple[float, float, float]:
    """Coverage in percent of the corrected mean, without and with clusters, and the width with them."""
    rng = np.random.default_rng([6, users, int(100 * icc), labels])
    alone, grouped = [], []
    for _ in range(repetitions):
        strength = (1 - icc) / icc
        rates = rng.beta(0.9 * strength, 0.1 * strength, users)
        who = rng.integers(0, users, 3000)
        groups = rng.integers(0, CLUSTER_GROUPS, users)[who]
        y = (rng.random(3000) < rates[who]).astype(float)
        judged = (rng.random(3000) < np.where(y > 0, 0.95, 0.3)).astype(float)
        w = np.full(3000, 10.0)
        chosen = np.flatnonzero(rng.random(3000) < labels / 3000)
        sample = [
            Labelled(y[i].item(), judged[i].item(), 10.0, labels / 3000, int(groups[i])) for i in chosen
        ]
        clusters = Clusters(
            tuple(np.bincount(groups, w * judged, CLUSTER_GROUPS).tolist()),
            tuple(np.bincount(groups, w, CLUSTER_GROUPS).tolist()),
        )
        sums = sums_of(judged, w)
        for found, given in ((alone, None), (grouped, clusters)):
            result = corrected(sums, sample, clusters=given)
            assert result
            found.append(result.interval)
    held = [100 * fmean(0.9 in i for i in found) for found in (alone, grouped)]
    return held[0], held[1], fmean(i.width for i in grouped)


def judges(scale: float) -> None:
    """A judge's errors, corrected by labels."""
    table("sensitivity, specificity", "labels", "design", "labels alone", "corrected", "expected")
    expected = {
        (0.98, 0.90): ("97 (.124) / 99 (.079)", "96 (.069) / 96.5 (.043)", "96 (.081) / 99 (.056)"),
        (0.95, 0.70): ("95 (.124) / 97 (.101)", "96 (.069) / 97 (.057)", "96 (.081) / 97 (.069)"),
        (0.90, 0.50): ("96 (.124) / 96 (.115)", "95.5 (.069) / 95 (.065)", "96 (.081) / 96 (.077)"),
    }
    for judge, figures in expected.items():
        for (labels, design), figure in zip(
            ((100, "ratio"), (300, "ratio"), (300, "errors")), figures, strict=True
        ):
            a, b, c, d = judge_coverage(*judge, labels, design, int(1000 * scale) + 20)
            row(judge, labels, design, f"{a:.1f} ({b:.3f})", f"{c:.1f} ({d:.3f})", figure)
    table("users", "icc", "labels", "users ignored", "users heeded")
    for users, icc, labels in (
        (30, 0.2, 300),
        (30, 0.5, 300),
        (100, 0.2, 300),
        (100, 0.5, 300),
        (1000, 0.5, 300),
    ):
        a, b, width = clustered_coverage(users, icc, labels, int(500 * scale) + 20)
        row(users, icc, labels, f"{a:.1f}", f"{b:.1f} ({width:.3f})")
