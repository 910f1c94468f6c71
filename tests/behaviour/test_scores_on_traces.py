"""Scores return to the trace in four ways: span attributes, events, evaluation spans and metrics."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_evals import Rule, Run, Score, sampling, scorer
from otel_evals.scorers import answered
from tests.behaviour.app import ROOT, App
from tests.support.agents import agent_run
from tests.support.waits import SECONDS, eventually

SCORE = "otel_evals.score.half"
SAYS = "it says It arrives on 2026-11-25."


@scorer(version="7", inline=True)
def half(run: Run) -> Score:
    return Score(value=0.5, label="medium", explanation=f"it says {run.output}")


@scorer(version="1", inline=True)
def one(run: Run) -> float:
    return 1.0


def test_the_four_ways_and_the_record_carry_the_same_score() -> None:
    app = App(half, evaluation_spans="same_trace")
    trace_id = app.run()
    (evaluation,) = app.settle()
    root, span, (event,) = app.span(), app.span("evaluate half"), app.events()

    assert (evaluation.trace_id, evaluation.span_id) == (trace_id, f"{root.context.span_id:016x}")
    assert evaluation.outcome == Score(
        value=0.5, label="medium", explanation="it says It arrives on 2026-11-25."
    )
    assert root.attributes[SCORE] == 0.5
    assert root.attributes[f"{SCORE}.label"] == "medium"
    assert root.attributes[f"{SCORE}.explanation"] == SAYS
    assert root.attributes[f"{SCORE}.evaluation_id"] == evaluation.evaluation_id
    assert (event.trace_id, event.span_id) == (root.context.trace_id, root.context.span_id)
    assert (span.context.trace_id, span.parent.span_id) == (root.context.trace_id, root.context.span_id)
    for attributes in (event.attributes, span.attributes):
        assert attributes["gen_ai.evaluation.name"] == "half"
        assert attributes["gen_ai.evaluation.score.value"] == 0.5
        assert attributes["gen_ai.evaluation.score.label"] == "medium"
        assert attributes["gen_ai.evaluation.explanation"] == SAYS
        assert attributes["otel_evals.evaluation.id"] == evaluation.evaluation_id
        assert attributes["otel_evals.scorer.version"] == "7"
        assert attributes["otel_evals.sampling.probability"] == 1.0
    (point,) = app.points("otel_evals.score")
    assert (point.sum, point.count) == (0.5, 1)
    assert point.attributes["gen_ai.evaluation.name"] == "half"
    assert point.attributes["gen_ai.agent.name"] == "support"


def test_the_other_spans_of_the_application_leave_as_they_were() -> None:
    app = App(half)
    app.run()
    app.settle()
    for name in ("chat m", "execute_tool lookup_order"):
        assert not [key for key in app.span(name).attributes if key.startswith("otel_evals")]
    assert len(app.exported.get_finished_spans()) == 3, "a scorer that calls no judge has no evaluation span"


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({"span_attributes": False}, "attributes"),
        ({"evaluation_events": False}, "events"),
        ({"evaluation_spans": "off"}, "spans"),
        ({"metrics": False}, "metrics"),
    ],
)
def test_each_way_can_be_switched_off_alone(options: dict[str, Any], gone: str) -> None:
    app = App(half, **{"evaluation_spans": "same_trace", **options})
    app.run()
    assert len(app.settle()) == 1
    present = {
        "attributes": SCORE in app.span().attributes,
        "events": len(app.events()) == 1,
        "spans": len(app.spans("evaluate half")) == 1,
        "metrics": len(app.points("otel_evals.score")) == 1,
    }
    assert [way for way, there in present.items() if not there] == [gone]


def test_the_event_of_a_failed_evaluation_names_the_error() -> None:
    @scorer(version="1")
    def raises(run: Run) -> float:
        raise KeyError("order")

    app = App(raises)
    app.run()
    app.settle()
    (event,) = app.events()
    assert event.attributes["error.type"] == "KeyError"
    assert "gen_ai.evaluation.score.value" not in event.attributes


def test_agents_are_judged_each_on_its_own_span() -> None:
    """A root judged as a run and as an agent has two ids: destinations overwrite by id."""
    app = App(one, Rule(one, scope="agent"))
    app.run(during=lambda _: agent_run(app.tracer, agent="inner"))
    found = {(e.rule, e.span_id): e.evaluation_id for e in app.settle()}
    outer, inner = (f"{app.span(f'invoke_agent {n}').context.span_id:016x}" for n in ("support", "inner"))
    assert set(found) == {("one", outer), ("one@agent", outer), ("one@agent", inner)}
    assert len(set(found.values())) == 3
    assert app.span("invoke_agent inner").attributes["otel_evals.score.one"] == 1.0


def test_metrics_of_the_mean_weigh_each_run_with_one_over_its_probability() -> None:
    app = App(Rule(half, sample=sampling.ratio(0.25)))
    for _ in range(40):
        app.run()
    scored = len(app.settle())
    assert scored > 0
    sums = {name: app.points(f"otel_evals.estimate.{name}") for name in ("runs", "score", "runs_squared")}
    values = {name: sum(point.value for point in points) for name, points in sums.items()}
    assert values == pytest.approx({"runs": 4 * scored, "score": 2 * scored, "runs_squared": 16 * scored})


# --- the hold ---


class TimedExporter(SpanExporter):
    """Keeps spans with the seconds from their end to their export."""

    def __init__(self) -> None:
        self.delays: dict[str, list[float]] = {}
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Any) -> SpanExportResult:
        for span in spans:
            self.spans.append(span)
            self.delays.setdefault(span.name, []).append(time.time() - span.end_time / 1e9)
        return SpanExportResult.SUCCESS


@scorer(version="1")
async def hanging(run: Run) -> float:
    await asyncio.sleep(60)
    return 1.0


def test_with_a_hanging_judge_no_span_is_lost_and_each_leaves_within_the_hold() -> None:
    exporter = TimedExporter()
    app = App(Rule(hanging, concurrency=4), exporter=exporter, hold=0.3)
    for _ in range(20):
        app.run()
    assert sorted({s.name for s in exporter.spans}) == ["chat m", "execute_tool lookup_order"]
    assert len(exporter.spans) == 40, "what nobody judges left at once, on the application's thread"
    eventually(lambda: len(exporter.spans) >= 60)
    assert len({s.context.span_id for s in exporter.spans}) == 60
    assert min(exporter.delays[ROOT]) >= 0.3
    app.pipeline.shutdown(100)
    assert app.rule("hanging").dropped == {"shutdown": 20}
    assert app.pipeline.stats().check() == []


def test_a_flush_of_the_provider_lets_every_span_go() -> None:
    app = App(hanging, hold=60)
    app.run()
    app.provider.force_flush(200)
    eventually(lambda: app.spans())
    app.pipeline.shutdown(50)


def test_more_spans_than_may_be_held_leave_without_scores() -> None:
    gate = threading.Event()

    @scorer(version="1")
    def gated(run: Run) -> float:
        gate.wait(SECONDS)
        return 1.0

    app = App(gated, hold=60, limits={"max_held_spans": 2})
    for _ in range(5):
        app.run()
    eventually(lambda: len(app.spans()) == 3)
    gate.set()
    app.settle()
    assert (
        sorted("otel_evals.score.gated" in (s.attributes or {}) for s in app.spans())
        == [False] * 3 + [True] * 2
    )


# --- what is read ---


def test_a_run_is_read_with_its_question_answer_and_tool_calls() -> None:
    app = App(answered())
    app.run()
    app.settle()
    (scored,) = app.scored.runs
    assert (scored.run.input, scored.run.output) == ("Where is order A-1001?", "It arrives on 2026-11-25.")
    ((call,),) = [scored.run.tool_calls]
    assert (call.name, call.arguments, call.result) == (
        "lookup_order",
        {"order_id": "A-1001"},
        {"eta": "2026-11-25"},
    )


def test_a_server_span_above_does_not_hold_a_run_open() -> None:
    app = App(one)
    with app.tracer.start_as_current_span("POST /chat"):
        app.run()
        app.scored.wait_for(1, SECONDS)


def test_a_tool_span_from_a_plain_thread_reaches_its_run() -> None:
    def tool_in_thread(root: Any) -> None:
        def work() -> None:
            token = context.attach(trace.set_span_in_context(root))
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "threaded"}
            app.tracer.start_span("execute_tool threaded", attributes=attributes).end()
            context.detach(token)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    app = App(one)
    app.run(during=tool_in_thread)
    app.settle()
    assert [call.name for call in app.scored.runs[0].run.tool_calls] == ["lookup_order", "threaded"]


def test_a_trace_that_the_application_did_not_sample_is_not_scored() -> None:
    app = App(one, tracing={"sampler": ALWAYS_OFF})
    app.run()
    assert app.settle() == []
    assert app.pipeline.stats().seen == 0


def test_what_a_scorer_causes_is_never_scored() -> None:
    """Its agents stand below its evaluation, marked; those in a thread of the engine too."""

    @scorer(version="1")
    async def judged(run: Run) -> float:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "judge"}
        with app.tracer.start_as_current_span("invoke_agent judge", attributes=attributes):
            await asyncio.to_thread(agent_run, app.tracer, agent="nested")
        return 1.0

    @scorer(version="1")
    def in_thread(run: Run) -> float:
        agent_run(app.tracer, agent="sync")
        return 1.0

    app = App(judged, in_thread)
    app.run()
    app.settle()
    app.settle()
    assert app.pipeline.stats().seen == 1
    assert [scored.run.agent_name for scored in app.scored.runs] == ["support"]
    evaluation, judge = app.span("evaluate judged"), app.span("invoke_agent judge")
    assert judge.parent.span_id == evaluation.context.span_id
    for name in ("judge", "nested", "sync"):
        assert app.span(f"invoke_agent {name}").attributes["otel_evals.internal"] is True
