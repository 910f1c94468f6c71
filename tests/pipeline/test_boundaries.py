"""The engine's counters, windows, queues and label sets when empty, with one item and at their limits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals import NotScored, Rule, Run, Score, ScorerFailure, sampling, scorer
from otel_evals._internal.accounting.counters import MOST_NAMES, OTHER
from otel_evals._internal.accounting.ledger import TraceLog
from otel_evals._internal.accounting.problem_log import FailureLog, LossLog
from otel_evals._internal.attach.metrics import BoundedNames
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import DestinationStats
from otel_evals.model import ScoredRun
from otel_evals.sampling import Chance, Sampler
from otel_evals.testing import InMemoryDestination
from tests.support.runs import a_run
from tests.support.traffic import Live, agent_run
from tests.support.wired import wired

AROUND = (0, 1, MOST_NAMES - 1, MOST_NAMES, MOST_NAMES + 1, 3 * MOST_NAMES)


def near(limit: int) -> Any:
    """Populations at zero, at one and around a limit."""
    return st.sampled_from(sorted({0, 1, limit - 1, limit, limit + 1, 2 * limit}))


def counted(counts: Mapping[str, int], population: int) -> None:
    """Everything is counted, under at most the limit of names and the one for the rest."""
    assert sum(counts.values()) == population
    assert len(counts) <= MOST_NAMES + 1
    assert counts.get(OTHER, 0) == max(0, population - MOST_NAMES)


@pytest.mark.parametrize("population", AROUND)
def test_names_beyond_the_limit_share_one(population: int) -> None:
    bounded = BoundedNames()
    counted(Counter(bounded(f"n{number}") for number in range(population)), population)


@pytest.mark.parametrize("population", AROUND)
def test_a_destination_counts_made_up_reasons_within_the_limit(population: int) -> None:
    stats = DestinationStats()
    for number in range(population):
        stats = stats.ended(f"r{number}", 1, {f"r{number}": 2}, pending=False)
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


@pytest.mark.parametrize("population", [0, 1, MOST_NAMES, MOST_NAMES + 5])
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


@given(limit=st.integers(1, 4), data=st.data())
def test_the_trace_log_keeps_the_newest_up_to_its_limit(limit: int, data: Any) -> None:
    log, population = TraceLog(limit), data.draw(near(limit))
    for number in range(population):
        log.ignored(f"{number:032x}", "x", 1)
    assert len(log) == min(limit, population)
    assert [n for n in range(population) if log.get(f"{n:032x}")] == list(range(population))[-limit:]


@given(failed=st.lists(st.booleans(), max_size=120))
def test_a_window_of_outcomes_names_a_failing_rule_and_only_that(failed: list[bool]) -> None:
    log = FailureLog()
    for each in failed:
        log.note("a", ScorerFailure(error_type="E", message="m") if each else Score(value=1.0))
    last = failed[-50:]
    in_a_row = len(last) >= 10 and all(last[-10:])
    half = len(last) >= 20 and sum(last) * 2 >= len(last)
    assert bool(log.failing()) is (in_a_row or half)


@given(counts=st.lists(st.integers(0, 2), max_size=5))
def test_losses_are_logged_only_where_there_are_some(counts: list[int]) -> None:
    log, total = LossLog(every=0.0), 0
    for count in counts:
        total += count
        log.poll({"lost": total} if total else {})
    log.close({"lost": total} if total else {})


@given(capacity=st.integers(0, 3), data=st.data())
def test_a_backlog_admits_up_to_its_capacity_and_counts_the_rest(capacity: int, data: Any) -> None:
    backlog, population, waiting = Backlog(capacity, 1_000), data.draw(near(max(1, capacity))), 0
    for _ in range(population):
        waiting += backlog.admits(object(), waiting)
    assert (waiting, backlog.refused) == (min(capacity, population), max(0, population - capacity))
    assert backlog.left(waiting) == capacity - waiting


@given(queue_size=st.integers(1, 3), batch_size=st.integers(1, 3), data=st.data())
def test_a_delivery_queue_holds_up_to_its_size_and_drops_the_rest(
    queue_size: int, batch_size: int, data: Any
) -> None:
    population = data.draw(near(queue_size))

    async def body() -> None:
        kept = InMemoryDestination()
        fan_out = FanOut([kept], queue_size=queue_size, batch_size=batch_size, delay=0.0)
        for _ in range(population):
            fan_out.put(ScoredRun(run=a_run(), evaluations=()))
        assert fan_out.stats()["memory"].pending == min(queue_size, population)
        await fan_out.shutdown(5.0)
        stats = fan_out.stats()["memory"]
        assert (stats.exported, stats.pending) == (min(queue_size, population), 0)
        assert stats.losses == ({"queue_full": population - queue_size} if population > queue_size else {})

    asyncio.run(body())


@given(limit=st.integers(1, 3), data=st.data())
def test_a_rate_limit_samples_all_runs_up_to_the_limit(limit: int, data: Any) -> None:
    population = data.draw(near(limit))
    sampler = sampling.per_minute(limit, clock=lambda: 0.0)
    chances = [sampler.chance(a_run()).probability for _ in range(population)]
    assert all(chance == 1.0 for chance in chances[:limit])
    assert all(0.0 < chance < 1.0 for chance in chances[limit:])


@pytest.mark.parametrize("population", [0, 1, 2, 3])
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


def test_without_rules_and_without_runs_everything_is_zero() -> None:
    with Live() as live:
        assert live.flush()
        stats = live.pipeline.stats()
        assert (stats.seen, stats.rules, stats.losses, stats.check()) == (0, {}, {}, [])
        assert live.pipeline.health().status == "idle"
        assert live.pipeline.explain("1" * 32).status == "ruled_out"
