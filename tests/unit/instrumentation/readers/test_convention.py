"""Kinds that OpenTelemetry's names tell, with and without an operation name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals.model import OperationKind
from tests.support.trace_builder import KNOWN_CONVENTIONS, run_of, span

MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Hi."}]}])
INFERENCE, TOOL, AGENT = OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.AGENT


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai.input.messages": MESSAGES}, INFERENCE),
        ({"gen_ai.output.messages": MESSAGES}, INFERENCE),
        ({"gen_ai.input.messages": MESSAGES, "gen_ai.agent.name": "a"}, AGENT),
        ({"gen_ai.tool.call.id": "c1"}, TOOL),
        ({"gen_ai.tool.call.arguments": "{}"}, TOOL),
        (
            {"gen_ai.operation.name": "ask", "gen_ai.request.model": "m", "gen_ai.input.messages": MESSAGES},
            INFERENCE,
        ),
        ({"gen_ai.operation.name": "plan", "gen_ai.request.model": "m"}, OperationKind.OTHER),
        ({"gen_ai.operation.name": "ask", "gen_ai.input.messages": MESSAGES}, OperationKind.OTHER),
        (
            {"gen_ai.operation.name": "invoke_workflow", "gen_ai.input.messages": MESSAGES},
            OperationKind.WORKFLOW,
        ),
        ({"traceloop.span.kind": "llm"}, INFERENCE),
        ({"llm.request.type": "rerank"}, OperationKind.RETRIEVAL),
    ],
)
def test_a_kind_is_told_by_what_only_such_spans_have(attributes: dict[str, Any], kind: OperationKind) -> None:
    operation = KNOWN_CONVENTIONS.read(span(1, attributes))
    assert operation is not None
    assert operation.kind is kind


def test_plain_input_and_output_are_a_tools_where_nothing_else_is() -> None:
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "t",
        "input": '{"a": 1}',
        "output": "2",
    }
    named = {**tool, "gen_ai.tool.call.arguments": '{"b": 2}', "gen_ai.tool.call.result": "3"}
    agent = span(1, {"gen_ai.operation.name": "invoke_agent"})
    calls = [run_of(agent, span(2, given)).tool_calls[0] for given in (tool, named)]
    assert [(c.arguments, c.result) for c in calls] == [({"a": 1}, "2"), ({"b": 2}, "3")]


def test_plain_input_and_output_are_a_models_where_nothing_else_is() -> None:
    """As Pipecat writes them; speech that was recognised or made is nobody's words."""
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    asked = json.dumps([{"role": "user", "content": "Hi."}])
    run = run_of(
        span(1, {**chat, "input": asked, "output": "Hello."}),
        span(2, {"gen_ai.operation.name": "tts", "gen_ai.request.model": "v", "text": "Hello."}),
    )
    assert (run.input, run.output, run.models) == ("Hi.", "Hello.", ("m",))
    named = {**chat, "gen_ai.input.messages": MESSAGES, "input": "other", "output": "Hello."}
    assert run_of(span(1, named)).input == "Hi."


def test_an_agent_alone_tells_its_model_and_a_hashed_user() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m", "enduser.pseudo.id": "u"}
    run = run_of(span(1, agent))
    assert (run.models, run.user_id) == (("m",), "u")
