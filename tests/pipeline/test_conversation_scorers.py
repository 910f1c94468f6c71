"""The package's own scorers on whole conversations, of a real framework and of spans made by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otel_evals import NotScored, Run, Score, sampling
from otel_evals._internal.read.conversation import as_conversation
from otel_evals.context import tool_results
from otel_evals.judges import ScriptedJudge
from otel_evals.model import Usage
from otel_evals.scorers import (
    answered,
    grounded_in_tools,
    hallucination,
    repeated_calls,
    within_budget,
)
from tests.support.judge_scorers import reply_of
from tests.support.runs import a_run, tool


def conversation(*turns: Run) -> Run:
    return as_conversation(
        Run(**{**turn.__dict__, "start_time": n, "trace_id": f"{n + 1:032x}", "conversation_id": "c"})
        for n, turn in enumerate(turns)
    )


def judged(scorer: Any, run: Run) -> Score | NotScored:
    outcome = asyncio.run(scorer.score(run))
    assert isinstance(outcome, Score | NotScored)
    return outcome


def test_what_a_tool_told_in_an_earlier_turn_supports_the_last_answer() -> None:
    told = a_run("It ships with ACME.", "Who ships it?", tools=[tool("lookup", {"eta": "2026-11-25"})])
    last = a_run("It arrives on 2026-11-25.", "When?")
    alone, whole = judged(grounded_in_tools(), last), judged(grounded_in_tools(), conversation(told, last))
    assert isinstance(alone, NotScored)
    assert isinstance(whole, Score)
    assert whole.value == 1.0


def test_judges_get_the_tool_results_of_all_turns() -> None:
    judge = ScriptedJudge({"analyze": reply_of("hallucination", "two")})
    first = a_run("One.", tools=[tool("a", "first result")])
    last = a_run("Two.", tools=[tool("b", "second result")])
    scorer = hallucination(model=judge, get_context=tool_results())
    assert isinstance(judged(scorer, conversation(first, last)), Score)
    prompt = judge.requests[0].prompt
    assert "first result" in prompt
    assert "second result" in prompt


def test_calls_are_counted_over_all_turns() -> None:
    same = [tool("search", arguments={"q": "x"})]
    once, twice = (
        judged(repeated_calls(), conversation(*turns))
        for turns in ((a_run(tools=same),), (a_run(tools=same), a_run(tools=same)))
    )
    assert isinstance(once, Score)
    assert isinstance(twice, Score)
    assert once.value != twice.value


def test_a_conversation_has_the_budget_of_all_its_turns() -> None:
    turn = a_run(usage=Usage(input_tokens=60, output_tokens=10))
    limit = within_budget(max_tokens=100)
    one, two = judged(limit, conversation(turn)), judged(limit, conversation(turn, turn))
    assert [one.value, two.value] == [1.0, pytest.approx(100 / 140, abs=0.01)]  # type: ignore[union-attr]


def test_errors_pick_a_conversation_in_which_something_failed() -> None:
    broken = conversation(a_run(None, error="boom", error_type="E"), a_run())
    assert sampling.errors().chance(broken).probability == 1.0
    assert isinstance(judged(answered(), broken), Score)
