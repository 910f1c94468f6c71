"""The mean label of all runs, estimated from a judge's scores of many runs and people's labels of a few.

Prediction-powered inference with a tuned weight (PPI++: Angelopoulos, Duchi, Zrnic 2023, arXiv 2311.01453),
for weighted samples: theta = b F + mean of (y - b f) over the labelled runs, where F is the judge's mean over
all judged runs, y the label, f the judge's score of the same run, and b the weight of least variance. All
means are Hájek means; a labelled run has the weight w / q, with q the probability of choosing it for
labelling.

As in `estimate`, four pseudo labels of the typical weight keep the interval honest if labels are few or all
agree: one for each combination of a label and a judge's score of 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from otel_evals._internal.statistics.clusters import CLUSTER_GROUPS, Clusters, jackknife
from otel_evals._internal.statistics.estimate import Interval, check_confidence, check_values
from otel_evals._internal.statistics.student import t_quantile
from otel_evals._internal.statistics.sums import Sums

_PSEUDO = ((1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Labelled:
    """A judged run with a person's label.

    Raises:
        ValueError: a field is out of range; the message names it.
    """

    label: float
    """y, in 0..1."""
    judged: float
    """f, the judge's score divided by its scale, in 0..1."""
    w: float = 1.0
    """One over the probability that the run was judged; at least 1."""
    probability: float = 1.0
    """q: that it was chosen for labelling among the judged runs; above 0."""
    group: int = 0
    """Group of its user or conversation, of `CLUSTER_GROUPS`; used if the judged runs have clusters."""

    def __post_init__(self) -> None:
        for name, value in (("label", self.label), ("judged", self.judged)):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name}: must lie in 0..1, not {value!r}")
        if not 1.0 <= self.w <= 1e100:
            raise ValueError(f"w: must be one over a probability, so at least 1, not {self.w!r}")
        if not 0.0 < self.probability <= 1.0:
            raise ValueError(f"probability: must be above 0 and at most 1, not {self.probability!r}")
        if not 0 <= self.group < CLUSTER_GROUPS:
            raise ValueError(f"group: must be at least 0 and less than {CLUSTER_GROUPS}, not {self.group!r}")


@dataclass(frozen=True, slots=True)
class Corrected:
    """A judge's mean, corrected by labels."""

    mean: float
    interval: Interval
    confidence: float
    judge_weight: float
    """b, in 0..1: weight of the judge's scores of unlabelled runs; 0 uses the labels alone."""
    labels: int
    n_effective: float
    """Number of labels of equal weight with the same precision."""


def corrected(
    judged: Sums,
    labelled: Sequence[Labelled],
    *,
    confidence: float = 0.95,
    clusters: Clusters | None = None,
) -> Corrected | None:
    """Return the mean label of all runs and its confidence interval.

    Args:
        judged: sums of all judged runs, including the labelled runs; values in 0..1.
        labelled: the labelled runs.
        confidence: share of cases in which the interval holds, between 0 and 1.
        clusters: the judged runs by groups of conversations or users, whose runs are correlated.

    Returns:
        None without a judged or a labelled run.

    Raises:
        ValueError: `confidence` is out of range, or values are not within 0..1.
    """
    check_confidence(confidence)
    check_values(judged)
    if judged.mean is None or not labelled:
        return None
    sample = _Sample.of(labelled)
    padded, df = sample.with_pseudo_labels(), sample.n_effective + 3.0
    b, variance = padded.tuned(judged)
    if clusters:
        alike = padded.clustered(b, judged, clusters)
        if alike > variance:
            # As in `estimate`: the labels say as much as so many times fewer.
            padded = sample.with_pseudo_labels(min(alike / variance, sample.n_effective / 4.0))
            variance, df = padded.clustered(b, judged, clusters), Clusters(w=sample.groups).freedom
    mean = b * judged.mean + sample.rest(b)
    centre = b * judged.mean + padded.rest(b)
    t = t_quantile((1.0 + confidence) / 2.0, df)
    half = math.hypot(t * math.sqrt(variance), mean - centre)
    mean = min(1.0, max(0.0, mean))
    low, high = max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))
    return Corrected(
        mean=mean,
        interval=Interval(low, high),
        confidence=confidence,
        judge_weight=b,
        labels=len(labelled),
        n_effective=sample.n_effective,
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Labelled runs as (weight among the labelled, weight among the judged, label, judge's score, group)."""

    rows: tuple[tuple[float, float, float, float, int | None], ...]
    """Pseudo labels have no group."""

    @classmethod
    def of(cls, labelled: Sequence[Labelled]) -> _Sample:
        return cls(tuple((x.w / x.probability, x.w, x.label, x.judged, x.group) for x in labelled))

    @property
    def weight(self) -> float:
        return math.fsum(row[0] for row in self.rows)

    @property
    def n_effective(self) -> float:
        return self.weight**2 / math.fsum(row[0] ** 2 for row in self.rows)

    @property
    def groups(self) -> tuple[float, ...]:
        """Weight of the labels in each group."""
        found = [0.0] * CLUSTER_GROUPS
        for v, *_, group in self.rows:
            if group is not None:
                found[group] += v
        return tuple(found)

    def with_pseudo_labels(self, times: float = 1.0) -> _Sample:
        """Return the sample with four pseudo labels, each of so many times the typical weight."""
        typical = max(1.0, times) * self.weight / self.n_effective
        return _Sample((*self.rows, *((typical, 0.0, y, f, None) for y, f in _PSEUDO)))

    def rest(self, b: float) -> float:
        """Return the weighted mean of y - b f."""
        return math.fsum(v * (y - b * f) for v, _, y, f, _ in self.rows) / self.weight

    def tuned(self, judged: Sums) -> tuple[float, float]:
        """Return the b in 0..1 of least variance, and that variance.

        The variance is the sum of the squared influences alpha + b beta of the judged runs; a labelled run
        has influence as a judged run and as a labelled run.
        """
        total, labels = self.weight, self.rest(0.0)
        f_judged = judged.wx / judged.w
        f_labelled = labels - self.rest(1.0)
        variance = covariance = 0.0
        slope = judged.spread(f_judged) / judged.w**2
        for v, w, y, f, _ in self.rows:
            alpha = v * (y - labels) / total
            own = w * (f - f_judged) / judged.w
            beta = own - v * (f - f_labelled) / total
            variance += alpha * alpha
            covariance += alpha * beta
            slope += beta * beta - own * own
        b = min(1.0, max(0.0, -covariance / slope)) if slope > 0.0 else 0.0
        return b, max(0.0, variance + 2.0 * b * covariance + b * b * slope)

    def clustered(self, b: float, judged: Sums, clusters: Clusters) -> float:
        """Return the variance if all runs of a group are alike: of the sums of their influences."""
        total, rest = self.weight, self.rest(b)
        f_judged = judged.wx / judged.w
        influences = [
            b * (wx - f_judged * w) / judged.w for wx, w in zip(clusters.wx, clusters.w, strict=True)
        ]
        pseudo = 0.0
        for v, _, y, f, group in self.rows:
            influence = v * (y - b * f - rest) / total
            if group is None:
                pseudo += influence * influence
            else:
                influences[group] += influence
        return jackknife(influences, self.groups) + pseudo
