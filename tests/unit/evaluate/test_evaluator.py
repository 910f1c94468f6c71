"""From a run to its scores: who is asked, what starts, and when a target is complete and delivered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_evals import NotScored, Rule, Run, Score, ScorerFailure, sampling, scorer
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.queue_interface import DurableQueue, Resumption
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.read.reader import RunReader
from otel_evals.model import Dropped, Sampled
from otel_evals.sampling import Chance
from tests.support.trace_builder import DIALECTS
from tests.support.traffic import agent_run
from tests.support.wired import wired


def gives(name: str, value: Any = 1.0) -> Any:
    """A scorer that gives, or raises, the same for every run."""

    async def judge(run: Run) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return scorer(id=name, version="1")(judge)


class Kept(DurableQueue):
    """A store that remembers the jobs it was asked to keep."""

    def keep(self, group: SpanGroup, jobs: Sequence[Job]) -> None:
        self.jobs = jobs


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


def test_an_evaluation_says_who_judged_what_how_it_was_sampled_and_what_came_of_it() -> None:
    async def body() -> None:
        async with wired(Rule(gives("a"), sample=sampling.always())) as w:
            agent_run(w.tracer)
            w.feed()
            (found,) = await w.settled()
            judged = w.scored.runs[0].run
            assert (found.scorer_id, found.scorer_version, found.rule) == ("a", "1", "a")
            assert (found.trace_id, found.span_id) == (judged.trace_id, judged.root_span_id)
            assert found.sampled == Sampled(1.0, "always()")
            assert (found.attempts, found.revision, found.conversation_id) == (1, 1, None)
            assert found.duration > 0
            assert found.time > judged.start_time

    run(body)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (0.5, Score(value=0.5)),
        (NotScored(reason="no_tool_calls"), NotScored(reason="no_tool_calls")),
        (KeyError("x"), ScorerFailure(error_type="KeyError", message="'x'")),
    ],
)
def test_every_outcome_is_delivered(value: Any, outcome: Any) -> None:
    async def body() -> None:
        async with wired(Rule(gives("a", value))) as w:
            agent_run(w.tracer)
            w.feed()
            assert [e.outcome for e in await w.settled()] == [outcome]

    run(body)


def test_without_content_capture_outcomes_quote_nothing() -> None:
    async def body() -> None:
        quoting = gives("a", Score(value=1.0, explanation="order 1042"))
        async with wired(Rule(quoting), capture_content=False) as w:
            agent_run(w.tracer)
            w.feed()
            assert [e.outcome for e in await w.settled()] == [Score(value=1.0)]

    run(body)


class Blocking(SpanProcessor):
    """A processor of evaluation spans that blocks the engine's thread for longer than a timeout."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        time.sleep(0.02)


def test_an_attempt_that_is_overdue_before_its_first_step_timed_out() -> None:
    async def body() -> None:
        spans = TracerProvider(shutdown_on_exit=False)
        spans.add_span_processor(Blocking())
        attacher = Attacher(EvaluationSpans(spans.get_tracer("tests"), same_trace=True), None, None, None)
        async with wired(Rule(gives("a"), timeout=0.01), attacher=attacher) as w:
            agent_run(w.tracer)
            w.feed()
            (found,) = await w.settled()
            assert isinstance(found.outcome, ScorerFailure)
            assert found.outcome.error_type == "timeout"

    run(body)


def test_a_run_that_nobody_samples_is_not_delivered() -> None:
    async def body() -> None:
        async with wired(Rule(gives("a"), sample=0.0), Rule(gives("b"), when=lambda run: False)) as w:
            agent_run(w.tracer)
            w.feed()
            assert await w.settled() == []
            rules = w.ledger.stats().rules
            assert rules["a"].not_sampled == {"sampled_out": 1}
            assert rules["b"].not_sampled == {"not_applicable": 1}

    run(body)


def test_each_agent_in_a_run_is_a_target_of_its_own() -> None:
    """The outer one has the evaluations of both scopes, and is delivered once."""

    async def body() -> None:
        async with wired(Rule(gives("whole")), Rule(gives("each"), scope="agent")) as w:
            agent_run(w.tracer, during=lambda _: agent_run(w.tracer, agent="inner"))
            w.feed()
            await w.settled()
            found = {s.run.agent_name: sorted(e.rule for e in s.evaluations) for s in w.scored.runs}
            assert found == {"support": ["each@agent", "whole"], "inner": ["each@agent"]}
            assert w.ledger.stats().seen == 1

    run(body)


def test_a_condition_that_fails_is_logged_once_and_counted_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        async with wired(Rule(gives("a"), when=lambda run: 1 / 0)) as w:
            for _ in range(3):
                agent_run(w.tracer)
            w.feed()
            await w.settled()
            assert w.ledger.stats().rules["a"].not_sampled == {"predicate_failed": 3}

    run(body)
    assert (
        caplog.text.count("a fails: predicate_failed: its `when` or `sample` raised ZeroDivisionError") == 1
    )


