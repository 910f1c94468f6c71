"""The stage of conversations: when one is idle it is judged whole, and again after it went on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from otel_evals import Rule, Run, Score, scorer
from otel_evals._internal.evaluate.queue_interface import ConversationState, KeptRun, Recovered
from otel_evals._internal.read.reader import RunReader
from tests.support.trace_builder import DIALECTS
from tests.support.traffic import agent_run
from tests.support.wired import Wired, wired

IDLE = 0.03


@scorer(id="turns", version="1", inline=True)
def turns(run: Run) -> Score:
    return Score(value=len(run.turns) / 10, explanation=" ".join(t.input or "" for t in run.turns))


def say(w: Wired, text: str, conversation: str = "c1") -> None:
    agent_run(w.tracer, text, during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation))


def rule(**options: Any) -> Rule:
    return Rule(turns, scope="conversation", **{"idle": IDLE, **options})


def judged(w: Wired) -> list[tuple[str | None, int, str | None]]:
    return [
        (e.conversation_id, e.revision, e.outcome.explanation)
        for e in w.scored.evaluations
        if isinstance(e.outcome, Score)
    ]


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


def test_a_conversation_is_judged_whole_once_it_is_idle_and_anew_when_it_went_on() -> None:
    async def body() -> None:
        async with wired(rule()) as w:
            say(w, "one")
            say(w, "two")
            say(w, "other", "c2")
            w.feed()
            assert w.steps.conversations.waiting == 2
            await w.until(lambda: len(w.scored.runs) == 2)
            assert sorted(judged(w)) == [("c1", 1, "one two"), ("c2", 1, "other")]
            say(w, "three")
            w.feed()
            await w.until(lambda: len(w.scored.runs) == 3)
            assert judged(w)[-1] == ("c1", 2, "one two three")
            ids = {e.evaluation_id for e in w.scored.evaluations if e.conversation_id == "c1"}
            assert len(ids) == 1, "the same evaluation, in its next revision"

    run(body)


def test_every_run_moves_the_moment_on() -> None:
    async def body() -> None:
        async with wired(rule(idle=60.0)) as w:
            say(w, "one")
            w.feed()
            first = w.steps.conversations.next_due(0.0)
            say(w, "two")
            w.feed()
            assert w.steps.conversations.next_due(0.0) > first
            assert w.steps.conversations.due(first, 10) == []
            (joined,) = w.steps.conversations.due(first + 60.0, 10)
            conversation = joined.due.conversation
            assert (conversation.revisions, conversation.ruled_out) == ({joined.due.asked_with: 1}, False)
            assert joined.due.lost is None
            assert [t.input for t in joined.run.turns] == ["one", "two"]

    run(body)


def test_no_more_are_due_than_there_is_room_for() -> None:
    async def body() -> None:
        async with wired(rule(idle=60.0)) as w:
            for number in range(5):
                say(w, "hello", f"c{number}")
            w.feed()
            due = w.steps.conversations
            far = due.next_due(0.0) + 1_000
            assert due.due(far, 0) == []
            assert [len(due.due(far, most)) for most in (2, 2, 2, 2)] == [2, 2, 1, 0]

    run(body)


def test_rules_of_different_idle_times_are_asked_apart() -> None:
    @scorer(id="soon", version="1", inline=True)
    def soon(run: Run) -> float:
        return 1.0

    async def body() -> None:
        async with wired(rule(idle=60.0), Rule(soon, scope="conversation", idle=IDLE)) as w:
            say(w, "one")
            w.feed()
            await w.until(lambda: w.scored.runs)
            assert [e.scorer_id for e in w.scored.evaluations] == ["soon"]
            assert w.steps.conversations.waiting == 1

    run(body)


def test_at_the_end_what_waits_is_judged_in_time_or_dropped() -> None:
    async def body() -> None:
        async with wired(rule(idle=60.0)) as w:
            say(w, "one")
            w.feed()
            assert await w.steps.flush(w.loop.time() + 5)
            assert w.scored.runs == (), "a flush is not the end of a conversation"
            assert await w.steps.flush(w.loop.time() + 5, ending=True)
            assert judged(w) == [("c1", 1, "one")]
            say(w, "two")
            w.feed()
            await w.steps.flush(w.loop.time() + 5)
        assert w.ledger.stats().rules["turns@conversation"].dropped == {"shutdown": 1}

    run(body)


def test_a_run_of_a_process_that_has_ended_is_taken_back() -> None:
    """With how often each rule was asked, and which are to be asked."""

    async def body() -> None:
        async with wired(rule()) as w:
            say(w, "one")
            records = [item.record() for item in w.captured]  # type: ignore[union-attr]  # spans
            w.captured = []
            state = ConversationState({"turns@conversation": 4}, ("turns@conversation",))
            runs = RunReader(DIALECTS, w.ledger).read_again(records, {})
            w.steps.resume(Recovered(conversations=[(KeptRun(), runs, state)]))
            await w.until(lambda: w.scored.runs)
            assert judged(w) == [("c1", 5, "one")]

    run(body)


def test_without_such_rules_nothing_is_kept() -> None:
    @scorer(id="a", version="1")
    def a(run: Run) -> float:
        return 1.0

    async def body() -> None:
        async with wired(Rule(a)) as w:
            say(w, "one")
            w.feed()
            await w.settled()
            gatherer = w.steps.conversations
            assert (gatherer.active, gatherer.waiting, gatherer.due(1e9, 10), gatherer.end()) == (
                False,
                0,
                [],
                [],
            )
            assert gatherer.take_back(w.scored.runs[0].run, ConversationState({}, ()), 0.0) == []

    run(body)


def test_a_conversation_that_cannot_be_read_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(str):
        """An id that nobody foresaw."""

        def __format__(self, _: str) -> str:
            raise ValueError("odd id")

    async def body() -> None:
        async with wired(rule()) as w:
            say(w, "good")
            w.feed()
            records = []
            say(w, "bad", "c2")
            records = [item.record() for item in w.captured]  # type: ignore[union-attr]  # spans
            w.captured = []
            (bad,) = RunReader(DIALECTS, w.ledger).read_again(records, {})
            object.__setattr__(bad, "conversation_id", Odd("c2"))
            assert w.steps.conversations.take([bad], w.loop.time()) == []
            await w.until(lambda: w.scored.runs)
            assert judged(w) == [("c1", 1, "good")]
            assert w.ledger.stats().rules["turns@conversation"].not_sampled == {"unreadable": 1}

    run(body)
    assert "a conversation could not be judged" in caplog.text
