"""The lane of one rule: slots, retries, timeouts, and that whatever a scorer does, its job ends once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import Rule
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.scoring.scorer import StepFailure
from otel_evals.errors import JudgeUnavailableError
from otel_evals.judges import JudgeReply, JudgeRequest, ScriptedJudge
from otel_evals.model import Dropped, NotScored, Run, Score, ScorerFailure
from otel_evals.scorers import FunctionScorer, PromptStep, Scorer, ScoreReply, scorer, step_scorer
from tests.support.jobs import Evaluating
from tests.support.waits import SECONDS

Judge = Callable[[Run], Awaitable[Any]]


class Desk(Evaluating):
    """The lane of one rule, and what becomes of its jobs."""

    def __init__(self, judge: Judge | Scorer, *, draw: float = 0.0, **limits: Any) -> None:
        made = judge if isinstance(judge, Scorer) else scorer(id="judge", version="1")(judge)
        self.rule = Rule(made, **limits)
        super().__init__([self.rule], draw)
        self.lane = self.scheduler.lanes[self.rule.name]

    def offer(self, count: int = 1) -> list[Job]:
        return [self.submit(self.rule) for _ in range(count)]


class Gate:
    """A judge that counts who is inside and waits to be opened."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0
        self._open = asyncio.Event()
        self._came = asyncio.Event()

    async def __call__(self, run: Run) -> float:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        self._came.set()
        try:
            await self._open.wait()
        finally:
            self.inside -= 1
        return 1.0

    def open(self) -> None:
        self._open.set()

    async def came(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while self.calls < count:
                self._came.clear()
                await self._came.wait()


# --- slots ---


def test_no_more_run_at_once_than_the_rule_allows_and_the_rest_wait_their_turn() -> None:
    async def body() -> None:
        gate = Gate()
        desk = Desk(gate, concurrency=3)
        jobs = desk.offer(8)
        await gate.came(3)
        assert (gate.inside, desk.lane.waiting, len(desk.started)) == (3, 5, 3)
        gate.open()
        assert await desk.outcomes(8) == [Score(value=1.0)] * 8
        assert desk.started == jobs, "first come, first served"
        assert (gate.most, desk.lane.waiting) == (3, 0)
        assert all(job.ended and job.attempts == 1 and job.started and job.began for job in jobs)

    asyncio.run(body())


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.lists(st.sampled_from(["score", "none", "raise", "wait"]), max_size=12))
def test_every_job_ends_once_within_its_slots(concurrency: int, acts: list[str]) -> None:
    async def body() -> None:
        inside = most = 0
        acting = iter(acts)

        async def judge(run: Run) -> Any:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            try:
                match next(acting):
                    case "none":
                        return NotScored(reason="x")
                    case "raise":
                        raise KeyError("x")
                    case "wait":
                        await asyncio.sleep(0)
                return 1.0
            finally:
                inside -= 1

        desk = Desk(judge, concurrency=concurrency)
        jobs = desk.offer(len(acts))
        await desk.outcomes(len(acts))
        assert {id(job) for job, _ in desk.ended} == {id(job) for job in jobs}
        assert len(desk.ended) == len(jobs)
        assert most <= concurrency

    asyncio.run(body())


def test_a_scorer_runs_in_the_context_of_its_job() -> None:
    """Not in that of whoever offered the job; each attempt in one of its own."""
    seen: contextvars.ContextVar[str] = contextvars.ContextVar("seen", default="nothing")
    found: list[str] = []

    async def body() -> None:
        async def judge(run: Run) -> float:
            found.append(seen.get())
            seen.set("the first attempt")
            if len(found) == 1:
                raise JudgeUnavailableError("busy")
            return 1.0

        seen.set("the caller")
        desk = Desk(judge)
        desk.offer()
        await desk.outcomes()
        assert seen.get() == "the caller"

    asyncio.run(body())
    assert found == ["nothing", "nothing"]


# --- preparation ---


class Prepared(FunctionScorer):
    """A scorer that takes its time to load, or cannot."""

    release: threading.Event
    error: BaseException | None = None

    def prepare(self) -> None:
        self.release.wait(SECONDS)
        if self.error is not None:
            raise self.error


def prepared(error: BaseException | None = None) -> Any:
    made: Any = Prepared(lambda run: 1.0, id="judge", version="1", inline=True)
    object.__setattr__(made, "release", threading.Event())
    object.__setattr__(made, "error", error)
    return made


