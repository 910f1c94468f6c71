"""LangWatch's typed values."""

from __future__ import annotations

import json

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps
OWN = "langwatch."


def typed(kind: str, value: object) -> str:
    return J({"type": kind, "value": value})


def test_messages_tools_contexts_and_metrics_are_read() -> None:
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which tide?"}]
    context = [{"document_id": "d1", "chunk_id": "1", "content": "High at nine."}]
    spans = (
        TraceBuilder("langwatch")
        .add(
            "pilot",
            {
                OWN + "span.type": "agent",
                OWN + "input": typed("text", "Which tide?"),
                OWN + "output": typed("text", "High."),
                OWN + "thread.id": "t1",
                OWN + "user.id": "u1",
            },
        )
        .add(
            "look",
            {
                OWN + "span.type": "rag",
                OWN + "input": typed("text", "tide"),
                OWN + "rag.contexts": typed("json", context),
            },
        )
        .add(
            "gauge",
            {
                OWN + "span.type": "tool",
                OWN + "input": typed("json", {"port": "x"}),
                OWN + "output": typed("json", {"m": 3}),
            },
        )
        .add(
            "ask",
            {
                OWN + "span.type": "llm",
                "gen_ai.request.model": "m1",
                OWN + "input": typed("chat_messages", asked),
                OWN + "output": typed("chat_messages", [{"role": "assistant", "content": "High."}]),
                OWN + "metrics": typed("json", {"promptTokens": 5, "completionTokens": 2}),
            },
        )
    )
    run = spans.run
    assert (run.root_kind, run.agent_name) == (OperationKind.AGENT, "pilot")
    assert (run.input, run.output, run.system_instructions) == ("Which tide?", "High.", "Be brief.")
    assert the_call(run) == ("gauge", {"port": "x"}, {"m": 3}, "ok")
    assert [(d.id, d.content, d.query) for d in run.documents] == [("d1", "High at nine.", "tide")]
    assert (run.conversation_id, run.user_id, run.models) == ("t1", "u1", ("m1",))
    assert (run.usage.input_tokens, run.usage.output_tokens) == (5, 2)


def test_a_function_whose_arguments_were_recorded_is_asked_what_they_say() -> None:
    """As the Python SDK's decorators write it: typed arguments, older names, metadata in one object."""
    spans = (
        TraceBuilder("langwatch")
        .add(
            "main",
            {
                OWN + "span.type": "span",
                OWN + "input": typed("json", {"question": "Which tide?"}),
                OWN + "output": typed("text", "High."),
                "metadata": J({"user_id": "u1", "thread_id": "t1"}),
            },
        )
        .add(
            "look",
            {
                OWN + "span.type": "rag",
                OWN + "input": typed("json", {"q": "tide"}),
                OWN + "rag_contexts": J([{"document_id": "d1", "content": "High at nine."}]),
                OWN + "output": typed("json", ["High at nine."]),
            },
        )
    )
    run = spans.run
    assert (run.input, run.output, run.user_id, run.conversation_id) == ("Which tide?", "High.", "u1", "t1")
    assert [(d.id, d.content, d.query) for d in run.documents] == [("d1", "High at nine.", "tide")]


def test_a_text_that_is_json_stays_what_was_said() -> None:
    spans = TraceBuilder("langwatch").add(
        "pilot",
        {OWN + "span.type": "agent", OWN + "input": typed("text", '{"a": 1}'), OWN + "output": "plain"},
    )
    assert (spans.run.input, spans.run.output) == ('{"a": 1}', "plain")
