"""The live pipeline, end to end in process: what the application sees, and what becomes of every run."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import weakref
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals import Rule, Run, Score, sampling
from otel_evals.errors import DestinationError
from otel_evals.scorers import Scorer, scorer
from tests.support.traffic import Live, agent_run
from tests.support.waits import SECONDS, eventually


@scorer
def answered(run: Run) -> bool:
    return bool(run.output)


@scorer(inline=True)
def always_one(run: Run) -> float:
    return 1.0


@scorer(version="1")
async def hanging(run: Run) -> float:
    await asyncio.sleep(60)
    return 1.0


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


def test_a_run_is_scored_and_its_span_carries_the_score() -> None:
    """The judged span leaves with its score; the other spans leave as they were."""
    with Live(Rule(answered)) as live:
        trace_id = live.run()
        assert live.flush()
        (scored,) = live.scored.wait_for(1, SECONDS)
        assert scored.run.trace_id == f"{trace_id:032x}"
        assert scored.run.input == "Where is order A-1001?"
        assert scored.run.output == "It arrives on 2026-11-25."
        assert [c.name for c in scored.run.tool_calls] == ["lookup_order"]
        live.provider.force_flush()
        root = live.span("invoke_agent support")
        assert root.attributes["otel_evals.score.answered"] == 1.0
        assert root.attributes["otel_evals.score.answered.label"] == "true"
        assert not any(k.startswith("otel_evals") for k in live.span("chat m").attributes)


def test_in_the_same_trace_the_evaluation_span_stands_below_the_judged_span() -> None:
    """Marked as ours, with the score and how it was sampled."""
    with Live(Rule(answered, sample=sampling.ratio(1)), evaluation_spans="same_trace") as live:
        live.run()
        live.flush()
        live.provider.force_flush()
        root, evaluation = live.span("invoke_agent support"), live.span("evaluate answered")
        assert evaluation.context.trace_id == root.context.trace_id
        assert evaluation.parent.span_id == root.context.span_id
        assert evaluation.attributes["gen_ai.evaluation.score.value"] == 1.0
        assert evaluation.attributes["otel_evals.sampling.probability"] == 1.0
        assert evaluation.attributes["otel_evals.scorer.version"] == answered.version
        assert evaluation.attributes["otel_evals.internal"] is True


def test_with_a_hanging_judge_no_span_is_lost_and_each_leaves_within_the_hold() -> None:
    """Every span is sampled, every judge hangs, and the application's spans arrive complete and in time."""
    exporter = TimedExporter()
    with Live(Rule(hanging, timeout=30, concurrency=4), exporter=exporter, hold=0.3) as live:
        for _ in range(50):
            live.run()
        assert sorted({s.name for s in exporter.spans}) == ["chat m", "execute_tool lookup_order"]
        assert len(exporter.spans) == 100, "what nobody judges left at once, on the application's thread"
        eventually(lambda: len(exporter.spans) >= 150)
        mine = [s for s in exporter.spans if not s.name.startswith("evaluate")]
        assert len(mine) == 150
        assert len({s.context.span_id for s in mine}) == 150
        assert min(exporter.delays["invoke_agent support"]) >= 0.3
        live.pipeline.shutdown(200)
        rule = live.pipeline.stats().rules["hanging"]
        assert rule.dropped == {"shutdown": 50}
        assert live.pipeline.stats().check() == []


def test_a_flush_of_the_provider_lets_every_span_go() -> None:
    """Scored or not: after force_flush nothing that ended before it is held, and the judge had its chance."""
    exporter = TimedExporter()
    with Live(Rule(hanging, timeout=30), exporter=exporter, batch=True, hold=30) as live:
        live.run()
        live.provider.force_flush(1_000)  # true only if a busy machine leaves time to export
        eventually(lambda: len(exporter.spans) >= 3)
        assert {s.name for s in exporter.spans} >= {"invoke_agent support", "chat m"}
        live.pipeline.shutdown(100)


def test_sampling_is_by_trace_id_and_recorded() -> None:
    """The runs that are scored are exactly those that their trace id samples."""
    with Live(Rule(always_one, sample=sampling.ratio(0.3))) as live:
        traces = [live.run() for _ in range(200)]
        live.flush()
        picked = {f"{t:032x}" for t in traces if sampling.is_sampled(0.3, t)}
        assert {s.run.trace_id for s in live.scored.runs} == picked
        assert 20 < len(picked) < 110
        assert all(e.sampled.probability == pytest.approx(0.3) for e in live.scored.evaluations)
        assert all(e.sampled.rule == "ratio(0.3)" for e in live.scored.evaluations)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
