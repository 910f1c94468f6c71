"""What becomes of each trace can be asked: explain, health, loss lines and cascades, in the live pipeline."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, set_span_in_context

import otel_evals
from otel_evals import Explanation, NotScored, Rule, Run, sampling
from otel_evals._internal.sampling.consistent import share
from otel_evals.errors import DestinationError
from otel_evals.model import ScoredRun
from otel_evals.scorers import Scorer, scorer
from otel_evals.testing import InMemoryDestination
from tests.support.traffic import Live, agent_run
from tests.support.waits import SECONDS, eventually


def draw(run: Run) -> float:
    """A number between 0 and 1 that belongs to a run, other than its sampling's."""
    return random.Random(f"score{run.trace_id}").random()


@scorer(inline=True)
def cheap(run: Run) -> float:
    return draw(run)


@scorer(inline=True)
def dear(run: Run) -> float:
    return 1.0


def waits(event: threading.Event, name: str = "waits") -> Scorer:
    async def wait(run: Run) -> float:
        while not event.is_set():  # noqa: ASYNC110  # set on another thread
            await asyncio.sleep(0.005)
        return 1.0

    return scorer(id=name, version="1")(wait)


def explain(live: Live, trace_id: int) -> Explanation:
    return live.pipeline.explain(trace_id)


def test_a_scored_trace_is_explained_from_its_spans_to_its_destination() -> None:
    with Live(Rule(cheap, sample=sampling.ratio(1)), Rule(dear, when=lambda r: False)) as live:
        trace = live.run()
        assert live.flush()
        answer = explain(live, trace)
    assert answer.status == "scored"
    assert (answer.spans, answer.runs, answer.dialects) == (3, 1, ("otel_genai",))
    scored, skipped = answer.decisions
    assert (scored.rule, scored.status, scored.attempts) == ("cheap", "scored", 1)
    assert scored.probability == 1.0
    assert 0 <= (scored.value or 0) <= 1
    assert (skipped.rule, skipped.status, skipped.reason) == ("dear", "not_sampled", "not_applicable")
    assert answer.deliveries == (("memory", "exported"),)
    assert "dear, span" in str(answer)
    assert "not_applicable (the rule's `when` excludes the run)" in str(answer)


def test_a_trace_that_lost_is_explained_with_the_numbers() -> None:
    """At the start, where nothing is kept of it, and by its rule, where another rule wanted more."""
    with Live(Rule(cheap, sample=sampling.ratio(0.2))) as live:
        traces = [live.run() for _ in range(30)]
        lost = next(t for t in traces if not sampling.is_sampled(0.2, t))
        answer = explain(live, lost)
        assert answer.status == "ruled_out"
        assert f"randomness, {share(sampling.randomness(lost)):.6f}" in str(answer)
        assert "below 0.800000, the lowest sampling threshold of all rules (probability 0.2)" in str(answer)
    with Live(Rule(cheap, sample=sampling.ratio(0.2)), Rule(dear)) as live:
        traces = [live.run() for _ in range(30)]
        lost = next(t for t in traces if not sampling.is_sampled(0.2, t))
        (decision,) = [d for d in explain(live, lost).decisions if d.rule == "cheap"] or [None]
        live.flush()
        (decision,) = [d for d in explain(live, lost).decisions if d.rule == "cheap"]
        assert decision is not None
        assert (decision.status, decision.reason) == ("not_sampled", "sampled_out")
        assert decision.threshold == pytest.approx(0.8)
        assert "< threshold 0.800000" in str(explain(live, lost))


