"""Metrics: instruments, units and attributes, and that observed counters say what the counters say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals import RuleStats, Stats
from otel_evals._internal.accounting.counters import ConversationStats
from otel_evals._internal.attach.evaluation_spans import judged_context
from otel_evals._internal.attach.metrics import Metrics
from otel_evals._internal.attach.observed import Measured
from otel_evals._internal.util.redis_server import redis_server
from otel_evals.destinations import DestinationStats
from otel_evals.errors import StoreError
from otel_evals.model import Score, StepRecord
from tests.support.replacing import replace
from tests.support.scored import OUTCOMES, SPAN, TRACE, evaluation, scored_run

STATS = Stats(
    seen=10,
    eligible=8,
    ignored={"unreadable": 2},
    losses={"span_late": 3},
    conversations=ConversationStats(waiting=4),
    rules={
        "judge": RuleStats(
            eligible=8,
            sampled=7,
            not_sampled={"sampled_out": 1},
            scored=2,
            not_scored={"no_tool_calls": 1},
            failed={"timeout": 1},
            dropped={"queue_full": 1},
            pending=2,
        )
    },
)
EXPORTS = {"jsonl": DestinationStats(exported=5, failed=1, dropped=2)}
RUN = scored_run().run


class Meters:
    """Metrics, and what a reader collects of them."""

    def __init__(self, stats: Stats = STATS, exports: Mapping[str, DestinationStats] = EXPORTS) -> None:
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.metrics = Metrics(provider.get_meter("t"), lambda: Measured(stats, 6, 7, exports))

    def collect(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}

    def points(self, name: str) -> dict[frozenset[tuple[str, Any]], Any]:
        points = self.collect()[name].data.data_points
        return {frozenset(p.attributes.items()): getattr(p, "value", getattr(p, "sum", None)) for p in points}


def of(**attributes: str) -> frozenset[tuple[str, Any]]:
    names = {
        "outcome": "otel_evals.outcome",
        "reason": "otel_evals.reason",
        "destination": "otel_evals.destination",
        "scorer": "gen_ai.evaluation.name",
        "error": "error.type",
        "agent": "gen_ai.agent.name",
        "model": "gen_ai.request.model",
        "judge": "otel_evals.judge.model",
    }
    return frozenset((names[name], value) for name, value in attributes.items())


def test_names_and_units() -> None:
    meters = Meters()
    redis_server("redis://127.0.0.1:1/0")  # is told of because it was named
    meters.metrics.record(RUN, evaluation("hallucination", OUTCOMES["hallucination"]))
    assert {name: metric.unit for name, metric in meters.collect().items()} == {
        "otel_evals.score": "1",
        "otel_evals.estimate.runs": "{run}",
        "otel_evals.evaluation.duration": "s",
        "otel_evals.judge.tokens": "{token}",
        "otel_evals.judge.cost": "{USD}",
        "otel_evals.runs": "{run}",
        "otel_evals.evaluations": "{evaluation}",
        "otel_evals.spans.lost": "{item}",
        "otel_evals.exports": "{run}",
        "otel_evals.queue.size": "{item}",
        "otel_evals.rules.failing": "1",
        "otel_evals.conversations.waiting": "{conversation}",
        "otel_evals.spans.held": "{span}",
        "otel_evals.shared.failures": "{call}",
    }


def test_failed_calls_to_shared_servers_are_counted_without_their_passwords() -> None:
    server = redis_server("redis://somebody:hidden@127.0.0.1:1/7")
    for _ in range(2):
        with pytest.raises(StoreError):
            server.value("n")
    points = Meters().points("otel_evals.shared.failures")
    assert points[frozenset({("otel_evals.shared.server", "redis://127.0.0.1:1/7")})] == server.failures == 2


def test_the_counters_are_observed_by_what_became_of_everything() -> None:
    meters = Meters()
    assert meters.points("otel_evals.runs") == {
        of(outcome="eligible"): 8,
        of(outcome="ignored", reason="unreadable"): 2,
    }
    assert meters.points("otel_evals.evaluations") == {
        of(scorer="judge", outcome="scored"): 2,
        of(scorer="judge", outcome="not_sampled", reason="sampled_out"): 1,
        of(scorer="judge", outcome="not_scored", reason="no_tool_calls"): 1,
        of(scorer="judge", outcome="dropped", reason="queue_full"): 1,
        of(scorer="judge", outcome="failed", error="timeout"): 1,
    }
    assert meters.points("otel_evals.spans.lost") == {of(reason="span_late"): 3}
    assert meters.points("otel_evals.exports") == {
        of(destination="jsonl", outcome="exported"): 5,
        of(destination="jsonl", outcome="failed"): 1,
        of(destination="jsonl", outcome="dropped"): 2,
    }
    gauges = ("queue.size", "conversations.waiting", "spans.held")
    assert [meters.points(f"otel_evals.{name}") for name in gauges] == [{of(): 6}, {of(): 4}, {of(): 7}]


def test_a_score_is_recorded_with_its_scorer_agent_and_model() -> None:
    meters = Meters()
    ended = replace(evaluation("hallucination", OUTCOMES["hallucination"]), duration=0.25)
    meters.metrics.record(RUN, ended)
    meters.metrics.record(RUN, ended)
    scorer = {"scorer": "hallucination", "agent": "support"}
    assert meters.points("otel_evals.score") == {of(**scorer, model="gpt-5-mini"): 0.5}
    assert meters.points("otel_evals.evaluation.duration") == {of(**scorer, outcome="scored"): 0.5}
    judge = of(scorer="hallucination", judge="openai/gpt-5-mini")
    assert meters.points("otel_evals.judge.tokens") == {judge: 214}
    assert meters.points("otel_evals.judge.cost") == {judge: 0.00084}


def test_a_score_is_recorded_in_the_context_of_the_judged_span() -> None:
    """So that exemplars tell the trace to look at, where a view or the environment switches them on."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], exemplar_filter=AlwaysOnExemplarFilter(), shutdown_on_exit=False)
    metrics = Metrics(provider.get_meter("t"), Measured)
    metrics.record(RUN, evaluation("hallucination", OUTCOMES["hallucination"]), judged_context(RUN, SPAN))
    data = reader.get_metrics_data()
    assert data is not None
    found = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
    (point,) = next(m.data.data_points for m in found if m.name == "otel_evals.score")
    assert [(e.trace_id, e.span_id) for e in point.exemplars] == [(int(TRACE, 16), int(SPAN, 16))]


