"""The scheduler: one worker per rule, a bounded number of jobs that wait, and one outcome for each."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import Rule
from otel_evals._internal.attach.attacher import Opened
from otel_evals._internal.evaluate.job import Job
from otel_evals.model import Dropped, Evaluation, Outcome, Run, Score
from otel_evals.scorers import FunctionScorer, scorer
from tests.support.jobs import Evaluating


class Board(Evaluating):
    """Rules whose scorers wait until the board is opened."""

    def __init__(self, queue_size: int, max_bytes: int = 2**28, **concurrency: int) -> None:
        self.opened = asyncio.Event()
        self.rules = {name: Rule(self._judge(name), concurrency=n) for name, n in concurrency.items()}
        super().__init__(self.rules.values(), queue_size=queue_size, max_bytes=max_bytes)

    def _judge(self, name: str) -> FunctionScorer:
        async def judge(run: Run) -> float:
            await self.opened.wait()
            return 1.0

        return scorer(id=name, version="1")(judge)

    @property
    def begun(self) -> list[str]:
        return [job.rule.name for job in self.started]

    def offer(self, name: str, drop: str | None = None) -> Job:
        return self.submit(self.rules[name], drop)

    async def all_ended(self, count: int) -> Counter[Outcome]:
        return Counter(await self.outcomes(count))


def test_each_rule_has_its_own_slots() -> None:
    """A rule whose scorers hang takes nothing from the others."""

    async def body() -> None:
        board = Board(10, slow=1, quick=2)
        jobs = [board.offer(name) for name in ("slow", "slow", "slow", "quick", "quick", "quick")]
        assert Counter(board.begun) == {"slow": 1, "quick": 2}
        assert (board.scheduler.waiting, board.scheduler.room) == (3, 7)
        running = {(job.rule.name, job.target.span_id) for job in jobs}
        assert board.scheduler.running() == running
        board.opened.set()
        assert await board.all_ended(6) == {Score(value=1.0): 6}
        assert (board.scheduler.waiting, board.scheduler.running()) == (0, set())

    asyncio.run(body())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.lists(st.sampled_from(["a", "b"]), max_size=20))
def test_what_finds_no_room_is_dropped_and_everything_ends_once(queue_size: int, names: list[str]) -> None:
    async def body() -> None:
        board = Board(queue_size, a=1, b=2)
        jobs = []
        for name in names:
            jobs.append(board.offer(name))
            assert board.scheduler.waiting <= queue_size
            assert board.scheduler.room == queue_size - board.scheduler.waiting
        board.opened.set()
        outcomes = await board.all_ended(len(names))
        assert {id(job) for job, _ in board.ended} == {id(job) for job in jobs}
        assert len(board.ended) == len(jobs)
        assert set(outcomes) <= {Score(value=1.0), Dropped(reason="queue_full")}
        assert all(job.ended for job in jobs)

    asyncio.run(body())


def test_a_job_with_a_free_slot_needs_no_room_in_the_queue() -> None:
    """The queue is full of another rule's jobs, whose judge hangs: a rule that could run does run."""

    async def body() -> None:
        board = Board(2, hanging=1, quick=1)
        for _ in range(3):
            board.offer("hanging")
        assert board.scheduler.room == 0
        board.offer("quick")
        assert board.begun == ["hanging", "quick"]
        board.opened.set()
        assert await board.all_ended(4) == {Score(value=1.0): 4}

    asyncio.run(body())


def test_without_room_the_rule_that_most_wait_for_loses_its_newest_job() -> None:
    async def body() -> None:
        board = Board(4, hanging=1, quick=1)
        hanging = [board.offer("hanging") for _ in range(5)]
        quick = [board.offer("quick") for _ in range(4)]
        dropped = {id(job): outcome for job, outcome in board.ended}
        full = Dropped(reason="queue_full")
        assert dropped == {id(job): full for job in (hanging[4], hanging[3], quick[3])}
        assert (board.scheduler.room, board.scheduler.waiting) == (0, 4)
        board.opened.set()
        await board.all_ended(9)

    asyncio.run(body())


def test_a_slow_rule_costs_an_instant_one_no_room_in_the_queue() -> None:
    async def body() -> None:
        board = Board(20, slow=2, instant=16)
        board.scheduler.lanes["slow"].pace = 10.0
        for _ in range(40):
            board.offer("slow")
        for _ in range(100):
            board.offer("instant")
        waiting = {name: lane.waiting for name, lane in board.scheduler.lanes.items()}
        assert waiting == {"slow": 0, "instant": 20}
        board.offer("slow")
        assert board.scheduler.lanes["instant"].waiting == 20, "a slow rule takes none of it back"
        board.opened.set()
        await board.all_ended(141)
        ended = Counter((job.rule.name, type(outcome).__name__) for job, outcome in board.ended)
        assert ended["instant", "Score"] == 36
        assert ended["slow", "Score"] == 2

    asyncio.run(body())


def test_a_scorer_that_never_waits_needs_no_room_in_the_queue() -> None:
    async def body() -> None:
        slow = Board(1, slow=1).rules["slow"]
        instant = Rule(scorer(id="instant", version="1", inline=True)(lambda run: True))
        board = Evaluating([slow, instant], queue_size=1)
        for _ in range(5):
            board.submit(slow)
        for _ in range(50):
            board.submit(instant)
        ended = Counter((job.rule.name, type(outcome).__name__) for job, outcome in board.ended)
        assert ended == {("instant", "Score"): 50, ("slow", "Dropped"): 3}
        board.evaluator.abort("shutdown")

    asyncio.run(body())


def test_a_job_may_be_dropped_for_a_reason_of_the_callers() -> None:
    async def body() -> None:
        board = Board(10, a=1)
        job = board.offer("a", "too_many_conversations")
        assert board.ended == [(job, Dropped(reason="too_many_conversations"))]
        assert job.ended
        assert board.begun == []

    asyncio.run(body())


def test_after_an_abort_nothing_starts_any_more() -> None:
    async def body() -> None:
        board = Board(10, a=1, b=1)
        jobs = [board.offer(name) for name in ("a", "a", "b")]
        board.evaluator.abort("shutdown")
        late = board.offer("b")
        assert {id(job) for job, _ in board.ended} == {id(job) for job in [*jobs, late]}
        assert {outcome for _, outcome in board.ended} == {Dropped(reason="shutdown")}
        assert board.begun == ["a", "b"]
        board.scheduler.close()

    asyncio.run(body())


def test_an_outcome_may_submit_further_jobs() -> None:
    """As cascades do, from within the end of a job; also while aborting, when they are dropped."""

    class Following(Board):
        def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
            super().attach(run, evaluation, opened)
            if evaluation.rule == "a":
                self.offer("b")

    async def body() -> None:
        board = Following(10, a=1, b=1)
        board.offer("a")
        board.opened.set()
        assert await board.all_ended(2) == {Score(value=1.0): 2}
        board.opened.clear()
        board.offer("a")
        board.evaluator.abort("shutdown")
        assert [outcome for _, outcome in board.ended[2:]] == [Dropped(reason="shutdown")] * 2

    asyncio.run(body())


class Loading(FunctionScorer):
    def prepare(self) -> None:
        object.__setattr__(self, "loaded", True)


def test_all_scorers_prepare_themselves() -> None:
    async def body() -> None:
        scorers: list[Any] = [Loading(lambda run: 1.0, id=name, version="1") for name in "ab"]
        await Evaluating(map(Rule, scorers)).evaluator.prepare()
        assert all(each.loaded for each in scorers)

    asyncio.run(body())