def test_every_stage_a_trace_can_be_in_is_told() -> None:
    """Open, queued, running, dropped; unknown; and never mind the state, it is asked from another thread."""
    gate = threading.Event()
    with Live(Rule(waits(gate), concurrency=1), queue_size=1, grace=0.0) as live:
        attributes = {"gen_ai.operation.name": "invoke_agent"}
        with live.tracer.start_as_current_span("invoke_agent open", attributes=attributes) as root:
            trace = root.get_span_context().trace_id
            with live.tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
                pass
            answer = explain(live, trace)
            assert (answer.status, answer.waiting_spans) == ("waiting_for_root", 1)
        traces = [trace, live.run(), live.run()]
        eventually(lambda: live.pipeline.stats().eligible >= 3)
        assert [explain(live, t).status for t in traces] == ["pending", "pending", "dropped"]
        assert [explain(live, t).decisions[0].status for t in traces] == ["running", "queued", "dropped"]
        assert "queue_full (`queue_size` evaluations" in str(explain(live, traces[2]))
        gate.set()
        live.flush()
        assert [explain(live, t).status for t in traces] == ["scored", "scored", "dropped"]
        stranger = explain(live, 12345)
        assert stranger.status == "unknown"
        assert "no dialect claims its spans" in str(stranger)


def test_without_a_pipeline_explain_and_health_answer_too() -> None:
    otel_evals.shutdown()
    assert "Scoring is not configured." in str(otel_evals.explain("abc")) or (
        otel_evals.explain("abc").status == "ruled_out"
    )
    assert otel_evals.health().status == "idle"
    with pytest.raises(ValueError, match="not a trace id"):
        otel_evals.explain("nonsense")


# --- cascades ---


def test_a_cascade_scores_exactly_where_the_cheap_scorer_was_low() -> None:
    """Each with the probability of the rule it follows, and every other run with its reason."""
    rules = (
        Rule(dear, sample=sampling.below("cheap", 0.5)),
        Rule(cheap, sample=sampling.ratio(0.6), when=lambda run: run.agent_name != "other"),
    )
    with Live(*rules) as live:
        traces = [live.run() for _ in range(200)]
        others = [live.run(agent="other") for _ in range(20)]
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.check() == []
        by_scorer = {
            name: {e.trace_id: e for e in live.scored.evaluations if e.scorer_id == name}
            for name in ("cheap", "dear")
        }
        low = {t for t, e in by_scorer["cheap"].items() if e.outcome.value < 0.5}
        assert set(by_scorer["dear"]) == low
        assert all(e.sampled.probability == pytest.approx(0.6) for e in by_scorer["dear"].values())
        seen = {t for t in traces + others if sampling.is_sampled(0.6, t)}  # the ceiling is the cheap rule's
        assert stats.seen == len(seen)
        assert stats.rules["dear"].not_sampled == {
            "cascade_not_met": len(by_scorer["cheap"]) - len(low),
            "cascade_not_sampled": len(seen & set(others)),
        }
        assert all(len(s.evaluations) == 1 + (s.run.trace_id in low) for s in live.scored.runs)
        live.provider.force_flush()
        judged = [s for s in live.exported.get_finished_spans() if s.name == "invoke_agent support"]
        with_both = [s for s in judged if "otel_evals.score.dear" in s.attributes]
        assert {f"{s.context.trace_id:032x}" for s in with_both} == low


def test_a_waiting_cascade_is_told_and_shutdown_does_not_leave_it_waiting() -> None:
    """While the first scorer hangs the second waits; at the end it is not sampled, or dropped where it is."""
    gate = threading.Event()
    second = Rule(dear, sample=sampling.below("waits", 2))
    third = Rule(cheap, sample=sampling.below("waits", 2) | sampling.ratio(1))
    with Live(third, second, Rule(waits(gate), timeout=30)) as live:
        trace = live.run()
        live.flush(200)
        assert {d.rule: d.status for d in explain(live, trace).decisions} == {
            "waits": "running",
            "dear": "waiting",
            "cheap": "waiting",
        }
        assert live.pipeline.stats().check() == []
        live.pipeline.shutdown(300)
        gate.set()
        stats = live.pipeline.stats()
        assert stats.check() == []
        assert stats.rules["waits"].dropped == {"shutdown": 1}
        assert stats.rules["dear"].not_sampled == {"cascade_not_scored": 1}
        assert stats.rules["cheap"].dropped == {"shutdown": 1}
        assert explain(live, trace).status == "dropped"


