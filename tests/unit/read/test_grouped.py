"""Traces around several invocations: openai-agents' `trace()` with two of `Runner.run`, or an own span."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals.model import SpanRecord
from tests.support.trace_builder import KNOWN_CONVENTIONS, span

J = json.dumps
KIND = "openinference.span.kind"


def agents(*turns: tuple[str, list[str], str | None], scope: str = "openai_agents") -> list[SpanRecord]:
    """A trace with one agent for each turn: its name, what its model was given, and what it answered."""
    scope_name = "openinference.instrumentation." + scope
    made = [span(1, {KIND: "AGENT", "session.id": "s"}, scope_name=scope_name, name="trace")]
    for number, (name, given, answer) in enumerate(turns):
        attributes: dict[str, Any] = {KIND: "LLM"}
        for index, text in enumerate(given):
            role = "user" if index % 2 == 0 else "assistant"
            attributes[f"llm.input_messages.{index}.message.role"] = role
            attributes[f"llm.input_messages.{index}.message.content"] = text
        if answer is not None:
            attributes["llm.output_messages.0.message.role"] = "assistant"
            attributes["llm.output_messages.0.message.content"] = answer
        above, inside = number * 2 + 2, number * 2 + 3
        own = {KIND: "AGENT", "agent.name": name}
        made.append(span(above, own, scope_name=scope_name, end_time=inside * 10 + 6))
        made.append(span(inside, attributes, parent=above, scope_name=scope_name))
    return made


def test_two_runs_in_one_trace_are_two_runs() -> None:
    found = find_runs(agents(("one", ["A?"], "a."), ("two", ["B?"], "b.")), KNOWN_CONVENTIONS)
    assert [(r.agent_name, r.input, r.output) for r in found] == [("one", "A?", "a."), ("two", "B?", "b.")]
    assert [r.conversation_id for r in found] == ["s", "s"]


def test_two_turns_of_one_conversation_are_two_runs() -> None:
    found = find_runs(agents(("one", ["A?"], "a."), ("one", ["A?", "a.", "B?"], "b.")), KNOWN_CONVENTIONS)
    assert [(r.input, r.output, len(r.history)) for r in found] == [("A?", "a.", 0), ("B?", "b.", 2)]


def test_a_handover_is_one_run() -> None:
    """The second agent was asked what the first was asked, and only it answers."""
    (run,) = find_runs(agents(("one", ["A?"], None), ("two", ["A?"], "a.")), KNOWN_CONVENTIONS)
    assert (run.input, run.output) == ("A?", "a.")


@pytest.mark.parametrize(
    "around",
    [
        {"langfuse.observation.type": "span"},
        {"langfuse.observation.type": "chain"},
        {"mlflow.spanType": '"CHAIN"'},
        {"lmnr.span.type": "DEFAULT"},
        {"langwatch.span.type": "workflow"},
    ],
    ids=lambda around: next(iter(around)),
)
def test_agents_below_an_applications_own_span_are_runs_of_their_own(around: dict[str, Any]) -> None:
    """The span around them says neither what was asked nor what was answered: nobody's first question is
    put together with another one's answer."""
    below = agents(("one", ["A?"], "a."), ("two", ["B?"], "b."))[1:]
    found = find_runs([span(1, around, scope_name="my-app", name="app"), *below], KNOWN_CONVENTIONS)
    assert [(r.agent_name, r.input, r.output) for r in found] == [("one", "A?", "a."), ("two", "B?", "b.")]


def test_an_applications_own_span_that_tells_its_turn_is_the_run() -> None:
    own = {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": "Both?",
        "langfuse.observation.output": "Both.",
    }
    below = agents(("one", ["A?"], "a."), ("two", ["B?"], "b."))[1:]
    (run,) = find_runs([span(1, own, scope_name="my-app", name="app"), *below], KNOWN_CONVENTIONS)
    assert (run.input, run.output) == ("Both?", "Both.")


def test_agents_that_a_workflow_calls_one_after_another_are_one_run() -> None:
    """Elsewhere the span around them is the invocation."""
    turns = [("one", ["A?"], "a."), ("two", ["B?"], "b.")]
    (run,) = find_runs(agents(*turns, scope="crewai"), KNOWN_CONVENTIONS)
    assert (run.input, run.output) == ("A?", "b.")
