"""VoltAgent's spans: the agent's entity on all of them, their own type beside it."""

from __future__ import annotations

import json

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps
ENTITY = {"entity.type": "agent", "entity.name": "librarian", "user.id": "u1", "conversation.id": "s1"}
ASKED = [{"role": "user", "content": "Is Emma on the shelf?"}]


def test_an_agent_its_model_and_its_tool_are_told_apart() -> None:
    """Children repeat the agent's entity; `span.type` says what they are. `tool.parameters` is a schema."""
    spans = (
        TraceBuilder("@voltagent/core")
        .add(
            "librarian",
            {**ENTITY, "agent.messages": J(ASKED), "input": "Is Emma on the shelf?", "output": "Yes."},
        )
        .add(
            "llm:generateText",
            {
                **ENTITY,
                "span.type": "llm",
                "llm.messages": J(ASKED),
                "llm.model": "m1",
                "llm.usage.prompt_tokens": 7,
                "llm.usage.completion_tokens": 2,
                "output": "Yes.",
            },
        )
        .add(
            "tool.execution:shelf",
            {
                **ENTITY,
                "span.type": "tool",
                "tool.name": "shelf",
                "tool.call.id": "c1",
                "tool.parameters": J({"type": "object"}),
                "input": J({"title": "Emma"}),
                "output": J({"there": True}),
            },
        )
    )
    run = spans.run
    assert (run.root_kind, run.agent_name, run.input, run.output) == (
        OperationKind.AGENT,
        "librarian",
        "Is Emma on the shelf?",
        "Yes.",
    )
    assert the_call(run) == ("shelf", {"title": "Emma"}, {"there": True}, "ok")
    assert (run.conversation_id, run.user_id, run.models) == ("s1", "u1", ("m1",))
    assert (run.usage.input_tokens, run.usage.output_tokens) == (7, 2)