def test_cascades_of_agents_follow_the_same_agent() -> None:
    """With `scope="agent"` each nested agent's second score follows its own first."""

    @scorer(inline=True)
    def inner_is_low(run: Run) -> float:
        return 0.0 if run.agent_name == "inner" else 1.0

    follower = Rule(dear, scope="agent", sample=sampling.below(inner_is_low, 0.5))
    with Live(Rule(inner_is_low, scope="agent"), follower) as live:
        live.run(during=lambda _: agent_run(live.tracer, agent="inner"))
        assert live.flush()
        rule = live.pipeline.stats().rules["dear@agent"]
        assert (rule.scored, rule.not_sampled) == (1, {"cascade_not_met": 1})
        live.provider.force_flush()
        assert live.span("invoke_agent inner").attributes["otel_evals.score.dear"] == 1.0


# --- health and loss lines ---


def test_health_notices_a_blocked_engine_and_its_recovery() -> None:
    """A scorer that blocks the engine's own thread: nothing beats, items wait."""
    inside, gate = threading.Event(), threading.Event()

    @scorer(inline=True)
    def blocks(run: Run) -> float:
        inside.set()
        gate.wait()
        return 1.0

    with Live(Rule(blocks), grace=0.0) as live:
        assert live.pipeline.health().status == "idle"
        live.run()
        assert inside.wait(SECONDS)
        live.run()
        time.sleep(0.4)  # the time without a beat counts, not what else goes on
        sick = live.pipeline.health(stalled_after=0.3)
        assert (sick.status, sick.ok, sick.thread_alive) == ("stalled", False, True)
        assert "blocked" in (sick.problem or "")
        assert sick.waiting > 0
        explain(live, 1)  # answers even while the engine is blocked
        gate.set()
        assert live.flush()
        well = live.pipeline.health()
        assert (well.status, well.problem, well.waiting, well.pending) == ("idle", None, 0, 0)
        assert well.last_end is not None


def test_health_names_destinations_that_refuse() -> None:
    class Refusing(InMemoryDestination):
        name = "refusing"

        async def export(self, batch: Sequence[ScoredRun]) -> None:
            raise DestinationError("503", retryable=True)

    from otel_evals import Pipeline
    from otel_evals._internal.config.loader import build_config

    provider = TracerProvider()
    config = build_config([cheap], [Refusing()], grace=0.0, shutdown_timeout=0.5)
    pipeline = Pipeline(config, tracer_provider=provider)
    provider.add_span_processor(pipeline.spans)
    trace = agent_run(provider.get_tracer("t"))
    assert eventually(lambda: pipeline.health().failing_destinations) == ("refusing",)
    assert not pipeline.health().ok
    provider.shutdown()
    assert pipeline.explain(trace).deliveries == (("refusing", "shutdown"),)
    assert pipeline.health().losses == {"scored runs for refusing (shutdown)": 1}


def test_an_overload_is_two_lines_and_every_loss_is_in_them(caplog: pytest.LogCaptureFixture) -> None:
    """Queue full for seconds: one line when it begins, one with the totals at the end."""
    gate = threading.Event()
    with caplog.at_level(logging.WARNING), Live(Rule(waits(gate), concurrency=1), queue_size=5) as live:
        end = time.monotonic() + 1.3
        while time.monotonic() < end:
            live.run()
            time.sleep(0.001)
        gate.set()
        live.flush()
        live.provider.shutdown()
        dropped = live.pipeline.stats().rules["waits"].dropped["queue_full"]
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("otel_evals")]
    assert len(lines) == 2
    assert lines[0].startswith("scoring is losing data: ")
    assert (
        lines[1]
        == f"scoring lost data before shutdown, in total: {dropped} evaluations by waits (queue_full)"
    )


# --- the answers add up ---