def test_a_condition_that_would_end_a_thread_costs_its_own_run_only(error: type[BaseException]) -> None:
    def ends(run: Run) -> bool:
        if run.agent_name == "odd":
            raise error
        return True

    with Live(Rule(always_one, when=ends), Rule(answered)) as live:
        for agent in ("odd", "other", "odd", "other"):
            live.run(agent=agent)
        live.flush()
        stats = live.pipeline.stats()
        assert stats.rules["always_one"].not_sampled == {"predicate_failed": 2}
        assert stats.rules["always_one"].scored == 2
        assert stats.rules["answered"].scored == 4
        assert stats.check() == []


def test_a_server_span_above_does_not_hold_a_run_open() -> None:
    """The run closes with its agent, while the request is still being answered."""
    with Live(Rule(always_one)) as live, live.tracer.start_as_current_span("POST /chat"):
        live.run()
        live.scored.wait_for(1, SECONDS)


def test_a_tool_span_from_a_plain_thread_reaches_its_run() -> None:
    """Spans are joined by their ids, whatever thread ended them."""
    from opentelemetry import context, trace

    def tool_in_thread(root: Any) -> None:
        def work() -> None:
            token = context.attach(trace.set_span_in_context(root))
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "threaded"}
            with live.tracer.start_as_current_span("execute_tool threaded", attributes=attributes):
                pass
            context.detach(token)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    with Live(Rule(always_one)) as live:
        live.run(during=tool_in_thread)
        live.flush()
        (scored,) = live.scored.wait_for(1, SECONDS)
        assert [c.name for c in scored.run.tool_calls] == ["lookup_order", "threaded"]


def test_an_unsampled_trace_is_not_scored_and_nothing_is_emitted() -> None:
    """The tracer's own decision is respected."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    with Live(Rule(always_one)) as live:
        off = TracerProvider(sampler=ALWAYS_OFF)
        off.add_span_processor(live.pipeline.spans)
        agent_run(off.get_tracer("tests.off"))
        live.flush()
        assert live.pipeline.stats().seen == 0
        assert live.scored.runs == ()


def test_an_instrumented_judge_is_never_scored() -> None:
    """A judge that writes GenAI spans to the same provider stands below its evaluation, unscored."""

    @scorer
    async def judged(run: Run) -> float:
        attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "judge"}
        with live.tracer.start_as_current_span("invoke_agent judge", attributes=attributes):
            await asyncio.sleep(0)
            await asyncio.to_thread(agent_run, live.tracer, agent="nested-judge")
        return 1.0

    @scorer
    def judged_in_thread(run: Run) -> float:
        agent_run(live.tracer, agent="sync-judge")
        return 1.0

    with Live(Rule(judged), Rule(judged_in_thread)) as live:
        live.run()
        assert live.flush()
        assert live.flush()
        live.provider.force_flush()
        stats = live.pipeline.stats()
        assert stats.seen == 1
        assert [s.run.agent_name for s in live.scored.runs] == ["support"]
        evaluation, judge = live.span("evaluate judged"), live.span("invoke_agent judge")
        assert judge.parent.span_id == evaluation.context.span_id
        assert judge.context.trace_id == evaluation.context.trace_id
        root = live.span("invoke_agent support")
        assert evaluation.context.trace_id != root.context.trace_id
        assert [link.context.span_id for link in evaluation.links] == [root.context.span_id]
        found = root.attributes["otel_evals.score.judged.evaluation_id"]
        assert evaluation.attributes["otel_evals.evaluation.id"] == found
        assert judge.attributes["otel_evals.internal"] is True
        assert live.span("invoke_agent sync-judge").attributes["otel_evals.internal"] is True


def test_without_content_capture_log_lines_quote_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever raises what was said: scorers, conditions, samplers, preparations, destinations."""
    said = "order 1042 of Jane Doe"

    def quotes(run: Run) -> Any:
        raise ValueError(f"cannot judge {run.output}")

    class Echoing:
        name = "echoing"

        async def export(self, batch: Any) -> None:
            raise DestinationError(f"400: {batch[0].run.output}", retryable=False)

        async def shutdown(self) -> None:
            raise ValueError(said)

    class Unready(Scorer):
        id, version = "unready", "1"

        def prepare(self) -> None:
            raise ValueError(said)

        async def score(self, run: Run) -> Any:
            raise ValueError(run.output)

    rules = [
        Rule(scorer(id="raises", version="1")(quotes)),
        Rule(scorer(id="inline", version="1", inline=True)(quotes)),
        Rule(scorer(id="when", version="1")(quotes), when=quotes),
        Rule(scorer(id="sampler", version="1")(quotes), sample=sampling.when(quotes)),
        Rule(Unready()),
    ]
    with caplog.at_level(logging.INFO), Live(*rules, destinations=[Echoing()], capture_content=False) as live:
        live.run(answer=said)
        live.flush()
    assert {"raises", "unready"} <= live.pipeline.stats().rules.keys()
    assert caplog.text.count("ValueError") > 4
    assert said not in caplog.text


