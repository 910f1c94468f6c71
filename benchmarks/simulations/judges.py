"""Judges that err, and labels that correct them."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from simulations.tables import row, table
from simulations.traffic import passing, scored, sums_of
from simulations.windows import hajek_plus_4

from otel_evals.statistics import Labelled, corrected


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
