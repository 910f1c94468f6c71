"""The sums behind weighted means as metrics: what is added, and that means come out right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from otel_evals._internal.attach.metrics import BoundedNames, Estimates
from otel_evals.model import Dropped, NotScored, Outcome, Run, Sampled, Score, ScorerFailure
from otel_evals.statistics import Sums, estimate, total
from tests.support.replacing import replace
from tests.support.scored import evaluation, scored_run

RUN = scored_run().run
SERIES = ("score", "runs_squared", "score_cross", "score_squared")


class Meters:
    """The counters of a scorer, and what a reader collects of them."""

    def __init__(self, scale: float | None = 1.0) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.estimates = Estimates(self._provider.get_meter("t"), {"s": scale}, BoundedNames())

    def record(self, outcome: Outcome, p: float | None, run: Run = RUN, **changes: Any) -> None:
        done = replace(evaluation("s", outcome), sampled=Sampled(p, "sampler"), **changes)
        self.estimates.record(run, done)

    def points(self, name: str, *, released: bool = True) -> list[NumberDataPoint]:
        if released:
            self.estimates.release()
        data = self._reader.get_metrics_data()
        found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        points = [p for m in found if m.name == f"otel_evals.estimate.{name}" for p in m.data.data_points]
        return [p for p in points if isinstance(p, NumberDataPoint)]

    def value(self, name: str, **attributes: str) -> float:
        """The sum over the points with these attributes, `_` for `.` in their names."""
        return sum(
            float(point.value)
            for point in self.points(name)
            if all((point.attributes or {}).get(k.replace("__", ".")) == v for k, v in attributes.items())
        )

    def sums(self) -> Sums:
        """What the metrics say, as sums."""
        return Sums(
            n=1,
            w=self.value("runs", otel_evals__outcome="scored"),
            wx=self.value("score"),
            ww=self.value("runs_squared"),
            wwx=self.value("score_cross"),
            wwxx=self.value("score_squared"),
        )


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=30),
    st.sampled_from([1.0, 5.0]),
)
def test_the_metrics_hold_the_mean_and_the_interval(runs: list[tuple[float, float]], scale: float) -> None:
    """Those that the sums of the very runs have."""
    meters = Meters(scale)
    for x, p in runs:
        meters.record(Score(value=x * scale), p)
    told = estimate(meters.sums())
    whole = estimate(total(Sums.of(x * scale / scale, 1 / p) for x, p in runs))
    assert told.mean == pytest.approx(whole.mean)
    assert told.n_effective == pytest.approx(whole.n_effective)
    assert told.interval
    assert whole.interval
    assert (told.interval.low, told.interval.high) == pytest.approx((whole.interval.low, whole.interval.high))


def test_all_series_of_an_agent_begin_at_zero_before_its_first_run_is_scored() -> None:
    """So that the first score is an increase; once only."""
    meters = Meters()
    meters.estimates.expect("s", replace(RUN, agent_name="support"))
    meters.record(Score(value=1.0), 0.5)
    meters.estimates.expect("s", replace(RUN, agent_name="support"))
    meters.estimates.expect("s", replace(RUN, agent_name=None))
    for name in (*SERIES, "runs"):
        support, nobody = sorted(meters.points(name), key=lambda p: -p.value)
        assert (support.value > 0, nobody.value) == (True, 0)
        assert dict(nobody.attributes or {}).keys() <= {"gen_ai.evaluation.name", "otel_evals.outcome"}
        assert (support.attributes or {})["gen_ai.agent.name"] == "support"


@pytest.mark.parametrize(
    ("outcome", "attributes"),
    [
        (
            NotScored(reason="no_claims"),
            {"otel_evals.outcome": "not_scored", "otel_evals.reason": "no_claims"},
        ),
        (Dropped(reason="queue_full"), {"otel_evals.outcome": "dropped", "otel_evals.reason": "queue_full"}),
        (
            ScorerFailure(error_type="timeout", message=""),
            {"otel_evals.outcome": "failed", "error.type": "timeout"},
        ),
    ],
)
def test_other_outcomes_count_by_their_reason_and_weigh_as_much(
    outcome: Outcome, attributes: dict[str, str]
) -> None:
    meters = Meters()
    meters.record(outcome, 0.05, rule="s@agent")
    (point,) = meters.points("runs")
    assert point.value == 20
    names = {"gen_ai.evaluation.name": "s@agent", "gen_ai.agent.name": "support"}
    assert dict(point.attributes or {}) == names | attributes
    assert not meters.points("score")


def test_what_cannot_be_weighed_and_what_was_counted_before_is_not_counted() -> None:
    meters = Meters()
    meters.record(Score(value=1.0), None)
    meters.record(Score(value=1.0), 0.5, revision=2)
    assert not meters.points("runs")


def test_a_scorer_without_a_scale_has_runs_and_no_sums_of_scores() -> None:
    """Its scores may be below zero, and a counter never falls."""
    meters = Meters(scale=None)
    meters.record(Score(value=-3.0), 0.5)
    assert meters.value("runs", otel_evals__outcome="scored") == 2
    assert not any(meters.points(name) for name in SERIES)


def test_each_series_is_collected_at_zero_before_its_first_weight() -> None:
    """For every outcome, whenever it begins; backends then lose none of it."""
    meters = Meters()
    seen: dict[tuple[str, str], list[float]] = {}

    def collect() -> None:
        meters.estimates.collecting()
        for name in (*SERIES, "runs"):
            for point in meters.points(name, released=False):
                outcome = str((point.attributes or {}).get("otel_evals.outcome", ""))
                seen.setdefault((name, outcome), []).append(float(point.value))

    for outcome in (Score(value=0.5), Dropped(reason="queue_full"), Score(value=0.5)):
        meters.estimates.expect("s", RUN)
        meters.record(outcome, 0.1)
        collect()
    meters.record(Score(value=0.5), 0.1)
    collect()
    collect()
    assert seen.keys() == {("runs", "scored"), ("runs", "dropped"), *((name, "") for name in SERIES)}
    assert {values[0] for values in seen.values()} == {0.0}
    assert (seen["runs", "scored"][-1], seen["runs", "dropped"][-1], seen["score", ""][-1]) == (30, 10, 15)
    meters.record(NotScored(reason="no_claims"), 0.1)
    meters.estimates.release()
    assert meters.value("runs", otel_evals__outcome="not_scored") == 10
