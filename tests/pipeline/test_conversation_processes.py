"""Rules of scope `conversation` whose scorers have processes of their own."""

from __future__ import annotations

import os
from typing import Any

import pytest

from otel_evals import Rule, Run, Score, scorer
from tests.support.traffic import Live, agent_run
from tests.support.waits import eventually


@scorer(version="1")
def elsewhere(run: Run) -> Score:
    """A tenth for each turn, with what was said and which process it was judged in."""
    said = [m.text for m in (*run.history, *run.input_messages) if m.role == "user"]
    tools = sum(len(turn.tool_calls) for turn in run.turns)
    return Score(value=len(run.turns) / 10, explanation=f"{os.getpid()} {tools} {said}")


def say(tracer: Any, conversation: str, question: str) -> int:
    return agent_run(
        tracer, question, during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation)
    )


@pytest.mark.slow
def test_a_scorer_in_its_own_process_sees_the_turns() -> None:
    rule = Rule(elsewhere, scope="conversation", idle=0.5, isolation="process")
    with Live(rule) as live:
        for number in range(3):
            say(live.tracer, "c1", f"q{number}")
        eventually(lambda: live.pipeline.stats().rules["elsewhere@conversation"].scored == 1)
        assert live.flush()
        (evaluation,) = live.scored.evaluations
    assert isinstance(evaluation.outcome, Score)
    assert evaluation.outcome.value == 0.3
    pid, tools, said = str(evaluation.outcome.explanation).split(" ", 2)
    assert (int(pid) != os.getpid(), tools, said) == (True, "3", "['q0', 'q1', 'q2']")
