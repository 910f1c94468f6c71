"""Langfuse's observations."""

from __future__ import annotations

import json

import pytest

from otel_evals.model import OperationKind
from tests.support.trace_builder import DIALECTS, TraceBuilder, run_of, span

J = json.dumps
OWN = "langfuse.observation."


@pytest.mark.parametrize(
    "details",
    [
        {"input": 7, "output": 2},
        {"input_tokens": 7, "output_tokens": 2},
        {"prompt_tokens": 7, "completion_tokens": 2},
    ],
)
def test_tokens_are_counted_whatever_they_are_called(details: dict[str, int]) -> None:
    usage = {OWN + "type": "generation", OWN + "usage_details": J({**details, "total": 9})}
    run = TraceBuilder("langfuse-sdk").add("g", usage).run
    assert (run.usage.input_tokens, run.usage.output_tokens) == (7, 2)


@pytest.mark.parametrize("scope", ["langfuse-sdk", "my-app", "openinference.instrumentation.openai"])
def test_user_and_session_are_read_on_spans_of_any_scope(scope: str) -> None:
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "langfuse.user.id": "u",
        "langfuse.session.id": "s",
    }
    run = TraceBuilder(scope).add("a", attributes).run
    assert (run.user_id, run.conversation_id) == ("u", "s")


def test_strands_calls_its_own_agents_spans() -> None:
    """An agent of Strands says that it is a mere span to Langfuse; its operation says what it is."""
    attributes = {OWN + "type": "span", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    operation = DIALECTS.read(span(1, attributes, scope_name="strands.telemetry.tracer"))
    assert operation is not None
    assert (operation.kind, operation.agent_name) == (OperationKind.AGENT, "a")


def test_a_generation_that_an_old_version_calls_a_span_is_one() -> None:
    attributes = {
        OWN + "type": "span",
        OWN + "model.name": "m",
        OWN + "input": "Hi.",
        OWN + "output": "Hello.",
    }
    run = run_of(span(1, attributes, scope_name="langfuse-sdk"))
    assert (run.root_kind, run.models, run.input, run.output) == (
        OperationKind.INFERENCE,
        ("m",),
        "Hi.",
        "Hello.",
    )
