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

from otel_evals import NotScored, Rule, Run, Score, ScorerFailure, sampling
from otel_evals.errors import DestinationError
from otel_evals.model import Dropped
from otel_evals.scorers import Scorer, scorer
from tests.support.traffic import Live, agent_run


@scorer
def answered(run: Run) -> bool:
    return bool(run.output)


@scorer(inline=True)
def always_one(run: Run) -> float:
    return 1.0


def hanging(seconds: float = 60.0, *, stubborn: bool = False) -> Scorer:
    """A scorer that hangs; a stubborn one will not even be cancelled."""

    async def hang(run: Run) -> float:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                if not stubborn:
                    raise
        return 1.0

    return scorer(id="hanging", version="1")(hang)


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
        (scored,) = live.scored.wait_for(1)
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
    with Live(Rule(hanging(), timeout=30, concurrency=4), exporter=exporter, hold=0.3) as live:
        for _ in range(50):
            live.run()
        assert sorted({s.name for s in exporter.spans}) == ["chat m", "execute_tool lookup_order"]
        assert len(exporter.spans) == 100, "what nobody judges left at once, on the application's thread"
        deadline = time.monotonic() + 30
        while len(exporter.spans) < 150 and time.monotonic() < deadline:
            time.sleep(0.01)
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
    with Live(Rule(hanging(), timeout=30), exporter=exporter, batch=True, hold=30) as live:
        live.run()
        live.provider.force_flush(1_000)  # true only if a busy machine leaves time to export
        deadline = time.monotonic() + 20
        while len(exporter.spans) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert {s.name for s in exporter.spans} >= {"invoke_agent support", "chat m"}
        live.pipeline.shutdown(100)


def test_more_spans_than_the_hold_takes_pass_on_without_waiting() -> None:
    """The hold is bounded: what finds no room leaves at once."""
    exporter = TimedExporter()
    with Live(Rule(hanging(), timeout=30), exporter=exporter, hold=30, hold_limit=5) as live:
        for _ in range(20):
            live.run()
        assert len([s for s in exporter.spans if s.name == "invoke_agent support"]) == 15
        live.pipeline.shutdown(100)
        live.provider.shutdown()
        assert len([s for s in exporter.spans if s.name == "invoke_agent support"]) == 20


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_hanging_scorer_times_out_and_holds_nobody_up(stubborn: bool) -> None:
    """Its slot is freed even when it ignores its cancellation; other rules are done long before."""
    slow = Rule(hanging(1.5, stubborn=stubborn), timeout=0.2, concurrency=1)
    with Live(slow, Rule(always_one)) as live:
        began = time.monotonic()
        for _ in range(3):
            live.run()
        assert live.flush()
        assert time.monotonic() - began < 3.0, "one after the other, all would take more than that"
        stats = live.pipeline.stats()
        assert stats.rules["hanging"].failed == {"timeout": 3}
        assert stats.rules["always_one"].scored == 3
        assert stats.check() == []


def test_a_blocking_sync_scorer_does_not_block_the_others() -> None:
    """Sync scorers run in threads of their own; a hanging one times out."""
    stop = threading.Event()

    @scorer
    def blocks(run: Run) -> bool:
        return stop.wait(10)

    with Live(Rule(blocks, timeout=0.2, concurrency=2), Rule(answered)) as live:
        for _ in range(3):
            live.run()
        assert live.flush()
        stats = live.pipeline.stats()
        stop.set()
        assert stats.rules["blocks"].failed == {"timeout": 3}
        assert stats.rules["answered"].scored == 3


def test_threads_that_never_end_do_not_pile_up() -> None:
    """Beyond a bound, runs fail at once instead of leaving one more thread behind; it heals by itself."""
    stop = threading.Event()

    @scorer
    def stuck(run: Run) -> bool:
        return stop.wait(300)

    with Live(Rule(stuck, timeout=0.05, concurrency=2)) as live:
        before = threading.active_count()
        for _ in range(40):
            live.run()
        assert live.flush()
        assert threading.active_count() - before <= 25
        failed = live.pipeline.stats().rules["stuck"].failed
        assert sum(failed.values()) == 40
        assert failed["timeout"] >= 20
        assert failed["stuck"] >= 15, (
            "an attempt that times out before its thread has begun leaves none behind"
        )
        stop.set()
        deadline = time.monotonic() + 10
        while not live.pipeline.stats().rules["stuck"].scored and time.monotonic() < deadline:
            live.run()
            assert live.flush()
        assert live.pipeline.stats().rules["stuck"].scored == 1