def mixed(seed: int) -> tuple[Rule, ...]:
    """Rules of every kind, with scorers that do what the trace id says."""

    @scorer(id="faulty", version="1")
    async def faulty(run: Run) -> float | NotScored:
        what = draw(run)
        if what < 0.1:
            raise KeyError("no such order")
        if what < 0.12:
            await asyncio.sleep(5)
        if what < 0.3:
            return NotScored(reason="no_claims")
        return what

    return (
        Rule(cheap, sample=sampling.ratio(0.5), when=lambda run: run.agent_name != "vip"),
        Rule(dear, sample=sampling.below("cheap", 0.3) & sampling.ratio(0.4) | sampling.errors()),
        Rule(faulty, sample=sampling.stratified("agent_name", 40), timeout=0.1, concurrency=2),
        Rule(scorer(id="agents", version="1", inline=True)(draw), scope="agent", sample=sampling.ratio(0.1)),
        Rule(
            scorer(id="broken", version="1", inline=True)(draw),
            sample=sampling.when(lambda run: 1 / (draw(run) > 0.05) < 0),
        ),
    )


def drive(live: Live, count: int, seed: int) -> list[int]:
    """Traces of every kind: plain, nested, failing, unjudgeable, unsampled, without an end."""
    rng, traces = random.Random(seed), []
    for number in range(count):
        if number % 100 < 90:  # most of the time the scorers keep up
            live.flush() if number % 10 == 0 else None
        kind = rng.random()
        if kind < 0.6:
            traces.append(live.run(agent=rng.choice(["support", "vip", "sales"])))
        elif kind < 0.75:
            traces.append(live.run(during=lambda _: agent_run(live.tracer, agent="inner")))
        elif kind < 0.85:
            attributes = {"gen_ai.operation.name": "invoke_agent", "error.type": "Boom"}
            with live.tracer.start_as_current_span("invoke_agent x", attributes=attributes) as span:
                traces.append(span.get_span_context().trace_id)
        elif kind < 0.9:
            attributes = {"gen_ai.operation.name": "embeddings"}
            with live.tracer.start_as_current_span("embed", attributes=attributes) as span:
                traces.append(span.get_span_context().trace_id)
        elif kind < 0.95:
            with live.tracer.start_as_current_span("GET /health") as span:
                traces.append(span.get_span_context().trace_id)
        else:
            traces.append(never_ends(live, rng))
    return traces


def never_ends(live: Live, rng: random.Random) -> int:
    """An inference below an agent that never ends."""
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    root = live.tracer.start_span("invoke_agent open", attributes=attributes)
    inside = set_span_in_context(root)
    live.tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat"}, context=inside).end()
    return root.get_span_context().trace_id


def tally(answers: Sequence[Explanation]) -> dict[str, Any]:
    """The counters as the answers tell them."""
    rules: dict[str, Counter[tuple[str, str | None]]] = {}
    ignored = Counter[str]()
    for answer in answers:
        ignored.update(answer.ignored)
        for d in answer.decisions:
            rules.setdefault(d.rule, Counter())[d.status, None if d.status == "scored" else d.reason] += 1
    return {"rules": rules, "ignored": ignored, "runs": sum(a.runs for a in answers)}


