"""Genkit in JavaScript and in Go."""

from __future__ import annotations

import json

import pytest

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder

J = json.dumps


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"text": text}], ids=["js", "go"])
def test_a_flow_with_a_model_is_a_run(wrap: object) -> None:
    """Parts of Go's plugins may hold their text in an object."""
    assert callable(wrap)
    asked = {"messages": [{"role": "user", "content": [{"text": wrap("A menu?")}]}]}
    reply = {
        "message": {"role": "model", "content": [{"text": wrap("Soup.")}]},
        "finishReason": "stop",
        "usage": {"inputTokens": 6, "outputTokens": 2, "totalTokens": 8, "thoughtsTokens": 1},
    }
    flow = {"genkit:type": "action", "genkit:metadata:subtype": "flow", "genkit:name": "menu"}
    model = {"genkit:type": "action", "genkit:metadata:subtype": "model", "genkit:name": "googleai/m"}
    spans = (
        TraceBuilder("genkit-tracer")
        .add(
            "menu",
            {
                **flow,
                "genkit:metadata:flow:name": "menu",
                "genkit:input": J("A menu?"),
                "genkit:output": J("Soup."),
            },
        )
        .add("googleai/m", {**model, "genkit:input": J(asked), "genkit:output": J(reply)})
    )
    run = spans.run
    assert (run.root_kind, run.input, run.output) == (OperationKind.WORKFLOW, "A menu?", "Soup.")
    assert [m.text for m in run.operations[1].input_messages] == ["A menu?"]
    assert [m.text for m in run.operations[1].output_messages] == ["Soup."]
    assert (run.usage.input_tokens, run.usage.output_tokens, run.usage.reasoning_tokens) == (6, 2, 1)


def test_what_was_redacted_is_no_content() -> None:
    model = {
        "genkit:type": "model",
        "genkit:name": "m",
        "genkit:input": "<redacted>",
        "genkit:output": "<redacted>",
    }
    run = TraceBuilder("genkit-tracer").add("m", model).run
    assert (run.input, run.output, run.availability["input"]) == (None, None, "captured_off")