def bad_scorers() -> list[tuple[Any, str, str]]:
    def raises(run: Run) -> float:
        raise RuntimeError("the database is gone")

    def nan(run: Run) -> float:
        return float("nan")

    def text(run: Run) -> Any:
        return "good"

    def nothing(run: Run) -> Any:
        return None

    def exits(run: Run) -> float:
        raise SystemExit(3)

    return [
        (raises, "RuntimeError", "the database is gone"),
        (nan, "ValueError", "nan"),
        (text, "TypeError", "str"),
        (nothing, "TypeError", "None"),
        (exits, "SystemExit", "3"),
    ]


@pytest.mark.parametrize(("function", "error_type", "says"), bad_scorers())
@pytest.mark.parametrize("inline", [True, False])
def test_a_bad_scorer_is_a_counted_failure_with_its_reason(
    function: Any, error_type: str, says: str, inline: bool
) -> None:
    """The application notices nothing, and its spans arrive."""
    with Live(Rule(scorer(id="bad", version="1", inline=inline)(function)), Rule(always_one)) as live:
        live.run()
        assert live.flush()
        (scored,) = live.scored.wait_for(1)
        bad = next(e for e in scored.evaluations if e.scorer_id == "bad")
        assert isinstance(bad.outcome, ScorerFailure)
        assert bad.outcome.error_type == error_type
        assert says in bad.outcome.message
        assert live.pipeline.stats().rules["bad"].failed == {error_type: 1}
        assert live.pipeline.stats().rules["always_one"].scored == 1
        live.provider.force_flush()
        assert live.span("invoke_agent support") is not None


def test_not_scored_is_an_outcome_with_a_reason() -> None:
    """It is counted by its reason, stands on an evaluation span, and is no score."""

    @scorer
    def picky(run: Run) -> NotScored:
        return NotScored(reason="no_tool_calls", explanation="this run called no tool")

    with Live(Rule(picky), evaluation_spans="same_trace") as live:
        live.run()
        live.flush()
        live.provider.force_flush()
        assert live.pipeline.stats().rules["picky"].not_scored == {"no_tool_calls": 1}
        assert "otel_evals.score.picky" not in live.span("invoke_agent support").attributes
        assert live.span("evaluate picky").attributes["otel_evals.evaluation.reason"] == "no_tool_calls"


def test_a_full_queue_drops_the_newest_and_counts_them() -> None:
    """Nothing waits for room; what finds none is counted by reason."""
    with Live(Rule(hanging(0.3), concurrency=1), queue_size=5) as live:
        for _ in range(20):
            live.run()
        assert live.flush()
        rule = live.pipeline.stats().rules["hanging"]
        assert rule.dropped == {"queue_full": 14}
        assert rule.scored == 6
        dropped = [e for e in live.scored.evaluations if isinstance(e.outcome, Dropped)]
        assert len(dropped) == 14


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


def test_outcomes_can_decide_the_sampling() -> None:
    """`errors()` sees the finished run."""
    with Live(Rule(always_one, sample=sampling.errors())) as live:
        live.run()
        with live.tracer.start_as_current_span(
            "invoke_agent x", attributes={"gen_ai.operation.name": "invoke_agent"}
        ) as span:
            span.set_attribute("error.type", "RateLimitError")
        live.flush()
        rule = live.pipeline.stats().rules["always_one"]
        assert rule.scored == 1
        assert rule.not_sampled == {"sampled_out": 1}


def test_a_condition_limits_a_rule_and_a_failing_one_is_counted() -> None:
    """`when` false is no sampling; `when` raising is counted and named."""
    rules = (
        Rule(always_one, when=lambda run: run.agent_name == "vip"),
        Rule(answered, when=lambda run: 1 / 0),
    )
    with Live(*rules) as live:
        live.run(agent="vip")
        live.run(agent="other")
        live.flush()
        stats = live.pipeline.stats()
        assert stats.rules["always_one"].scored == 1
        assert stats.rules["always_one"].not_sampled == {"not_applicable": 1}
        assert stats.rules["answered"].not_sampled == {"predicate_failed": 2}
        assert stats.check() == []


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


def test_one_user_turn_is_one_run_even_with_agents_inside() -> None:
    """The outermost agent is the run; a rule of scope `agent` judges the inner ones as well."""
    with Live(Rule(always_one), Rule(answered, scope="agent")) as live:
        live.run(during=lambda _: agent_run(live.tracer, agent="inner"))
        live.flush()
        live.provider.force_flush()
        stats = live.pipeline.stats()
        assert stats.seen == 1
        assert stats.rules["always_one"].scored == 1
        assert stats.rules["answered@agent"].scored == 2
        assert live.span("invoke_agent inner").attributes["otel_evals.score.answered"] == 1.0


def test_a_server_span_above_does_not_hold_a_run_open() -> None:
    """The run closes with its agent, while the request is still being answered."""
    with Live(Rule(always_one)) as live, live.tracer.start_as_current_span("POST /chat"):
        live.run()
        live.scored.wait_for(1, timeout=3)


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
        (scored,) = live.scored.wait_for(1)
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


