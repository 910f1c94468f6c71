"""Laminar's functions, tools and models."""

from __future__ import annotations

import json

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps


def test_a_function_that_calls_a_model_and_a_tool_is_a_run() -> None:
    properties = {"lmnr.association.properties.session_id": "s1", "lmnr.association.properties.user_id": "u1"}
    spans = (
        TraceBuilder("lmnr.tracer")
        .add(
            "answer",
            {"lmnr.span.input": J({"question": "How deep?"}), "lmnr.span.output": J("Nine."), **properties},
        )
        .add(
            "openai.chat",
            {
                "lmnr.span.type": "LLM",
                "gen_ai.system": "openai",
                "gen_ai.response.model": "m1",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "How deep?",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "Nine.",
                "gen_ai.usage.input_tokens": 4,
                "gen_ai.usage.output_tokens": 1,
            },
        )
        .add(
            "depth", {"lmnr.span.type": "TOOL", "lmnr.span.input": J({"lake": "x"}), "lmnr.span.output": "9"}
        )
    )
    run = spans.run
    assert (run.root_kind, run.input, run.output) == (OperationKind.WORKFLOW, "How deep?", "Nine.")
    assert the_call(run) == ("depth", {"lake": "x"}, "9", "ok")
    assert (run.conversation_id, run.user_id, run.models) == ("s1", "u1", ("m1",))
    assert run.usage.total_tokens == 5
