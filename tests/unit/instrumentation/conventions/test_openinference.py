"""What OpenInference's instrumentations write beside the convention's letter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals.model import OperationKind, SpanEvent
from tests.support.trace_builder import DIALECTS, TraceBuilder, run_of, span

J = json.dumps
KIND = "openinference.span.kind"


def test_messages_are_claimed_without_a_kind() -> None:
    message = "llm.{}_messages.0.message."
    attributes = {
        message.format("input") + "role": "user",
        message.format("input") + "content": "Hi.",
        message.format("output") + "role": "assistant",
        message.format("output") + "content": "Hello.",
    }
    run = run_of(span(1, attributes, scope_name="my-app"))
    assert (run.root_kind, run.input, run.output) == (OperationKind.INFERENCE, "Hi.", "Hello.")


def test_results_of_autogen_stand_beside_the_message_that_they_are() -> None:
    """Calls are JSON without a type in the content; each result is JSON under `function.N`."""
    calls = [{"id": f"c{n}", "arguments": J({"n": n}), "name": "add"} for n in (1, 2)]
    results = [J({"name": "add", "content": str(n), "call_id": f"c{n}", "is_error": False}) for n in (1, 2)]
    base = "llm.input_messages."
    attributes: dict[str, Any] = {
        KIND: "LLM",
        base + "0.message.role": "user",
        base + "0.message.content": "Add.",
        base + "1.message.role": "assistant",
        base + "1.message.content": J(calls),
        base + "2.message.role": "function",
        base + "2.function.0": results[0],
        base + "2.function.1": results[1],
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Added.",
    }
    run = run_of(span(1, attributes, scope_name="openinference.instrumentation.autogen_agentchat"))
    assert [(c.id, c.arguments, c.result) for c in run.tool_calls] == [
        ("c1", {"n": 1}, "1"),
        ("c2", {"n": 2}, "2"),
    ]
    assert (run.input, run.output) == ("Add.", "Added.")


@pytest.mark.parametrize("names", [["Pipeline.run", "Agent.run"], ["Agent.run"], ["Pipeline.run"]])
def test_what_haystack_runs_is_a_run_with_an_error_where_its_model_failed(names: list[str]) -> None:
    error = SpanEvent(name="exception", attributes={"exception.message": "no quota"})
    failed: dict[str, Any] = {"status": "ERROR", "events": (error,)}
    spans = TraceBuilder("openinference.instrumentation.haystack")
    for name in names:
        spans.add(name, {KIND: "CHAIN"}, **failed)
    assert (spans.run.error, spans.run.output) == ("no quota", None)


def test_a_lone_retrieval_was_asked_its_query() -> None:
    attributes = {
        KIND: "RETRIEVER",
        "input.value": "tides",
        "retrieval.documents.0.document.content": "They turn.",
    }
    operation = DIALECTS.read(span(1, attributes))
    assert operation is not None
    run = run_of(span(1, attributes))
    assert (run.input, [d.content for d in run.documents]) == ("tides", ["They turn."])