def test_a_cascade_is_scored_after_the_one_it_follows_and_delivered_with_it() -> None:
    async def body() -> None:
        rules = [
            Rule(gives("judge"), sample=sampling.below("cheap", 0.5)),
            Rule(gives("cheap", 0.1)),
            Rule(gives("unmet"), sample=sampling.above("cheap", 0.5)),
            Rule(gives("last"), sample=sampling.above("judge", 0.5)),
        ]
        async with wired(*rules) as w:
            agent_run(w.tracer)
            w.feed()
            await w.settled()
            (scored,) = w.scored.runs
            assert [e.scorer_id for e in scored.evaluations] == ["cheap", "judge", "last"]
            assert w.ledger.stats().rules["unmet"].not_sampled == {"cascade_not_met": 1}

    run(body)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(["score", "low", "decline", "raise"]), min_size=1, max_size=4), st.integers(1, 3)
)
def test_every_run_is_delivered_once_with_all_its_outcomes(acts: list[str], queue_size: int) -> None:
    """Whatever the scorers do, and although the queue is small: what finds no room is an outcome too."""
    values = {"score": 1.0, "low": 0.1, "decline": NotScored(reason="x"), "raise": KeyError("x")}

    async def body() -> None:
        rules = []
        for number, act in enumerate(acts):
            sample = sampling.below(f"s{number - 1}", 0.5) if number % 2 else sampling.always()
            rules.append(Rule(gives(f"s{number}", values[act]), sample=sample, concurrency=1))
        async with wired(*rules, queue_size=queue_size) as w:
            for _ in range(5):
                agent_run(w.tracer)
            w.feed()
            await w.settled()
            assert len(w.scored.runs) == len({s.run.trace_id for s in w.scored.runs}) == 5
            stats = w.ledger.stats()
            for name, each in stats.rules.items():
                delivered = Counter(e.status for e in w.scored.evaluations if e.rule == name)
                assert delivered.total() == each.sampled
                assert delivered["scored"] == each.scored
                assert delivered["dropped"] == sum(each.dropped.values())

    run(body)


def test_what_the_store_hands_back_is_scored_as_it_was_sampled_and_its_cascades_follow() -> None:
    async def body() -> None:
        rules = [Rule(gives("cheap", 0.1)), Rule(gives("judge"), sample=sampling.below("cheap", 0.5))]
        async with wired(*rules) as w:
            agent_run(w.tracer)
            records = [item.record() for item in w.captured]  # type: ignore[union-attr]  # spans
            w.captured = []
            (judged,) = RunReader(DIALECTS, w.ledger).read_again(records, {})
            sampled = Sampled(0.5, "ratio(0.5)")
            jobs = w.steps.rule_sets.resume([Resumption("cheap", judged, sampled, revision=3)])
            assert [(job.rule.name, job.sampled) for job in jobs] == [("cheap", sampled)]
            assert jobs[0].target.decisions["run"].sampled == {"cheap": Chance(0.5)}
            w.steps.rule_sets.submit(jobs)
            await w.settled()
            found = {e.scorer_id: (e.revision, e.sampled.probability) for e in w.scored.evaluations}
            picked = sampling.is_sampled(0.5, int(judged.trace_id, 16))
            expected = {"cheap": (3, 0.5), **({"judge": (3, 0.5)} if picked else {})}
            assert found == expected

    run(body)


def test_a_job_may_go_back_to_the_store_and_those_that_waited_for_it_with_it() -> None:
    async def body() -> None:
        never = asyncio.Event()

        @scorer(id="cheap", version="1")
        async def hangs(run: Run) -> float:
            await never.wait()
            return 1.0

        rules = [Rule(hangs), Rule(gives("judge"), sample=sampling.below("cheap", 0.5))]
        store = Kept()
        async with wired(*rules, store=store) as w:
            agent_run(w.tracer)
            w.feed()
            (job,) = store.jobs
            assert w.steps.evaluator.scheduler.running() == {("cheap", job.target.span_id)}
            assert set(job.target.awaited) == {"cheap", "judge"}
            w.steps.rule_sets.withdraw(job, "shutdown")
            assert (w.ledger.pending, w.ledger.stats().rules["cheap"].stored) == (0, 1)
            assert not job.target.awaited
            job.ended = True  # as the worker has done by then
            assert await w.settled() == []

    run(body)


def test_a_job_that_is_dropped_for_the_callers_reason_never_began() -> None:
    async def body() -> None:
        async with wired(Rule(gives("a"), scope="conversation"), max_conversations=1, grace=0.0) as w:
            for conversation in ("c1", "c2"):
                agent_run(
                    w.tracer, during=lambda s, c=conversation: s.set_attribute("gen_ai.conversation.id", c)
                )
            w.feed()
            (evaluation,) = await w.settled()
            assert evaluation.outcome == Dropped(reason="too_many_conversations")
            assert (evaluation.duration, evaluation.conversation_id) == (0.0, "c1")

    run(body)


PLACES: Any = [("a", "run"), ("b", "run"), ("c", "agent")]


def test_a_scorer_that_changes_its_run_changes_no_id() -> None:
    def changes(run: Run) -> float:
        for name in ("trace_id", "root_span_id", "conversation_id"):
            object.__setattr__(run, name, "f" * 32)
        return 1.0

    async def body() -> None:
        rules = [Rule(scorer(id=name, inline=True)(changes), scope=scope) for name, scope in PLACES]
        async with wired(*rules, Rule(gives("later"))) as w:
            traces = {f"{agent_run(w.tracer):032x}" for _ in range(5)}
            w.feed()
            found = await w.settled()
            assert len({e.evaluation_id for e in found}) == len(found) == 20
            assert {e.trace_id for e in found} == traces
            assert all(len(e.span_id) == 16 for e in found)

    run(body)


def test_agents_nested_beyond_the_bound_are_counted() -> None:
    def nest(tracer: Any, levels: int) -> None:
        if levels:
            attributes = {"gen_ai.operation.name": "invoke_agent"}
            with tracer.start_as_current_span("invoke_agent", attributes=attributes):
                nest(tracer, levels - 1)

    async def body() -> None:
        async with wired(Rule(gives("each"), scope="agent")) as w:
            nest(w.tracer, 130)
            w.feed()
            assert len(await w.settled()) == 100
            assert w.ledger.stats().losses == {"agent_too_deep": 30}

    run(body)
