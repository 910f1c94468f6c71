"""Rules of scope `conversation` in the real pipeline: idle, resumed, evicted, sampled, explained, left."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals import Evaluation, NotScored, Pipeline, Rule, Run, Score, sampling
from otel_evals._internal.accounting.counters import ConversationStats
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.sampling.randomness import conversation_number
from otel_evals.scorers import Scorer, scorer
from otel_evals.testing import InMemoryDestination
from tests.support.scored_files import score_files
from tests.support.traffic import Live, agent_run
from tests.support.waits import eventually

IDLE = 0.5


@scorer(inline=True, version="1")
def turns(run: Run) -> Score:
    """A tenth for each turn, with what was said."""
    said = [m.text for m in (*run.history, *run.input_messages, *run.output_messages)]
    return Score(value=len(run.turns) / 10, explanation=" | ".join(said))


@scorer(inline=True, version="1")
def asked(run: Run) -> Score:
    return Score(value=1.0, explanation=run.input)


def say(live: Live, conversation: str, question: str = "q", answer: str = "a") -> int:
    """One turn of a conversation; returns its trace id."""
    return agent_run(
        live.tracer,
        question,
        answer,
        during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation),
    )


def whole(live: Live) -> list[Evaluation]:
    """Delivered evaluations of conversations."""
    live.flush()
    return [e for e in live.scored.evaluations if e.conversation_id is not None]


def of_conversations(scorer: Scorer = turns, **options: Any) -> Rule:
    return Rule(scorer, scope="conversation", **{"idle": IDLE, **options})


def ended(live: Live, count: int, name: str = "turns@conversation") -> None:
    eventually(lambda: live.pipeline.stats().rules[name].scored == count)


def test_stored_traces_tell_the_same_as_live_ones(tmp_path: Path) -> None:
    """Ids, revisions and scores, for a conversation that paused for longer than `idle`."""
    rule = of_conversations()
    with Live(rule) as live:
        say(live, "c1", "one", "1")
        say(live, "c1", "two", "2")
        ended(live, 1)
        time.sleep(IDLE)
        say(live, "c1", "three", "3")
        ended(live, 2)
        lived = whole(live)
        spans = encode_spans(live.exported.get_finished_spans()).SerializeToString()
    (tmp_path / "spans").write_bytes(spans)
    stored = InMemoryDestination()
    tallies, stats, _ = score_files([str(tmp_path / "spans")], build_config([rule], [stored]))
    assert [told(e) for e in stored.evaluations] == [told(e) for e in lived]
    assert [e.revision for e in lived] == [1, 2]
    assert [(t.scorer_id, t.scored) for t in tallies] == [("turns@conversation", 1)]
    assert stats.check() == []


def told(evaluation: Evaluation) -> tuple[Any, ...]:
    """What must not depend on when it was found out."""
    names = ("evaluation_id", "revision", "trace_id", "span_id", "conversation_id", "sampled", "outcome")
    return tuple(getattr(evaluation, name) for name in names)


def test_what_is_attached_names_the_conversation_and_links_its_runs() -> None:
    logs = InMemoryLogRecordExporter()
    loggers = LoggerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    with Live(Rule(asked)) as live:  # for its tracer and exporter
        options: dict[str, Any] = {"grace": 0.02, "evaluation_spans": "same_trace"}
        config = build_config([of_conversations()], [live.scored], **options)
        pipeline = Pipeline(config, tracer_provider=live.provider, logger_provider=loggers)
        live.provider.add_span_processor(pipeline.spans)
        traces = [say(live, "c1", f"q{n}") for n in range(3)]
        eventually(lambda: pipeline.stats().rules["turns@conversation"].scored == 1)
        pipeline.shutdown()
        live.flush()
        span = live.span("evaluate turns")
        roots = [s for s in live.exported.get_finished_spans() if s.name == "invoke_agent support"]
    (event,) = [r.log_record for r in logs.get_finished_logs()]
    for attributes in (span.attributes, event.attributes):
        assert attributes["gen_ai.conversation.id"] == "c1"
        assert attributes["otel_evals.conversation.turns"] == 3
        assert attributes["gen_ai.evaluation.score.value"] == pytest.approx(0.3)
        assert attributes["otel_evals.evaluation.revision"] == 1
    assert event.event_name == "gen_ai.evaluation.result"
    assert span.context.trace_id == event.trace_id == traces[2]
    assert [link.context.trace_id for link in span.links] == traces[:2]
    assert not any("otel_evals.score.turns" in root.attributes for root in roots)
    assert all("otel_evals.score.asked" in root.attributes for root in roots)
    loggers.shutdown()


def test_runs_that_come_out_of_order_are_judged_in_the_order_of_their_starts() -> None:
    """The second turn ends while the first, which began before it, still goes on."""
    with Live(of_conversations()) as live:
        agent_run(
            live.tracer,
            "one",
            "1",
            during=lambda span: (
                span.set_attribute("gen_ai.conversation.id", "c1"),
                agent_run_elsewhere(live, "two", "2"),
            ),
        )
        ended(live, 1)
        (evaluation,) = whole(live)
    assert evaluation.outcome.explanation == "one | 1 | two | 2"  # type: ignore[union-attr]


def agent_run_elsewhere(live: Live, question: str, answer: str) -> None:
    """A run of the same conversation in a trace of its own, begun inside another."""
    from opentelemetry import context

    token = context.attach(context.Context())
    try:
        say(live, "c1", question, answer)
    finally:
        context.detach(token)


def test_conversations_are_sampled_whole_and_by_their_own_number() -> None:
    rules = [
        of_conversations(sample=sampling.ratio(0.3)),
        of_conversations(asked, sample=sampling.ratio(0.6)),
    ]
    with Live(*rules) as live:
        names = [f"conversation {n}" for n in range(40)]
        for name in names * 2:
            say(live, name)
        live.pipeline.shutdown()
        stats = live.pipeline.stats()
        evaluations = [e for s in live.scored.runs for e in s.evaluations]
    for name, rate in (("turns", 0.3), ("asked", 0.6)):
        picked = {c for c in names if sampling.is_sampled(rate, conversation_number(c))}
        mine = [e for e in evaluations if e.scorer_id == name]
        assert {e.conversation_id for e in mine} == picked
        assert all(e.sampled.probability == pytest.approx(rate) for e in mine)
        rule = stats.rules[f"{name}@conversation"]
        assert (rule.sampled, rule.not_sampled) == (len(picked), {"sampled_out": 40 - len(picked)})
    assert all(e.outcome.value == 0.2 for e in evaluations if e.scorer_id == "turns")  # type: ignore[union-attr]
    assert stats.check() == []


def test_runs_that_tell_no_conversation_are_counted() -> None:
    with Live(of_conversations(), Rule(asked)) as live:
        trace = live.run()
        live.flush()
        stats, answer = live.pipeline.stats(), live.pipeline.explain(trace)
    assert stats.rules["turns@conversation"].not_sampled == {"no_conversation_id": 1}
    assert stats.check() == []
    assert answer.status == "scored"
    assert "the run has no conversation id" in str(answer)


def test_explain_tells_until_when_a_run_waits_and_what_came_of_its_conversation() -> None:
    with Live(of_conversations(idle=1.0, sample=sampling.ratio(1))) as live:
        before = time.time()
        traces = [say(live, "c1"), say(live, "c1")]
        eventually(lambda: live.pipeline.stats().eligible == 2)
        for trace in traces:
            answer = live.pipeline.explain(trace)
            (decision,) = answer.decisions
            assert answer.status == "pending"
            assert (decision.status, decision.conversation_id) == ("awaiting_idle", "c1")
            assert decision.until is not None
            assert before + 1.0 <= decision.until <= time.time() + 1.0
            assert "conversation c1: will be judged at " in str(answer)
        ended(live, 1)
        live.flush()
        for trace in traces:
            answer = live.pipeline.explain(trace)
            (decision,) = answer.decisions
            assert (answer.status, decision.status, decision.value) == ("scored", "scored", 0.2)
            assert "c1: sampled by ratio(1); score 0.2" in str(answer)
        say(live, "c1")
        eventually(lambda: live.pipeline.explain(traces[0]).status == "pending")
        assert "; last score 0.2" in str(live.pipeline.explain(traces[0]))


def test_a_gauge_tells_how_many_wait() -> None:
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    with Live(Rule(asked)) as live:  # for its tracer
        config = build_config([of_conversations(idle=300)], grace=0.02)
        pipeline = Pipeline(config, tracer_provider=live.provider, meter_provider=meters)
        live.provider.add_span_processor(pipeline.spans)
        say(live, "c1")
        say(live, "c2")
        eventually(lambda: pipeline.stats().eligible == 2)
        data = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
        pipeline.shutdown()
    metrics = data["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    (waiting,) = [m for m in metrics if m["name"] == "otel_evals.conversations.waiting"]
    assert [point["value"] for point in waiting["data"]["data_points"]] == [2]
    meters.shutdown()


def test_at_shutdown_conversations_that_wait_are_scored_beyond_what_the_queue_holds() -> None:
    with Live(of_conversations(idle=300), of_conversations(asked, idle=60), queue_size=3) as live:
        for number in range(50):
            say(live, f"c{number}")
        live.pipeline.shutdown()
        stats = live.pipeline.stats()
    assert [stats.rules[f"{n}@conversation"].scored for n in ("turns", "asked")] == [50, 50]
    assert stats.check() == []


def test_evicted_conversations_are_counted_as_dropped() -> None:
    with Live(of_conversations(idle=300, sample=sampling.ratio(0.5)), max_conversations=4) as live:
        names = [f"c{number}" for number in range(20)]
        for name in names:
            say(live, name)
        live.flush()
        picked = [sampling.is_sampled(0.5, conversation_number(name)) for name in names]
        rule = live.pipeline.stats().rules["turns@conversation"]
        assert rule.dropped == {"too_many_conversations": sum(picked[:16])}
        assert rule.not_sampled == {"sampled_out": 16 - sum(picked[:16])}
        assert live.pipeline.stats().check() == []
        assert live.pipeline.health().losses == {
            "evaluations by turns@conversation (too_many_conversations)": sum(picked[:16])
        }


def test_a_cascade_follows_a_conversations_score() -> None:
    rules = [
        of_conversations(asked, sample=sampling.below("turns", 0.2)),
        of_conversations(),
    ]
    with Live(*rules) as live:
        say(live, "short")
        for _ in range(3):
            say(live, "long")
        ended(live, 2)
        live.flush()
        stats = live.pipeline.stats()
        evaluations = whole(live)
    assert {e.conversation_id for e in evaluations if e.scorer_id == "asked"} == {"short"}
    assert stats.rules["asked@conversation"].not_sampled == {"cascade_not_met": 1}


def test_when_sees_the_whole_conversation() -> None:
    with Live(of_conversations(when=lambda run: len(run.turns) > 1)) as live:
        say(live, "one")
        say(live, "two")
        say(live, "two")
        live.pipeline.shutdown()
        rule = live.pipeline.stats().rules["turns@conversation"]
    assert (rule.scored, rule.not_sampled) == (1, {"not_applicable": 1})


FAULTS = ("none", "none", "raises", "declines", "hangs")


def faulty(seed: int) -> Scorer:
    async def judge(run: Run) -> float | NotScored:
        match random.Random(f"{seed}{run.trace_id}").choice(FAULTS):
            case "raises":
                raise KeyError("order")
            case "declines":
                return NotScored(reason="no_tool_calls")
            case "hangs":
                import asyncio

                await asyncio.sleep(60)
        return 1.0

    return scorer(id="faulty", version="1")(judge)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(2, 20), st.floats(0.2, 1.0))
def test_the_books_balance_at_every_moment(seed: int, most: int, queue_size: int, rate: float) -> None:
    """Conversations go on, fall idle, are evicted, fail and are cut off; each judging ends exactly once."""
    draw = random.Random(seed)
    rules = (
        of_conversations(faulty(seed), idle=0.05, timeout=0.05, concurrency=4, attempts=1),
        of_conversations(idle=0.1, sample=sampling.ratio(rate)),
        Rule(asked),
    )
    options = {"max_conversations": most, "queue_size": queue_size, "span_attributes": False}
    with Live(*rules, **options) as live:
        for number in range(150):
            if draw.random() < 0.9:
                say(live, f"c{draw.randrange(50)}")
            else:
                live.run()
            if number % 50 == 25:
                time.sleep(draw.choice((0.02, 0.08)))
            assert live.pipeline.stats().check() == []
        live.pipeline.shutdown(20_000)
        stats = live.pipeline.stats()
    assert stats.check() == []
    assert stats.eligible == stats.rules["asked"].sampled == 150
    assert (live.pipeline.stats().conversations, live.pipeline.engine.ledger.pending) == (
        ConversationStats(),
        0,
    )
    delivered = [e for e in live.scored.evaluations if e.scorer_id == "faulty"]
    assert len(delivered) == stats.rules["faulty@conversation"].sampled
    revisions = [(e.evaluation_id, e.revision) for e in delivered]
    assert len(revisions) == len(set(revisions))