def test_other_outcomes_have_a_duration_and_no_score() -> None:
    meters = Meters()
    for name in ("tool_call_accuracy", "answer_relevancy", "tone"):
        meters.metrics.record(replace(RUN, agent_name=None), evaluation(name, OUTCOMES[name]))
    assert "otel_evals.score" not in meters.collect()
    assert set(meters.points("otel_evals.evaluation.duration")) == {
        of(scorer="tool_call_accuracy", outcome="not_scored"),
        of(scorer="answer_relevancy", outcome="failed"),
        of(scorer="tone", outcome="dropped"),
    }


def test_an_unknown_price_costs_nothing_and_is_not_told_as_zero() -> None:
    meters = Meters()
    free = Score(value=1.0, steps=(StepRecord(name="analyze", model="m"),))
    meters.metrics.record(RUN, evaluation("a", free))
    assert "otel_evals.judge.cost" not in meters.collect()
    assert meters.points("otel_evals.judge.tokens") == {of(scorer="a", judge="m"): 0}


def test_nothing_counted_is_nothing_but_zeros() -> None:
    meters = Meters(Stats(), {})
    assert meters.points("otel_evals.runs") == {of(outcome="eligible"): 0}
    assert meters.points("otel_evals.conversations.waiting") == {of(): 0}
    assert not {"otel_evals.evaluations", "otel_evals.exports"} & meters.collect().keys()
