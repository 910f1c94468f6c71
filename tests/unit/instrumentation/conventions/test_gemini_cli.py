"""Gemini CLI's operations and Gemini's JSON in OpenTelemetry's attributes."""

from __future__ import annotations

import json

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps
OP = "gen_ai.operation.name"


def turn() -> TraceBuilder:
    """A prompt, a model's call of a tool, the tool, and the answer in two chunks."""
    asked = [{"role": "user", "parts": [{"text": "What is in notes.txt?"}]}]
    call = {"functionCall": {"id": "r1", "name": "read_file", "args": {"path": "notes.txt"}}}
    reply = {"functionResponse": {"id": "r1", "name": "read_file", "response": {"output": "buy milk"}}}
    conversation = [*asked, {"role": "model", "parts": [call]}, {"role": "user", "parts": [reply]}]
    done = {
        "status": "success",
        "response": {"callId": "r1", "responseParts": [reply], "resultDisplay": "read"},
    }
    request = {"callId": "r1", "name": "read_file", "args": {"path": "notes.txt"}, "isClientInitiated": False}
    chunks = [{"role": "model", "parts": [{"text": text}]} for text in ("You should ", "buy milk.")]
    model = {OP: "llm_call", "gen_ai.agent.name": "gemini-cli", "gen_ai.request.model": "gemini-x"}
    return (
        TraceBuilder("gemini-cli")
        .add(
            "user_prompt",
            {OP: "user_prompt", "gen_ai.agent.name": "gemini-cli", "gen_ai.conversation.id": "s1"},
        )
        .add(
            "llm_call",
            {
                **model,
                "gen_ai.input.messages": J(asked),
                "gen_ai.output.messages": J({"role": "model", "parts": [call]}),
                "gen_ai.usage.input_tokens": 12,
                "gen_ai.usage.output_tokens": 3,
            },
        )
        .add("schedule_tool_calls", {OP: "schedule_tool_calls", "gen_ai.input.messages": J([request])})
        .add(
            "tool_call",
            {OP: "tool_call", "gen_ai.input.messages": J(request), "gen_ai.output.messages": J(done)},
            2,
        )
        .add(
            "llm_call",
            {**model, "gen_ai.input.messages": J(conversation), "gen_ai.output.messages": J(chunks)},
        )
    )


def test_a_turn_is_recovered() -> None:
    run = turn().run
    assert (run.root_kind, run.input, run.output) == (
        OperationKind.AGENT,
        "What is in notes.txt?",
        "You should buy milk.",
    )
    assert the_call(run) == ("read_file", {"path": "notes.txt"}, "buy milk", "ok")
    assert (run.conversation_id, run.models, run.usage.input_tokens) == ("s1", ("gemini-x",), 12)


def test_a_tool_that_failed_says_why() -> None:
    request = {"callId": "r1", "name": "read_file", "args": {"path": "x"}}
    done = {"status": "error", "response": {"responseParts": [], "error": {"message": "no such file"}}}
    spans = TraceBuilder("gemini-cli").add("agent_call", {OP: "agent_call"})
    spans.add(
        "tool_call", {OP: "tool_call", "gen_ai.input.messages": J(request), "gen_ai.output.messages": J(done)}
    )
    (call,) = spans.run.tool_calls
    assert (call.id, call.status, call.error, call.result) == ("r1", "error", "no such file", None)


def test_a_request_that_was_cut_off_keeps_its_beginning() -> None:
    """Long values end in a mark that says how long they were."""
    asked = J([{"role": "user", "parts": [{"text": "Read all of " + "x" * 200}]}])
    cut = asked[:120] + f"...[TRUNCATED: original length {len(asked)}]"
    spans = TraceBuilder("gemini-cli").add("llm_call", {OP: "llm_call", "gen_ai.input.messages": cut})
    run = spans.run
    assert run.input is not None
    assert run.input.startswith("Read all of xxx")
    assert "TRUNCATED" not in run.input
    assert run.availability["input"] == "truncated"
