"""Braintrust's spans, whose fields are JSON."""

from __future__ import annotations

import json

from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps
OWN = "braintrust."


def test_a_task_with_a_model_and_a_tool_is_a_run() -> None:
    def kind(name: str) -> dict[str, str]:
        return {OWN + "span_attributes": J({"type": name})}

    reply = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Blue."}}]
    spans = (
        TraceBuilder("braintrust")
        .add(
            "colour",
            {**kind("task"), OWN + "input_json": J("Which colour?"), OWN + "output_json": J("Blue.")},
        )
        .add(
            "openai.chat",
            {
                **kind("llm"),
                OWN + "input_json": J([{"role": "user", "content": "Which colour?"}]),
                OWN + "output_json": J(reply),
                OWN + "metadata": J({"model": "m1", "provider": "openai", "user_id": "u1"}),
                OWN + "metrics": J({"prompt_tokens": 6, "completion_tokens": 1, "prompt_cached_tokens": 2}),
            },
        )
        .add(
            "function: mix",
            {
                **kind("tool"),
                "gen_ai.tool.name": "mix",
                OWN + "input_json": J({"with": "white"}),
                OWN + "output_json": J("sky"),
            },
        )
    )
    run = spans.run
    assert (run.input, run.output) == ("Which colour?", "Blue.")
    assert the_call(run) == ("mix", {"with": "white"}, "sky", "ok")
    assert (run.models, run.provider, run.user_id) == (("m1",), "openai", "u1")
    assert (run.usage.input_tokens, run.usage.output_tokens, run.usage.cache_read_tokens) == (6, 1, 2)


def test_scores_of_an_evaluation_are_no_part_of_a_run() -> None:
    spans = TraceBuilder("braintrust").add("eval", {OWN + "span_attributes": J({"type": "eval"})})
    spans.add(
        "task",
        {
            OWN + "span_attributes": J({"type": "task"}),
            OWN + "input_json": J("a"),
            OWN + "output_json": J("b"),
        },
    )
    spans.add("chat", {OWN + "span_attributes": J({"type": "llm"}), OWN + "output_json": J("b")}, 1)
    spans.add(
        "score", {OWN + "span_attributes": J({"type": "score"}), OWN + "output_json": J({"exact": 1.0})}
    )
    assert (spans.run.input, spans.run.output) == ("a", "b")
