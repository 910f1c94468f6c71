"""Which runs are scored is decided by trace id and run, and recorded on every score."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

from otel_evals import Rule, Run, sampling, scorer
from tests.behaviour.app import App
from tests.support.agents import SeededIds, agent_run

SEEDED = {"id_generator": SeededIds(5)}


@scorer(version="1", inline=True)
def one(run: Run) -> float:
    return 1.0


@scorer(version="1", inline=True)
def drawn(run: Run) -> float:
    """A number between 0 and 1 that belongs to the run, other than its sampling's."""
    return random.Random(f"score{run.trace_id}").random()


def sampled(rate: float, traces: list[str]) -> set[str]:
    return {trace for trace in traces if sampling.is_sampled(rate, int(trace, 16))}


def test_the_trace_id_decides_and_the_probability_is_recorded() -> None:
    app = App(Rule(one, sample=sampling.ratio(0.3)))
    traces = [app.run() for _ in range(100)]
    evaluations = app.settle()
    picked = sampled(0.3, traces)
    assert {e.trace_id for e in evaluations} == picked
    assert 10 < len(picked) < 55
    assert {(e.sampled.probability, e.sampled.rule) for e in evaluations} == {(0.3, "ratio(0.3)")}
    roots = {f"{s.context.trace_id:032x}" for s in app.spans() if "otel_evals.score.one" in s.attributes}  # type: ignore[union-attr]
    assert roots == picked


def fails(app: App) -> str:
    return app.run(during=lambda span: span.set_attribute("error.type", "Boom"))


@pytest.mark.parametrize(
    ("sampler", "wanted"),
    [
        ("always()", {"plain": 1.0, "failed": 1.0, "down": 1.0}),
        ("never()", {}),
        ("errors()", {"failed": 1.0}),
        ("attribute('feedback', 'down')", {"down": 1.0}),
        ("used_tool('delete_*')", {"deleted": 1.0}),
        ("errors() | attribute('feedback')", {"failed": 1.0, "down": 1.0}),
        ("errors() & attribute('feedback')", {}),
        ("slower_than(3600)", {}),
        ("per_minute(100)", {"plain": 1.0, "failed": 1.0, "down": 1.0, "deleted": 1.0}),
    ],
)
def test_samplers_are_written_as_text(sampler: str, wanted: dict[str, float]) -> None:
    app = App(Rule(one, sample=sampler))
    traces = {
        "plain": app.run(),
        "failed": fails(app),
        "down": app.run(during=lambda span: span.set_attribute("feedback", "down")),
        "deleted": app.run(tool="delete_order"),
    }
    found = {e.trace_id: e.sampled.probability for e in app.settle()}
    named = {name: found[trace] for name, trace in traces.items() if trace in found}
    assert named == (named if sampler == "always()" else wanted)
    assert len(named) == (4 if sampler == "always()" else len(wanted))


def test_a_rate_limit_per_stratum_lets_rare_kinds_through() -> None:
    app = App(Rule(one, sample=sampling.stratified("agent_name", 5)), tracing=SEEDED)
    for number in range(150):
        app.run(agent="rare" if number % 50 == 0 else "common")
    app.settle()
    kinds = Counter(scored.run.agent_name for scored in app.scored.runs)
    assert kinds["rare"] == 3
    assert 5 <= kinds["common"] <= 60, "a burst exceeds the limit by 37 runs at most"
    assert all(0 < (e.sampled.probability or 0) <= 1 for e in app.scored.evaluations)


def test_when_excludes_runs_and_its_errors_are_counted() -> None:
    def ends(run: Run) -> bool:
        if run.agent_name == "odd":
            raise SystemExit
        return run.agent_name != "other"

    app = App(Rule(one, when=ends), Rule(drawn, when={"agent_name": ["odd", "other"]}))
    for agent in ("odd", "other", "support", "odd"):
        app.run(agent=agent)
    app.settle()
    assert app.rule("one").not_sampled == {"predicate_failed": 2, "not_applicable": 1}
    assert (app.rule("one").scored, app.rule("drawn").scored) == (1, 3)


# --- cascades ---