@pytest.mark.parametrize(
    "count", [200, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_explain_answers_for_every_trace_and_its_answers_add_up_to_the_counters(count: int) -> None:
    with Live(*mixed(1), queue_size=2, span_attributes=False) as live:
        traces = drive(live, count, seed=count)
        live.flush()
        live.pipeline.shutdown(2_000)
        answers = [explain(live, trace) for trace in traces]
        stats = live.pipeline.stats()

    assert stats.check() == []
    told = tally(answers)
    losses = {r for r in told["ignored"] if r.startswith(("span_", "log_"))}
    assert {r: n for r, n in told["ignored"].items() if r not in losses} == stats.ignored
    assert {r: n for r, n in told["ignored"].items() if r in losses} == stats.losses
    assert told["runs"] == stats.eligible + stats.ignored.get("trace_not_sampled", 0)
    for name, rule in stats.rules.items():
        book = Counter({("scored", None): rule.scored}) if rule.scored else Counter[Any]()
        for status in ("not_sampled", "not_scored", "failed", "dropped"):
            book.update({(status, reason): n for reason, n in getattr(rule, status).items()})
        assert told["rules"].get(name, Counter()) == book, name
    # Of every kind there is one. Which of a trace's decisions names its status depends on what was dropped.
    assert {a.status for a in answers} | {d.status for a in answers for d in a.decisions} >= {
        "scored",
        "not_sampled",
        "ignored",
        "unknown",
        "failed",
        "not_scored",
    }
    assert any(rule.dropped for rule in stats.rules.values())
    assert all(str(answer).count("\n") >= 1 for answer in answers)


def test_traces_that_lost_at_the_start_and_those_that_were_seen_are_all_there_are() -> None:
    """What explain says of each adds up, although nothing of the losers was kept."""
    with Live(Rule(cheap, sample=sampling.ratio(0.3))) as live:
        traces = [live.run() for _ in range(300)]
        assert live.flush()
        verdicts = Counter(explain(live, trace).status for trace in traces)
        stats = live.pipeline.stats()
    assert verdicts == {"scored": stats.rules["cheap"].scored, "ruled_out": len(traces) - stats.seen}


def test_the_metrics_of_the_funnel_are_the_books() -> None:
    """Every number that metrics report is one of the counters, and no counter is missing."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from otel_evals import Pipeline
    from otel_evals._internal.config.loader import build_config

    reader, provider = InMemoryMetricReader(), TracerProvider()
    rules = [Rule(cheap, sample=sampling.ratio(0.5)), Rule(dear, sample=sampling.below("cheap", 0.5))]
    meters = MeterProvider([reader])
    config = build_config([*rules, Rule(waits(threading.Event()), timeout=0.05)], grace=0.0, queue_size=5)
    pipeline = Pipeline(config, tracer_provider=provider, meter_provider=meters)
    provider.add_span_processor(pipeline.spans)
    tracer = provider.get_tracer("t")
    roots: list[Span] = []
    for _ in range(60):
        agent_run(tracer, during=roots.append)
    pipeline.force_flush()
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "late"}
    tracer.start_span("execute_tool late", attributes=tool, context=set_span_in_context(roots[0])).end()
    pipeline.force_flush()
    measured = reader.get_metrics_data()
    stats = pipeline.stats()
    provider.shutdown()
    assert measured is not None
    told = Counter[tuple[Any, ...]]()
    for metric in measured.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            a = dict(point.attributes or {})
            if metric.name in ("otel_evals.runs", "otel_evals.evaluations", "otel_evals.spans.lost"):
                reason = a.get("otel_evals.reason", a.get("error.type"))
                told[metric.name, a.get("gen_ai.evaluation.name"), a.get("otel_evals.outcome"), reason] += (
                    point.value
                )
    book = Counter({("otel_evals.runs", None, "eligible", None): stats.eligible})
    book.update({("otel_evals.runs", None, "ignored", r): n for r, n in stats.ignored.items()})
    book.update({("otel_evals.spans.lost", None, None, r): n for r, n in stats.losses.items()})
    for name, rule in stats.rules.items():
        book["otel_evals.evaluations", name, "scored", None] += rule.scored
        for end in ("not_sampled", "not_scored", "failed", "dropped"):
            book.update({("otel_evals.evaluations", name, end, r): n for r, n in getattr(rule, end).items()})
    assert told == book
    assert stats.losses == {"span_late": 1}
    assert stats.rules["waits"].dropped["queue_full"] > 0


def test_a_trace_from_another_service_is_explained_with_its_tracestate() -> None:
    """The head sampler's threshold is part of the numbers, seen or unseen, where it is believed."""
    from opentelemetry.trace import TraceState

    state = TraceState([("ot", "th:8;rv:f0000000000000")])
    parent = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    with Live(Rule(cheap, sample=sampling.ratio(0.5)), trust_remote=True) as live:
        attributes = {"gen_ai.operation.name": "invoke_agent"}
        inside = set_span_in_context(NonRecordingSpan(parent))
        live.tracer.start_span("invoke_agent a", attributes=attributes, context=inside).end()
        assert live.flush()
        (decision,) = explain(live, 7).decisions
        assert decision.status == "scored"
        assert decision.probability == pytest.approx(0.25)
        assert decision.threshold == pytest.approx(0.75)
        unseen = live.pipeline.explain(9, "ot=th:8;rv:b0000000000000")
        assert unseen.status == "ruled_out"
        assert "is below 0.750000" in str(unseen)