@pytest.mark.parametrize("error", [None, OSError("no model file"), SystemExit(), asyncio.CancelledError()])
def test_jobs_wait_until_the_scorer_is_prepared(
    error: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A scorer that failed to prepare is called all the same: its answer says what is wrong."""

    async def body() -> None:
        judge = prepared(error)
        desk = Desk(judge, timeout=SECONDS)
        preparing = asyncio.ensure_future(desk.evaluator.prepare())
        desk.offer(2)
        await asyncio.sleep(0)
        assert (desk.lane.waiting, desk.started) == (2, [])
        judge.release.set()
        await preparing
        assert await desk.outcomes(2) == [Score(value=1.0)] * 2

    asyncio.run(body())
    assert ("failed to prepare" in caplog.text) == (error is not None)


# --- another attempt ---


@pytest.mark.parametrize(("attempts", "failures", "scored"), [(3, 2, True), (3, 3, False), (1, 1, False)])
def test_an_unavailable_judge_is_asked_again(attempts: int, failures: int, scored: bool) -> None:
    async def body() -> None:
        asked = 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            if asked <= failures:
                raise JudgeUnavailableError("503")
            return 1.0

        desk = Desk(judge, attempts=attempts)
        (job,) = desk.offer()
        (outcome,) = await desk.outcomes()
        if scored:
            assert outcome == Score(value=1.0)
        else:
            assert isinstance(outcome, ScorerFailure)
            assert (outcome.error_type, outcome.attempts) == ("JudgeUnavailableError", attempts)
        assert job.attempts == asked == min(failures + 1, attempts)
        assert desk.started == [job] * asked, "each attempt begins anew, so its span is without the waits"

    asyncio.run(body())


def test_a_steps_cause_decides_about_another_attempt() -> None:
    async def body() -> None:
        asked = 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise StepFailure("analyze failed") from JudgeUnavailableError("503")
            raise StepFailure("analyze failed") from KeyError("x")

        desk = Desk(judge)
        desk.offer()
        (outcome,) = await desk.outcomes()
        assert isinstance(outcome, ScorerFailure)
        assert (outcome.error_type, outcome.attempts, asked) == ("KeyError", 2, 2)

    asyncio.run(body())


@pytest.mark.parametrize(
    ("attempt", "draw", "asked", "wait"),
    [
        (1, 1.0, None, 1.0),
        (2, 1.0, None, 2.0),
        (1, 0.5, None, 0.5),
        (1, 0.0, 7.0, 7.0),
        (1, 0.0, 900.0, 30.0),
    ],
)
def test_the_wait_grows_is_jittered_and_heeds_what_the_judge_asks_for(
    attempt: int, draw: float, asked: float | None, wait: float
) -> None:
    """Full jitter over a doubling bound; a judge's own wish, of 30 seconds at most, is the least."""

    async def body() -> None:
        async def judge(run: Run) -> float:
            raise JudgeUnavailableError("429", retry_after=asked)

        desk = Desk(judge, draw=draw, attempts=5)
        (job,) = desk.offer()
        job.attempts = attempt  # the attempt is under way and has not failed yet
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(SECONDS):
            while not desk.lane.retrying:  # noqa: ASYNC110  # a few turns of the loop away
                await asyncio.sleep(0)
        assert job.timer is not None
        assert job.timer.when() - loop.time() == pytest.approx(wait, abs=0.2)
        desk.evaluator.abort("shutdown")

    asyncio.run(body())


def test_the_slot_is_free_while_a_job_waits_for_its_next_attempt() -> None:
    async def body() -> None:
        asked = 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise JudgeUnavailableError("429", retry_after=30.0)
            return 1.0

        desk = Desk(judge, concurrency=1)
        first, second = desk.offer(2)
        await desk.outcomes()
        assert [job for job, _ in desk.ended] == [second]
        assert (desk.lane.waiting, desk.lane.retrying) == (1, {first})
        desk.evaluator.abort("shutdown")
        assert desk.ended[1] == (first, Dropped(reason="shutdown"))

    asyncio.run(body())


def test_a_scoring_process_that_died_is_replaced_once_at_once() -> None:
    async def body() -> None:
        asked = 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            raise ProcessDiedError("killed by signal 9")

        desk = Desk(judge, draw=1.0, attempts=1)
        desk.offer()
        (outcome,) = await desk.outcomes()
        assert isinstance(outcome, ScorerFailure)
        assert (outcome.error_type, asked) == ("process_died", 2)

    asyncio.run(body())


# --- timeouts ---


def test_a_scorer_that_hangs_times_out_and_its_slot_is_free() -> None:
    async def body() -> None:
        asked = 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            if asked == 1:
                await asyncio.Event().wait()
            return 1.0

        desk = Desk(judge, concurrency=1, timeout=0.02)
        desk.offer(2)
        timed_out, scored = await desk.outcomes(2)
        assert isinstance(timed_out, ScorerFailure)
        assert (timed_out.error_type, timed_out.message) == ("timeout", "no score within 0.02 s")
        assert scored == Score(value=1.0)

    asyncio.run(body())


def test_the_calls_before_a_timeout_are_recorded_with_their_cost() -> None:
    class Slow(ScriptedJudge):
        async def ask(self, request: JudgeRequest) -> JudgeReply:
            if len(self.requests) == 2:
                await asyncio.Event().wait()
            return await super().ask(request)

    async def body() -> None:
        slow = Slow({"explore": {"action": "list"}}, cost=0.5)
        slow.explore = True  # type: ignore[attr-defined]  # judges may have it
        question = PromptStep(prompt="$said", schema=ScoreReply, data=lambda _: {"said": "so"})
        desk = Desk(step_scorer("asks", judge=slow).generate_score(question), timeout=0.5)
        await desk.evaluator.prepare()
        desk.offer()
        (outcome,) = await desk.outcomes()
        assert isinstance(outcome, ScorerFailure)
        assert outcome.error_type == "timeout"
        assert [step.cost for step in outcome.steps if step.model] == [0.5, 0.5]

    asyncio.run(body())


def test_a_scorer_that_will_not_be_cancelled_holds_nobody_up() -> None:
    """Its task goes on by itself, and what it gives in the end is thrown away."""

    async def body() -> None:
        release, asked = asyncio.Event(), 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            while asked == 1 and not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()
            return 1.0

        desk = Desk(judge, concurrency=1, timeout=0.02)
        desk.offer(2)
        timed_out, scored = await desk.outcomes(2)
        assert isinstance(timed_out, ScorerFailure)
        assert scored == Score(value=1.0)
        release.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(desk.ended) == 2

    asyncio.run(body())


def test_what_a_scorer_hands_over_when_its_time_is_up_counts() -> None:
    async def body() -> None:
        async def judge(run: Run) -> Any:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return Score(value=0.5)  # all but its reason

        desk = Desk(judge, timeout=0.02)
        desk.offer()
        assert await desk.outcomes() == [Score(value=0.5)]

    asyncio.run(body())


def test_what_fails_after_its_time_is_up_is_a_timeout_and_not_tried_again() -> None:
    async def body() -> None:
        async def judge(run: Run) -> float:
            try:
                await asyncio.Event().wait()
            finally:
                raise JudgeUnavailableError("cut off")

        desk = Desk(judge, timeout=0.02, attempts=3)
        desk.offer()
        (outcome,) = await desk.outcomes()
        assert isinstance(outcome, ScorerFailure)
        assert (outcome.error_type, outcome.attempts) == ("timeout", 1)

    asyncio.run(body())


def test_threads_that_never_end_are_limited_and_it_heals() -> None:
    """Beyond 16 and twice its slots a job fails at once; once they have ended, jobs are scored again."""
    release = threading.Event()
    begun: list[int] = []

    def judge(run: Run) -> float:
        begun.append(threading.get_ident())
        release.wait(SECONDS)
        return 1.0

    async def body() -> None:
        desk = Desk(judge, concurrency=2, timeout=0.02)  # type: ignore[arg-type]  # a sync one
        desk.offer(60)
        outcomes = await desk.outcomes(60)
        types = {o.error_type for o in outcomes if isinstance(o, ScorerFailure)}
        assert types == {"timeout", "stuck"}
        assert len(begun) <= 22, "the last two may begin together"
        release.set()
        scored = False
        async with asyncio.timeout(SECONDS):
            while not scored:  # until the last of the threads has been counted out
                before = len(desk.ended)
                desk.offer()
                scored = (await desk.outcomes(before + 1))[-1] == Score(value=1.0)

    asyncio.run(body())


# --- whatever comes back ---


async def returns_text(run: Run) -> Any:
    return "good"


async def exits(run: Run) -> float:
    raise SystemExit(3)


async def cancels_itself(run: Run) -> float:
    raise asyncio.CancelledError


async def interrupts(run: Run) -> float:
    raise KeyboardInterrupt


async def stops(run: Run) -> float:
    raise GeneratorExit


def lies(says: Any) -> type[Exception]:
    """A kind of exception that says, or raises, this where it is asked for its class."""

    def tell(self: object) -> Any:
        if issubclass(says, Exception) and not issubclass(says, JudgeUnavailableError | ProcessDiedError):
            raise says
        return says

    return type("Lying", (Exception,), {"__class__": property(tell)})


def unavailable(retry_after: Any) -> Exception:
    return JudgeUnavailableError("429", retry_after=retry_after)


class Hidden(JudgeUnavailableError):
    @property
    def retry_after(self) -> Any:
        raise SystemExit

    @retry_after.setter
    def retry_after(self, value: Any) -> None:
        pass


RAISED: dict[str, Callable[[], BaseException]] = {
    "says it is a judge's": lies(JudgeUnavailableError),
    "says it is a process's": lies(ProcessDiedError),
    "says it is a cancellation": lies(asyncio.CancelledError),
    "raises for its class": lies(ZeroDivisionError),
    "a wait in words": lambda: unavailable("soon"),
    "a list of waits": lambda: unavailable([1]),
    "no number": lambda: unavailable(float("nan")),
    "too large a number": lambda: unavailable(10**400),
    "before now": lambda: unavailable(-1e30),
    "a wait that exits": lambda: Hidden("429"),
    "no attribute at all": type("Mute", (Exception,), {"__getattribute__": lambda self, name: 1 / 0}),
    "no traceback": type("Traceless", (Exception,), {"__traceback__": property(lambda self: 1 / 0)}),
}


@pytest.mark.parametrize("how", ["async", "sync", "inline"])
@pytest.mark.parametrize("what", RAISED)
def test_an_exception_that_lies_ends_its_job_and_no_other(what: str, how: str) -> None:
    async def asynchronous(run: Run) -> float:
        raise RAISED[what]()

    def synchronous(run: Run) -> float:
        raise RAISED[what]()

    async def body() -> None:
        function = asynchronous if how == "async" else synchronous
        desk = Desk(scorer(id="a", version="1", inline=how == "inline")(function), attempts=1)
        desk.offer(3)
        outcomes = await desk.outcomes(3)
        assert {type(outcome) for outcome in outcomes} == {ScorerFailure}
        assert {outcome.error_type for outcome in outcomes} == {type(RAISED[what]()).__name__}

    asyncio.run(body())


class Odd(Scorer):
    """Gives back whatever it was given."""

    id, version = "odd", "1"

    def __init__(self, result: Any) -> None:
        self._result = result

    async def score(self, run: Run) -> Any:
        return self._result


@pytest.mark.parametrize(
    ("judge", "error_type"),
    [
        (returns_text, "TypeError"),
        (exits, "SystemExit"),
        (cancels_itself, "CancelledError"),
        (interrupts, "KeyboardInterrupt"),
        (stops, "GeneratorExit"),
        (Odd(None), "TypeError"),
        (Odd(Score(value=float("nan"))), "ValueError"),
        (Odd(ValueError("returned, not raised")), "ValueError"),
        (Odd(Dropped(reason="x")), "TypeError"),
    ],
)
def test_odd_ends_are_failures_of_the_scorer(judge: Judge | Scorer, error_type: str) -> None:
    async def body() -> None:
        desk = Desk(judge)
        desk.offer()
        (outcome,) = await desk.outcomes()
        assert isinstance(outcome, ScorerFailure)
        assert outcome.error_type == error_type

    asyncio.run(body())


# --- the end ---


def test_aborting_ends_every_job_once_wherever_it_is() -> None:
    async def body() -> None:
        gate, asked = Gate(), 0

        async def judge(run: Run) -> float:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise JudgeUnavailableError("429", retry_after=30.0)
            return await gate(run)

        desk = Desk(judge, concurrency=1)
        retrying, running, queued = desk.offer(3)
        await gate.came(1)
        desk.evaluator.abort("shutdown")
        assert {id(job) for job, _ in desk.ended} == {id(retrying), id(running), id(queued)}
        assert {outcome for _, outcome in desk.ended} == {Dropped(reason="shutdown")}
        gate.open()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (len(desk.ended), desk.lane.waiting, gate.inside) == (3, 0, 0)
        desk.evaluator.abort("shutdown")
        assert len(desk.ended) == 3

    asyncio.run(body())