def test_attachments_can_be_switched_off() -> None:
    """Each way out obeys its option."""
    with Live(Rule(always_one), span_attributes=False, evaluation_spans=False) as live:
        live.run()
        live.flush()
        live.provider.force_flush()
        spans = live.exported.get_finished_spans()
        assert not any(s.name.startswith("evaluate") for s in spans)
        assert not any(k.startswith("otel_evals") for s in spans for k in s.attributes)
        assert live.pipeline.stats().rules["always_one"].scored == 1


def test_a_root_judged_as_a_run_and_as_an_agent_has_two_ids() -> None:
    """One scorer in both scopes: destinations overwrite by id, and these are two scores."""
    with Live(Rule(always_one), Rule(always_one, scope="agent")) as live:
        live.run()
        live.flush()
        found = {e.rule: (e.span_id, e.evaluation_id) for e in live.scored.evaluations}
        run, agent = found["always_one"], found["always_one@agent"]
        assert run[0] == agent[0]
        assert run[1] != agent[1]


def test_flushing_and_leaving_are_safe_at_any_time() -> None:
    """Before the first span, twice, from a scorer, and after leaving: no error, no hang."""

    @scorer
    def flushes(run: Run) -> bool:
        return live.pipeline.force_flush(1_000)

    with Live(Rule(flushes)) as live:
        assert live.flush()
        live.run()
        live.flush()
        live.pipeline.shutdown(500)
        live.pipeline.shutdown(500)
        assert live.flush() is False
        live.run()
        live.provider.force_flush()
        assert live.span("invoke_agent support") is not None


@pytest.mark.parametrize("metrics", [True, False])
def test_a_pipeline_that_is_over_is_let_go(metrics: bool) -> None:
    """A meter keeps its instruments as long as the process: reconfiguring must not pile up pipelines."""
    with Live(Rule(always_one), metrics=metrics, meters=MeterProvider(shutdown_on_exit=False)) as live:
        live.run()
        assert live.flush()
    pipeline = weakref.ref(live.pipeline)
    del live
    gc.collect()
    assert pipeline() is None


ENDS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, RecursionError]


@pytest.mark.parametrize("error", ENDS)
def test_a_redaction_that_would_end_a_thread_leaves_nothing_of_the_text(error: type[BaseException]) -> None:
    def odd(text: str) -> str:
        raise error

    @scorer(version="1")
    def explained(run: Run) -> Score:
        return Score(value=1.0, explanation="what was said")

    with Live(Rule(explained), redact=[odd]) as live:
        live.run()
        assert live.flush()
        (scored,) = live.scored.wait_for(1, SECONDS)
        assert scored.evaluations[0].outcome == Score(value=1.0, explanation="[redaction failed]")


async def stops_the_loop(run: Run) -> float:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return 1.0


async def cancels_everybody(run: Run) -> float:
    for task in asyncio.all_tasks():
        task.cancel()
    return 1.0


async def cancels_everybody_later(run: Run) -> float:
    asyncio.get_running_loop().call_later(0.01, lambda: [each.cancel() for each in asyncio.all_tasks()])
    return 1.0


@pytest.mark.parametrize("function", [stops_the_loop, cancels_everybody, cancels_everybody_later])
def test_what_a_scorer_does_to_its_event_loop_ends_neither_scoring_nor_delivery(function: Any) -> None:
    with Live(Rule(scorer(id="odd", version="1")(function)), Rule(always_one)) as live:
        for count in (1, 2, 3):
            live.run()
            live.flush()  # which may be cancelled too
            assert len(live.scored.wait_for(count, SECONDS)) == count
        assert live.pipeline.health().thread_alive
        assert live.pipeline.stats().rules["always_one"].scored == 3
        assert live.pipeline.stats().check() == []
