"""The engine's counters, windows, queues and label sets when empty, with one item and at their limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals import NotScored, Rule, Run, scorer
from otel_evals._internal.accounting.counters import MOST_NAMES, OTHER
from otel_evals.destinations import DestinationStats
from otel_evals.sampling import Chance, Sampler
from tests.support.traffic import Live, agent_run
from tests.support.wired import wired


def counted(counts: Mapping[str, int], population: int) -> None:
    """Everything is counted, under at most the limit of names and the one for the rest."""
    assert sum(counts.values()) == population
    assert len(counts) <= MOST_NAMES + 1
    assert counts.get(OTHER, 0) == max(0, population - MOST_NAMES)


@pytest.mark.parametrize("population", [MOST_NAMES, 3 * MOST_NAMES])
def test_a_destination_counts_made_up_reasons_within_the_limit(population: int) -> None:
    stats = DestinationStats()
    for number in range(population):
        stats = stats.ended(f"r{number}", 1, {f"r{number}": 2}, left=1)
    assert stats.failed == population
    counted(stats.losses, population)
    assert sum(stats.lost_evaluations.values()) == 2 * population
    assert len(stats.lost_evaluations) <= MOST_NAMES + 1


class Whim(Sampler):
    """Gives each run a reason of its own for not sampling it."""

    def chance(self, run: Run, earlier: Any = None) -> Chance:
        return Chance(0.0, why=f"why-{run.trace_id}")

    def __str__(self) -> str:
        return "whim"


@pytest.mark.parametrize("population", [1, MOST_NAMES + 5])
def test_rules_count_made_up_reasons_types_and_models_within_the_limit(population: int) -> None:
    def fails(run: Run) -> float:
        raise type(f"Error{run.trace_id}", (Exception,), {})()

    def lacks(run: Run) -> NotScored:
        return NotScored(reason=f"lacks-{run.trace_id}")

    metrics = InMemoryMetricReader()
    rules = [Rule(scorer(id=f.__name__, inline=True)(f)) for f in (fails, lacks)]
    whim = Rule(scorer(id="whim", inline=True)(lambda run: 1.0), sample=Whim())
    always = Rule(scorer(id="always", inline=True)(lambda run: 1.0))
    with Live(*rules, whim, always, meters=MeterProvider([metrics])) as live:
        for number in range(population):
            agent_run(
                live.tracer,
                agent=f"agent-{number}",
                during=lambda span, number=number: span.set_attribute("gen_ai.request.model", f"m{number}"),
            )
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.check() == []
        counted(stats.rules["fails"].failed, population)
        counted(stats.rules["lacks"].not_scored, population)
        counted(stats.rules["whim"].not_sampled, population)
        data = metrics.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    labels: dict[Any, set[Any]] = {}
                    for point in metric.data.data_points:
                        own = dict(point.attributes or {})
                        rule = own.pop("gen_ai.evaluation.name", None)
                        for key, value in own.items():
                            labels.setdefault((rule, key), set()).add(value)
                    assert all(len(values) <= MOST_NAMES + 1 for values in labels.values()), metric.name


@pytest.mark.parametrize("population", [1, 3])
@pytest.mark.parametrize("scope", ["run", "agent", "conversation"])
def test_every_limit_at_one_still_ends_every_evaluation(population: int, scope: Any) -> None:
    async def body() -> None:
        judge = scorer(id="judge")(lambda run: 1.0)
        smallest = dict.fromkeys(
            ("max_open_traces", "max_spans_per_trace", "max_bytes", "max_conversations", "queue_size"), 1
        )
        async with wired(Rule(judge, scope=scope, concurrency=1), limits=smallest) as w:
            for _ in range(population):
                agent_run(w.tracer, during=lambda span: span.set_attribute("gen_ai.conversation.id", "c"))
                w.feed()
            await w.flush(ending=True)
            assert w.ledger.pending == 0

    asyncio.run(body())
