"""Spring AI: what it observes around its models, and content in log lines."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanEvent
from tests.support.trace_builder import TraceBuilder, the_call

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m1"}


def log(text: str) -> SpanEvent:
    return SpanEvent(name="", body=text)


def test_a_client_its_model_and_its_tool_are_a_run() -> None:
    """Models' content is logged as quoted texts without roles; the last of them is the user's."""
    asked = log('Chat Model Prompt Content:\n["You are a guide.", "Which "old" path?"]')
    spans = (
        TraceBuilder("org.springframework.boot")
        .add(
            "spring_ai chat_client",
            {
                "gen_ai.operation.name": "framework",
                "gen_ai.system": "spring_ai",
                "spring.ai.kind": "chat_client",
                "spring.ai.chat.client.conversation.id": "s1",
            },
        )
        .add("chat m1", CHAT, logs=(asked, log('Chat Model Completion:\n["The left one."]')))
        .add(
            "tool_call map",
            {
                "gen_ai.operation.name": "framework",
                "spring.ai.kind": "tool_call",
                "spring.ai.tool.definition.name": "map",
                "spring.ai.tool.definition.schema": '{"type": "object"}',
                "spring.ai.tool.call.arguments": '{"at": "fork"}',
                "spring.ai.tool.call.result": '"left"',
            },
        )
        .add(
            "pg_vector query",
            {
                "spring.ai.kind": "vector_store",
                "db.operation.name": "query",
                "db.vector.query.content": "paths",
            },
            logs=(log('Vector Store Query Response:\n["The left path is old.", "The right is new."]'),),
        )
    )
    run = spans.run
    assert (run.root_kind, run.conversation_id) == (OperationKind.AGENT, "s1")
    assert (run.input, run.output) == ('Which "old" path?', "The left one.")
    assert the_call(run) == ("map", {"at": "fork"}, "left", "ok")
    assert [(d.content, d.query) for d in run.documents] == [
        ("The left path is old.", "paths"),
        ("The right is new.", "paths"),
    ]


def test_a_clients_prompt_says_who_spoke() -> None:
    text = 'Chat Client Prompt Content:\n["system":"Be brief.", "user":"Why, "so"?"]'
    spans = TraceBuilder("x").add("c", {"spring.ai.kind": "chat_client"}, logs=(log(text),))
    assert (spans.run.input, spans.run.system_instructions) == ('Why, "so"?', "Be brief.")
