"""The README's rule, `ratio(0.05) | errors()`, live: metrics and tables show the mean of all runs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals._internal.offline.results import as_text
from otel_evals.sdk.commands import kin_of, tally
from otel_evals.statistics import Sums, estimate
from tests.support.sampled_traffic import SAMPLED, scored_sums, send
from tests.support.traffic import Live, SeededIds


def collected(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    return {metric.name: list(metric.data.data_points) for metric in found}


def sums_of(points: dict[str, list[Any]]) -> Sums:
    """What the five counters say."""

    def value(name: str) -> float:
        return sum(
            float(p.value)
            for p in points[f"otel_evals.estimate.{name}"]
            if p.attributes.get("otel_evals.outcome", "scored") == "scored"
        )

    names = ("runs", "score", "runs_squared", "score_cross", "score_squared")
    w, wx, ww, wwx, wwxx = map(value, names)
    return Sums(n=1, w=w, wx=wx, ww=ww, wwx=wwx, wwxx=wwxx)


@pytest.mark.slow
def test_the_mean_of_all_runs_is_in_metric_and_table() -> None:
    """Of 600 runs, all that failed are scored and a twentieth of the others; seeds are fixed."""
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader], shutdown_on_exit=False)
    with Live(SAMPLED, ids=SeededIds(3), meters=meters) as live:
        truth = send(live, random.Random(3), 600)
        assert live.flush()
        points = collected(reader)
        stats = live.pipeline.stats().rules["passes"]
        runs = live.scored.runs
    assert 0.86 < truth < 0.94
    assert 60 < stats.sampled < 120

    (plain,) = points["otel_evals.score"]
    assert plain.sum / plain.count < 0.6, "what a histogram of sampled runs says"
    metric = estimate(sums_of(points))
    assert metric.interval is not None
    assert truth in metric.interval
    assert metric.interval.width < 0.3

    evaluations = [e for scored in runs for e in scored.evaluations]
    kin = {scored.run.trace_id: kin_of(scored.run) for scored in runs}
    (tallied,) = tally([SAMPLED], evaluations, kin)
    assert tallied.mean == pytest.approx(metric.mean)
    assert tallied.interval == pytest.approx((metric.interval.low, metric.interval.high))
    assert tallied.n_effective == pytest.approx(scored_sums(evaluations).n_effective)
    assert f"{tallied.mean:.3f}" in as_text([tallied])
