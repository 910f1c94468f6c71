"""Statistics of sampled scores: weighted means with intervals, comparisons and alarms.

All functions are pure. `docs/statistics.md` states the method and the coverage of each.
"""

from otel_evals._internal.statistics.bounds import missing
from otel_evals._internal.statistics.clusters import CLUSTER_GROUPS, Clusters
from otel_evals._internal.statistics.compare import difference, log_e_value_worse
from otel_evals._internal.statistics.detectors import (
    Detector,
    PickDetector,
    ReferenceDetector,
    missing_indicator,
    shared_threshold,
)
from otel_evals._internal.statistics.eprocess import band
from otel_evals._internal.statistics.estimate import Estimate, Interval, design_effect, estimate, wander
from otel_evals._internal.statistics.sums import Picks, Sums, Tally, total

__all__ = [
    "CLUSTER_GROUPS",
    "Clusters",
    "Detector",
    "Estimate",
    "Interval",
    "PickDetector",
    "Picks",
    "ReferenceDetector",
    "Sums",
    "Tally",
    "band",
    "design_effect",
    "difference",
    "estimate",
    "log_e_value_worse",
    "missing",
    "missing_indicator",
    "shared_threshold",
    "total",
    "wander",
]
