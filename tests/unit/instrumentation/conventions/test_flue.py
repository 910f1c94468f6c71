"""Flue's adapter: turns have OpenTelemetry's names, what is around them has `flue.*`."""

from __future__ import annotations

import json

from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps


def test_a_workflow_with_a_turn_and_a_tool_is_a_run() -> None:
    turn = {"systemPrompt": "Be kind.", "messages": [{"role": "user", "content": "Hungry."}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Eat soup."}]}
    spans = (
        TraceBuilder("@flue/opentelemetry")
        .add("flue.workflow cook", {"flue.workflow.name": "cook"})
        .add("flue.operation prompt", {"flue.operation.kind": "prompt"})
        .add(
            "chat m1",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m1",
                "flue.turn.input": J(turn),
                "flue.turn.output": J(reply),
            },
            1,
        )
        .add(
            "flue.tool pantry",
            {
                "flue.tool.name": "pantry",
                "flue.tool.call_id": "c1",
                "flue.tool.arguments": J({"shelf": 2}),
                "flue.tool.result": J({"content": [{"type": "text", "text": "soup"}]}),
            },
            1,
        )
    )
    run = spans.run
    assert (run.input, run.output, run.system_instructions) == ("Hungry.", "Eat soup.", "Be kind.")
    assert the_call(run) == ("pantry", {"shelf": 2}, "soup", "ok")
    assert run.tool_calls[0].id == "c1"


def test_a_task_that_was_handed_on_is_an_agents() -> None:
    task = {
        "flue.task.id": "t1",
        "flue.task.agent": "scribe",
        "flue.task.prompt": "Sum it up.",
        "flue.task.result": "Done.",
    }
    run = TraceBuilder("@flue/opentelemetry").add("flue.task scribe", task).run
    assert (run.agent_name, run.input, run.output) == ("scribe", "Sum it up.", "Done.")
