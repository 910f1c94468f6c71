"""LiveKit's voice agents: turns, model nodes and function tools."""

from __future__ import annotations

import json

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals.model import SpanEvent
from tests.support.trace_builder import DIALECTS, TraceBuilder, the_call

J = json.dumps
CONTEXT = {
    "items": [
        {"type": "message", "role": "system", "content": ["You order drinks."]},
        {"type": "message", "role": "user", "content": ["A tea, please."]},
    ]
}


@pytest.mark.parametrize("prefix", ["lk.", "lk.pii."])
def test_a_turn_is_recovered(prefix: str) -> None:
    """Content moved to `lk.pii.*`; both forms are read."""
    asked = [{"call_id": "c1", "name": "order", "arguments": '{"drink": "tea"}'}]
    spans = (
        TraceBuilder("livekit-agents")
        .add("agent_session", {"lk.agent_label": "waiter"})
        .add("user_turn", {prefix + "user_transcript": "A tea, please.", "gen_ai.request.model": "ears"})
        .add(
            "agent_turn",
            {prefix + "user_input": "A tea, please.", prefix + "instructions": "You order drinks."},
        )
        .add(
            "llm_node",
            {
                prefix + "chat_ctx": J(CONTEXT),
                prefix + "response.text": "",
                prefix + "response.function_calls": J(asked),
                "gen_ai.request.model": "brain",
            },
            2,
        )
        .add(
            "function_tool",
            {
                "lk.function_tool.id": "c1",
                "lk.function_tool.name": "order",
                prefix + "function_tool.arguments": '{"drink": "tea"}',
                prefix + "function_tool.output": "ordered",
                "lk.function_tool.is_error": False,
            },
            2,
        )
        .add(
            "llm_node", {prefix + "response.text": "Your tea is coming.", "gen_ai.request.model": "brain"}, 2
        )
        .add("tts_node", {prefix + "input_text": "Your tea is coming.", "gen_ai.request.model": "mouth"}, 2)
    )
    run = spans.run
    assert (run.input, run.output) == ("A tea, please.", "Your tea is coming.")
    assert run.system_instructions == "You order drinks."
    assert the_call(run) == ("order", {"drink": "tea"}, "ordered", "ok")
    assert run.models == ("brain",)


def test_a_model_request_is_told_by_its_events() -> None:
    """Calls stand in events as texts of JSON; results name the call that they answer."""
    call = J({"function": {"name": "order", "arguments": '{"drink": "tea"}'}, "id": "c1", "type": "function"})
    events = (
        SpanEvent(name="gen_ai.user.message", attributes={"content": "A tea, please."}),
        SpanEvent(name="gen_ai.assistant.message", attributes={"role": "assistant", "tool_calls": (call,)}),
        SpanEvent(name="gen_ai.tool.message", attributes={"content": "ordered", "name": "order", "id": "c1"}),
        SpanEvent(name="gen_ai.choice", attributes={"role": "assistant", "content": "Coming."}),
    )
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "brain"}
    spans = TraceBuilder("livekit-agents").add("agent_turn", {}).add("llm_request", attributes, events=events)
    run = spans.run
    assert (run.input, run.output) == ("A tea, please.", "Coming.")
    assert [(c.name, c.id, c.arguments, c.result) for c in run.tool_calls] == [
        ("order", "c1", {"drink": "tea"}, "ordered")
    ]


def test_a_tool_that_failed_says_so_in_a_flag() -> None:
    tool = {
        "lk.function_tool.name": "order",
        "lk.function_tool.output": "out of tea",
        "lk.function_tool.is_error": True,
    }
    (call,) = TraceBuilder("livekit-agents").add("agent_turn", {}).add("function_tool", tool).run.tool_calls
    assert (call.status, call.error) == ("error", "out of tea")


def test_each_turn_of_a_session_that_calls_itself_a_workflow_is_a_run() -> None:
    """Two turns without a room: the session tells a workflow's operation, and no question of its own."""
    spans = TraceBuilder("livekit-agents").add(
        "agent_session",
        {
            "lk.agent_label": "waiter",
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": "agent_session",
        },
    )
    for asked, said in (("Tea?", "Yes."), ("Milk?", "No.")):
        turn = len(spans.spans)
        told = {"lk.pii.user_input": asked, "lk.pii.response.text": said}
        spans.add("agent_turn", {"gen_ai.operation.name": "invoke_agent", **told})
        spans.add("llm_node", {"lk.pii.response.text": said, "gen_ai.request.model": "brain"}, turn)
    runs = find_runs(spans.spans, DIALECTS)
    assert [(run.input, run.output) for run in runs] == [("Tea?", "Yes."), ("Milk?", "No.")]