def test_a_cascade_scores_exactly_where_the_first_scorer_was_low() -> None:
    """With the probability of the rule that it follows; every other run has its reason."""
    follows = Rule(one, sample=sampling.below("drawn", 0.5))
    first = Rule(drawn, sample=sampling.ratio(0.6), when=lambda run: run.agent_name != "other")
    app = App(follows, first)
    traces = [app.run() for _ in range(80)]
    others = [app.run(agent="other") for _ in range(10)]
    by_scorer: dict[str, dict[str, Any]] = {"one": {}, "drawn": {}}
    for evaluation in app.settle():
        by_scorer[evaluation.scorer_id][evaluation.trace_id] = evaluation
    low = {t for t, e in by_scorer["drawn"].items() if e.outcome.value < 0.5}
    assert set(by_scorer["drawn"]) == sampled(0.6, traces)
    assert set(by_scorer["one"]) == low
    assert {e.sampled.probability for e in by_scorer["one"].values()} == {0.6}
    assert app.rule("one").not_sampled == {
        "cascade_not_met": len(by_scorer["drawn"]) - len(low),
        "cascade_not_sampled": len(sampled(0.6, others)),
    }
    assert {s.run.trace_id for s in app.scored.runs if len(s.evaluations) == 2} == low
    both = {f"{s.context.trace_id:032x}" for s in app.spans() if "otel_evals.score.one" in s.attributes}  # type: ignore[union-attr]
    assert both == low


def test_a_cascade_follows_its_rule_without_waiting_for_slower_ones() -> None:
    @scorer(version="1")
    async def slow(run: Run) -> float:
        await asyncio.sleep(60)
        return 1.0

    app = App(Rule(slow), Rule(drawn), Rule(one, sample=sampling.below("drawn", 2)))
    began = time.monotonic()
    app.run()
    app.await_rule("one", lambda rule: rule.scored == 1)
    assert time.monotonic() - began < 30
    app.pipeline.shutdown(50)


def test_cascades_of_agents_follow_the_same_agent() -> None:
    @scorer(version="1", inline=True)
    def inner_is_low(run: Run) -> float:
        return 0.0 if run.agent_name == "inner" else 1.0

    follows = Rule(one, scope="agent", sample=sampling.below(inner_is_low, 0.5))
    app = App(Rule(inner_is_low, scope="agent"), follows)
    app.run(during=lambda _: agent_run(app.tracer, agent="inner"))
    app.settle()
    rule = app.rule("one@agent")
    assert (rule.scored, rule.not_sampled) == (1, {"cascade_not_met": 1})
    assert app.span("invoke_agent inner").attributes["otel_evals.score.one"] == 1.0


@pytest.mark.parametrize("outcome", ["declines", "fails"])
def test_a_cascade_on_a_scorer_without_a_score_is_not_sampled(outcome: str) -> None:
    from otel_evals import NotScored

    @scorer(id="first", version="1")
    def first(run: Run) -> Any:
        if outcome == "fails":
            raise KeyError("order")
        return NotScored(reason="no_claims")

    app = App(first, Rule(one, sample=sampling.below("first", 0.5)))
    app.run()
    app.settle()
    assert app.rule("one").not_sampled == {"cascade_not_scored": 1}


# --- OpenTelemetry's own sampling ---


@pytest.mark.parametrize(("trusted", "probability"), [(True, 0.25), (False, 0.5)])
def test_a_head_samplers_threshold_counts_where_it_is_trusted(trusted: bool, probability: float) -> None:
    state = TraceState([("ot", "th:8;rv:ff000000000000")])
    app = App(Rule(one, sample=sampling.ratio(0.5)), trust_remote=trusted)
    for number in range(1, 30):
        parent = SpanContext(number, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
        inside = set_span_in_context(NonRecordingSpan(parent))
        attributes = {"gen_ai.operation.name": "invoke_agent"}
        app.tracer.start_span("invoke_agent a", attributes=attributes, context=inside).end()
    evaluations = app.settle()
    assert {e.sampled.probability for e in evaluations} == {probability}
    assert (len(evaluations) == 29) is trusted