def test_a_marked_caller_from_another_service_is_never_scored() -> None:
    """The mark travels in baggage: what a judge's request causes elsewhere is not scored there."""
    from opentelemetry import context
    from opentelemetry.propagate import extract, inject

    from otel_evals._internal.recursion import mark

    with Live(Rule(always_one)) as live:
        with live.tracer.start_as_current_span("elsewhere") as span:
            from opentelemetry import trace

            headers: dict[str, str] = {}
            inject(headers, mark(trace.set_span_in_context(span)))
        token = context.attach(extract(headers))
        live.run()
        context.detach(token)
        live.flush()
        assert live.pipeline.stats().seen == 0


def test_without_content_capture_scores_quote_nothing() -> None:
    """Scores stay; explanations and results that quote the run do not."""

    @scorer
    def quoting(run: Run) -> Score:
        return Score(value=0.5, explanation=f"the answer says {run.output}")

    with Live(Rule(quoting), capture_content=False, evaluation_spans="same_trace") as live:
        live.run()
        live.flush()
        (evaluation,) = live.scored.evaluations
        assert isinstance(evaluation.outcome, Score)
        assert evaluation.outcome.value == 0.5
        assert evaluation.outcome.explanation is None
        live.provider.force_flush()
        exported = live.exported.get_finished_spans()
        ours = [v for s in exported if s.name.startswith("evaluate") for v in s.attributes.values()]
        assert ours
        assert not any("2026-11-25" in str(v) for v in ours)


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


def test_a_run_that_grows_without_bound_is_bounded() -> None:
    """Spans beyond the limit are counted as lost; the run is not judged by the rest."""
    with Live(Rule(always_one), max_spans_per_trace=10) as live:
        attributes = {"gen_ai.operation.name": "invoke_agent"}
        with live.tracer.start_as_current_span("invoke_agent big", attributes=attributes):
            for _ in range(50):
                with live.tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
                    pass
        live.flush()
        stats = live.pipeline.stats()
        assert stats.rules["always_one"].not_scored == {"run_truncated": 1}
        assert stats.losses["span_limit_per_trace"] == 40


def test_a_root_that_never_ends_is_given_up_and_counted() -> None:
    """An abandoned trace does not stay in memory."""
    with Live(Rule(always_one), max_age=0.2) as live:
        attributes = {"gen_ai.operation.name": "invoke_agent"}
        root = live.tracer.start_span("invoke_agent lost", attributes=attributes)
        from opentelemetry import trace

        with live.tracer.start_as_current_span(
            "chat", context=trace.set_span_in_context(root), attributes={"gen_ai.operation.name": "chat"}
        ):
            pass
        deadline = time.monotonic() + 30
        while not live.pipeline.stats().ignored and time.monotonic() < deadline:
            time.sleep(0.05)
        assert live.pipeline.stats().ignored == {"root_never_ended": 1}
        assert live.pipeline.stats().check() == []


def test_the_same_evaluation_has_the_same_id() -> None:
    """Ids derive from trace, span, scorer and version, so that a repeat can be recognised."""
    with Live(Rule(always_one), Rule(answered)) as live:
        live.run()
        live.flush()
        ids = [e.evaluation_id for e in live.scored.evaluations]
        assert len(set(ids)) == 2
        assert all(len(i) == 32 for i in ids)


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


def test_what_a_scorer_loads_first_is_not_on_its_first_runs_clock() -> None:
    """Preparing happens once, off the engine's loop; runs wait for it without timing out."""
    prepared: list[str] = []

    class Slow(Scorer):
        id = "slow_to_start"
        version = "1"

        def prepare(self) -> None:
            time.sleep(0.5)
            prepared.append(threading.current_thread().name)

        async def score(self, run: Run) -> Score:
            return Score(value=1.0)

    with Live(Rule(Slow(), timeout=0.2), Rule(always_one)) as live:
        for _ in range(5):
            live.run()
        live.scored.clear()
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.rules["slow_to_start"].scored == 5
        assert len(prepared) == 1
        assert prepared[0] != "otel-evals"


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
def test_a_scorer_that_cannot_be_prepared_is_asked_all_the_same(error: type[BaseException]) -> None:
    class Unready(Scorer):
        id, version = "unready", "1"

        def prepare(self) -> None:
            raise error

        async def score(self, run: Run) -> Score:
            return Score(value=1.0)

    with Live(Rule(Unready()), Rule(always_one)) as live:
        live.run()
        assert live.flush()
        assert {name: rule.scored for name, rule in live.pipeline.stats().rules.items()} == {
            "unready": 1,
            "always_one": 1,
        }


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
        (scored,) = live.scored.wait_for(1)
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
            assert len(live.scored.wait_for(count)) == count
        assert live.pipeline.health().thread_alive
        assert live.pipeline.stats().rules["always_one"].scored == 3
        assert live.pipeline.stats().check() == []
