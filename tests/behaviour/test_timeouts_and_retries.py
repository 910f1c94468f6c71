"""What scorers do to themselves costs their own evaluation only: timeouts, retries, failures, full queues."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from otel_evals import Rule, Run, scorer
from otel_evals.errors import JudgeUnavailableError
from otel_evals.judges import ScriptedJudge
from otel_evals.scorers import PromptStep, panel, step_scorer
from tests.behaviour.app import App
from tests.support.waits import SECONDS, eventually


@scorer(version="1", inline=True)
def instant(run: Run) -> float:
    return 1.0


@scorer(version="1")
async def hangs(run: Run) -> float:
    await asyncio.sleep(60)
    return 1.0


def test_an_attempt_ends_at_its_timeout_and_the_next_run_gets_its_place() -> None:
    app = App(Rule(hangs, timeout=0.05, concurrency=1, attempts=3), instant)
    for _ in range(3):
        app.run()
    failed = [e for e in app.settle() if e.scorer_id == "hangs"]
    assert {(e.status, e.reason, e.attempts) for e in failed} == {("failed", "timeout", 1)}
    assert app.rule("hangs").failed == {"timeout": 3}
    assert app.rule("instant").scored == 3


def test_a_scorer_that_ignores_its_cancellation_frees_its_place_all_the_same() -> None:
    over = threading.Event()

    @scorer(version="1")
    async def stubborn(run: Run) -> float:
        while not over.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        return 1.0

    app = App(Rule(stubborn, timeout=0.05, concurrency=1))
    for _ in range(3):
        app.run()
    app.settle()
    over.set()
    assert sum(app.rule("stubborn").failed.values()) == 3
    assert app.rule("stubborn").failed["timeout"] >= 1


@pytest.mark.parametrize(
    ("attempts", "needed", "status"), [(3, 2, "scored"), (2, 3, "failed"), (1, 2, "failed")]
)
def test_only_an_unavailable_judge_is_asked_again(attempts: int, needed: int, status: str) -> None:
    asked: Counter[str] = Counter()

    @scorer(version="1")
    async def judged(run: Run) -> float:
        asked[run.trace_id] += 1
        if asked[run.trace_id] < needed:
            raise JudgeUnavailableError("503", retry_after=0.01)
        return 1.0

    app = App(Rule(judged, attempts=attempts))
    trace = app.run()
    (evaluation,) = app.settle()
    assert (evaluation.status, evaluation.attempts) == (status, min(attempts, needed))
    assert asked[trace] == min(attempts, needed)
    if status == "failed":
        assert app.rule("judged").failed == {"JudgeUnavailableError": 1}


class Reply(BaseModel):
    score: float


@pytest.mark.parametrize("then", [[{"score": 1}], []])
def test_an_outcome_includes_what_failed_attempts_have_cost(then: list[Any]) -> None:
    answers = [JudgeUnavailableError("busy"), *then]
    judge = ScriptedJudge({"analyze": {"score": 0}, "generate_score": answers}, cost=0.001)
    ask = PromptStep(prompt="Judge: $output", schema=Reply)
    app = App(Rule(step_scorer("paid", judge=judge).analyze(ask).generate_score(ask), attempts=2))
    app.run()
    (evaluation,) = app.settle()
    paid = 3 if evaluation.status == "scored" else 2
    outcome: Any = evaluation.outcome
    assert sum(step.cost or 0.0 for step in outcome.steps) == pytest.approx(0.001 * paid)
    assert [point.value for point in app.points("otel_evals.judge.tokens")] == [120 * paid]
    if evaluation.status == "scored":
        assert outcome.cost == pytest.approx(0.003)
        assert outcome.usage.total_tokens == 360
        assert app.events()[0].attributes["otel_evals.judge.cost"] == outcome.cost


def test_a_panel_that_times_out_includes_what_its_members_have_cost() -> None:
    judge = ScriptedJudge({"generate_score": {"score": 1}}, cost=0.001)
    paid = step_scorer("paid", judge=judge).generate_score(PromptStep(prompt="$output", schema=Reply))
    app = App(Rule(panel([paid, hangs], id="panel"), timeout=0.3))
    app.run()
    (evaluation,) = app.settle()
    outcome: Any = evaluation.outcome
    assert evaluation.reason == "timeout"
    assert [(step.name, step.cost) for step in outcome.steps] == [("1.generate_score", 0.001)]


def test_an_evaluation_that_is_tried_again_is_not_lost_to_a_full_queue() -> None:
    """While it waits for its next attempt, one run takes its place and another one fills the queue."""
    gate, asked = threading.Event(), Counter[str]()

    @scorer(version="1")
    async def judged(run: Run) -> float:
        asked[str(run.agent_name)] += 1
        if run.agent_name == "first" and asked["first"] == 1:
            raise JudgeUnavailableError("503", retry_after=0.1)
        await asyncio.to_thread(gate.wait, SECONDS)
        return 1.0

    app = App(Rule(judged, concurrency=1), limits={"queue_size": 1}, grace=0.0)
    for agent in ("first", "second"):
        app.run(agent=agent)
        eventually(lambda agent=agent: asked[agent] == 1)
    app.run(agent="third")
    app.await_rule("judged", lambda rule: rule.sampled == 3)
    time.sleep(0.3)
    gate.set()
    app.settle()
    scored = {each.run.agent_name for each in app.scored.runs if each.evaluations[0].status == "scored"}
    assert scored >= {"first", "second"}


ENDS = [KeyError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, RecursionError]


@pytest.mark.parametrize("kind", ["async", "thread", "inline"])
@pytest.mark.parametrize("error", ENDS)
def test_whatever_a_scorer_raises_is_the_outcome_of_its_evaluation(
    error: type[BaseException], kind: str
) -> None:
    """Nothing that would end a thread, a loop or the process does."""

    async def later(run: Run) -> float:
        await asyncio.sleep(0)
        raise error

    def now(run: Run) -> float:
        raise error

    raises: Any = scorer(id="raises", version="1", inline=kind == "inline")(later if kind == "async" else now)
    app = App(raises, instant)
    app.run()
    app.run()
    app.settle()
    assert app.rule("raises").failed == {error.__name__: 2}
    assert app.rule("instant").scored == 2
    assert app.pipeline.health().thread_alive


async def stops_the_loop(run: Run) -> float:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return 1.0


async def cancels_everybody(run: Run) -> float:
    for task in asyncio.all_tasks():
        task.cancel()
    return 1.0


@pytest.mark.parametrize("function", [stops_the_loop, cancels_everybody])
def test_what_a_scorer_does_to_its_event_loop_ends_neither_scoring_nor_delivery(function: Any) -> None:
    app = App(scorer(id="odd", version="1")(function), instant)
    for count in (1, 2):
        app.run()
        assert app.pipeline.force_flush(10_000)
        assert len(app.scored.wait_for(count, SECONDS)) == count
    assert app.pipeline.health().thread_alive
    assert app.rule("instant").scored == 2
    assert app.pipeline.stats().check() == []


def test_a_scorer_that_cancels_all_tasks_fails_no_other_evaluation() -> None:
    @scorer(version="1")
    async def slow(run: Run) -> float:
        await asyncio.gather(asyncio.sleep(0.05), asyncio.sleep(0.05))  # tasks of its own
        return 1.0

    app = App(slow, scorer(id="odd", version="1")(cancels_everybody))
    for _ in range(3):
        app.run()
    app.settle()
    assert (app.rule("slow").scored, app.rule("odd").scored) == (3, 3)


def test_a_full_queue_drops_and_counts() -> None:
    gate = threading.Event()

    @scorer(version="1")
    def gated(run: Run) -> float:
        gate.wait(SECONDS)
        return 1.0

    app = App(Rule(gated, concurrency=1), limits={"queue_size": 3}, grace=0.0)
    for _ in range(10):
        app.run()
    app.await_rule("gated", lambda rule: rule.dropped.get("queue_full", 0) == 6)
    gate.set()
    app.settle()
    rule = app.rule("gated")
    assert (rule.sampled, rule.scored, rule.dropped) == (10, 4, {"queue_full": 6})


def test_a_slow_rule_costs_a_fast_one_beside_it_nothing() -> None:
    """A judge of one second and a queue of twenty: the other rule scores all of a hundred runs."""

    @scorer(version="1")
    async def judged(run: Run) -> float:
        await asyncio.sleep(1.0)
        return 1.0

    @scorer(version="1")
    async def quick(run: Run) -> float:
        return 1.0

    app = App(Rule(judged), Rule(quick), limits={"queue_size": 20})
    for burst, total in ((34, 34), (33, 67), (33, 100)):  # at once no more than its own places and queue hold
        for _ in range(burst):
            app.run()
        app.await_rule("quick", lambda rule, total=total: rule.eligible == total and not rule.pending)
    app.pipeline.shutdown(100)
    assert (app.rule("quick").scored, app.rule("quick").dropped) == (100, {})


def test_concurrency_bounds_how_many_runs_a_rule_scores_at_once() -> None:
    running, most = [0], [0]

    @scorer(version="1")
    async def counted(run: Run) -> float:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.01)
        running[0] -= 1
        return 1.0

    app = App(Rule(counted, concurrency=3))
    for _ in range(20):
        app.run()
    app.settle()
    assert most[0] == 3
    assert app.rule("counted").scored == 20


def test_a_blocking_scorer_delays_neither_the_application_nor_other_rules() -> None:
    gate = threading.Event()

    @scorer(version="1")
    def blocks(run: Run) -> float:
        gate.wait(SECONDS)
        return 1.0

    app = App(Rule(blocks, concurrency=2), instant)
    began = time.monotonic()
    for _ in range(10):
        app.run()
    app.await_rule("instant", lambda rule: rule.scored == 10)
    assert time.monotonic() - began < 30
    gate.set()
    app.settle()
    assert app.rule("blocks").scored == 10
