"""Resuming: from the tasks of a stored run to what is to be scored now, as it was sampled then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from otel_evals import Rule, Run, scorer
from otel_evals._internal.durable_queue.resumption import expected_ids, judged_runs, resumptions
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, Task
from otel_evals._internal.evaluate.queue_interface import Resumption
from otel_evals._internal.read.conversation import as_conversation, evaluation_id
from otel_evals._internal.read.runs import find_runs
from otel_evals.model import Sampled
from tests.support.trace_builder import DIALECTS, TraceBuilder

TRACE = (
    TraceBuilder("app")
    .add("invoke_agent outer", {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c1"})
    .add("invoke_agent inner", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "inner"})
)
RUNS = find_runs(TRACE.spans, DIALECTS)
OUTER, INNER = f"{1:016x}", f"{2:016x}"


def judge(name: str) -> Any:
    return scorer(id=name, version="1")(lambda run: 1.0)


RULES = {
    rule.name: rule
    for rule in (Rule(judge("a")), Rule(judge("b"), scope="agent"), Rule(judge("c"), scope="conversation"))
}


def stored(*tasks: Task, **status: Any) -> StoredRun:
    return StoredRun("b" * 32, tuple(TRACE.spans), {}, RunStatus(tasks=tasks, revision=2, **status))


WHOLE = Task("a", OUTER, 0.5, "ratio(0.5)")
PART = Task("b@agent", INNER, None, "when(vip)", "agent")
TALK = Task("c@conversation", OUTER, 1.0, "always()", "conversation")


def test_tasks_become_evaluations_of_the_judged_parts_as_they_were_sampled() -> None:
    found, absent = resumptions(stored(WHOLE, PART), RUNS, RULES)
    assert absent == []
    whole, part = found
    assert whole == Resumption("a", RUNS[0], Sampled(0.5, "ratio(0.5)"), 2)
    assert (part.run.root_span_id, part.run.agent_name) == (INNER, "inner")
    assert part.sampled == Sampled(None, "when(vip)")


def test_only_what_is_left_is_made() -> None:
    found, _ = resumptions(stored(WHOLE, PART, left=(1,)), RUNS, RULES)
    assert [each.rule for each in found] == ["b@agent"]
    assert resumptions(stored(WHOLE, left=()), RUNS, RULES) == ([], [])


def test_tasks_of_rules_that_are_not_configured_are_told_by_position() -> None:
    found, absent = resumptions(stored(WHOLE, Task("gone", OUTER, 1.0, ""), PART), RUNS, RULES)
    assert ([each.rule for each in found], absent) == (["a", "b@agent"], [1])


def test_what_every_destination_has_is_not_made_again() -> None:
    run = stored(WHOLE, PART)
    run.lacking = {OUTER: (), INNER: ("memory",)}
    found, _ = resumptions(run, RUNS, RULES)
    assert [each.rule for each in found] == ["b@agent"]


def test_a_judged_span_that_is_gone_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no longer among the run's spans"):
        resumptions(stored(WHOLE._replace(target="f" * 16)), RUNS, RULES)


def test_a_conversation_is_made_of_its_runs_again() -> None:
    assert judged_runs(stored(WHOLE), RUNS) == RUNS
    (whole,) = judged_runs(stored(TALK), RUNS)
    assert [turn.root_span_id for turn in whole.turns] == [OUTER]
    assert judged_runs(stored(TALK), []) == []


def test_expected_ids_are_those_that_scoring_will_give() -> None:
    """Without reading the spans, unless a conversation's id is asked for."""

    def never() -> list[Run]:
        raise AssertionError("no spans are needed")

    agent = replace(RUNS[0], root_span_id=INNER)
    unknown = Task("gone", OUTER, 1.0, "")
    assert expected_ids(stored(WHOLE, PART, unknown), RULES, never) == {
        OUTER: [evaluation_id(RUNS[0], "a", "1")],
        INNER: [evaluation_id(agent, "b@agent", "1")],
    }
    ids = expected_ids(stored(TALK), RULES, lambda: RUNS)
    assert ids == {OUTER: [evaluation_id(as_conversation(RUNS), "c", "1")]}
    assert ids[OUTER] != [evaluation_id(RUNS[0], "c", "1")]
