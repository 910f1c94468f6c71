"""Spans as suites of Mastra, LiveKit, Braintrust, Opik and LangWatch have them, with values of our own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

ASKED, SAID = "Does the ferry sail on Sundays?", "It sails at nine and at noon."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
DAY = {"day": "sunday"}
CALL = ("timetable", DAY, "9:00", "ok")
MS, OP = "mastra.span.type", "gen_ai.operation.name"
CHAT = {OP: "chat", "gen_ai.request.model": "m1"}


def _text(role: str, text: str, **more: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


MASTRA = [
    case(
        "its first exporter: bare words, and metadata without a namespace",
        span(
            "agent.clerk",
            {
                MS: "agent_run",
                OP: "agent.run",
                "input": [USER],
                "output": {"text": SAID},
                "agent.id": "clerk",
                "threadId": "s3",
                "userId": "u7",
            },
        ),
        span(
            "tool_selection m1",
            {
                MS: "llm_generation",
                OP: "tool_selection",
                "gen_ai.request.model": "m1",
                "gen_ai.prompt": {"messages": [USER]},
                "gen_ai.completion": {
                    "text": "",
                    "toolCalls": [{"toolCallId": "c1", "toolName": "timetable", "args": DAY}],
                },
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 3,
                "gen_ai.usage.cached_input_tokens": 4,
            },
        ),
        span(
            "tool.execute timetable",
            {
                MS: "tool_call",
                OP: "tool.execute",
                "gen_ai.tool.name": "timetable",
                "gen_ai.tool.input": DAY,
                "gen_ai.tool.output": "9:00",
                "gen_ai.tool.success": True,
            },
        ),
        scope="@mastra/otel",
        **TOLD,
        models=["m1"],
        usage=(10, 3),
        cached=4,
        tools=[CALL],
        agent="clerk",
        user="u7",
        conversation="s3",
    ),
    case(
        "its bridge: instructions and metadata in its own namespace",
        span(
            "agent run",
            {
                MS: "agent_run",
                OP: "agent",
                "input": ASKED,
                "output": SAID,
                "mastra.agent.id": "clerk",
                "mastra.agent.instructions": "Be kind.",
                "mastra.metadata.sessionId": "s3",
            },
        ),
        **TOLD,
        system="Be kind.",
        agent="clerk",
        conversation="s3",
    ),
    case(
        "a tool that says in a flag that it failed",
        span("agent", {MS: "agent_run", "input": ASKED, "output": SAID}),
        span("tool", {MS: "tool_call", "gen_ai.tool.name": "timetable", "gen_ai.tool.success": False}),
        tools=[("timetable", None, None, "error")],
    ),
    case(
        "an object that was asked for, beside an empty text",
        span("agent", {MS: "agent_run", "mastra.agent_run.output": {"text": "", "object": {"open": False}}}),
        output='{"open": false}',
    ),
    case(
        "OpenInference's names for Arize",
        span("agent", {MS: "agent_run", "openinference.span.kind": "AGENT", "input.value": ASKED}),
        span("tool", {MS: "tool_call", "tool.name": "timetable", "input.value": DAY, "output.value": "9:00"}),
        scope="@mastra/arize",
        input=ASKED,
        tools=[CALL],
    ),
]
LIVEKIT = [
    case(
        "a judgement in a test is no tool of an agent",
        span("judge_evaluation", {OP: "judge", "lk.function_tool.name": "judge_evaluation"}),
        runs=0,
    ),
    case(
        "a turn of a realtime model, which tells no question",
        span(
            "agent_turn",
            {**CHAT, "lk.generation_id": "g", "lk.pii.response.text": SAID, "gen_ai.usage.output_tokens": 3},
        ),
        scope="livekit-agents",
        input=None,
        output=SAID,
        models=["m1"],
        usage=(0, 3),
    ),
]
BRAINTRUST = [
    case(
        "the task of an agent, its model and its tool",
        span(
            "agent",
            {
                "braintrust.span_attributes": {"type": "task"},
                "braintrust.input_json": f'"{ASKED}"',
                "braintrust.output_json": f'"{SAID}"',
            },
        ),
        span(
            "llm",
            {
                "braintrust.span_attributes": {"type": "llm"},
                "braintrust.input_json": [{"role": "system", "content": "Be kind."}, USER],
                "braintrust.output_json": [{"index": 0, "message": ANSWER, "finish_reason": "stop"}],
                "braintrust.metadata": {"model": "m1"},
                "braintrust.metrics": {
                    "prompt_tokens": 10,
                    "completion_tokens": 3,
                    "prompt_cached_tokens": 2,
                },
            },
        ),
        span(
            "timetable",
            {
                "braintrust.span_attributes": {"type": "tool"},
                "braintrust.input_json": DAY,
                "braintrust.output_json": '"9:00"',
            },
        ),
        scope="braintrust-java",
        **TOLD,
        system="Be kind.",
        models=["m1"],
        usage=(10, 3),
        cached=2,
        tools=[CALL],
    ),
]
OPIK = [
    case(
        "tokens in one object",
        span("chat", {**CHAT, "gen_ai.usage.details": {"input_tokens": 100, "output_tokens": 50}}),
        usage=(100, 50),
    ),
    case(
        "an exception without a status is what a tool without a result ended in",
        span("agent", {OP: "invoke_agent"}),
        span(
            "running tool",
            {"gen_ai.tool.name": "timetable"},
            events=[("exception", {"exception.type": "IOError", "exception.message": "no line"})],
        ),
        tools=[("timetable", None, None, "error")],
    ),
    case(
        "an exception that a tool got over is none",
        span("agent", {OP: "invoke_agent"}),
        span(
            "running tool",
            {"gen_ai.tool.name": "timetable", "tool_response": "9:00"},
            events=[("exception", {"exception.message": "no line"})],
        ),
        tools=[("timetable", None, "9:00", "ok")],
    ),
    case(
        "what Claude Code gave its model after a tool is no question",
        span(
            "claude_code.llm_request",
            {"new_context": "[TOOL RESULT: t1]\n9:00", "response.model_output": SAID},
            scope="com.anthropic.claude_code.tracing",
        ),
        input=None,
        output=SAID,
    ),
]
LANGWATCH = [
    case(
        "its conversation before OpenTelemetry's first names",
        span("x", {"langwatch.input": {"type": "chat_messages", "value": [USER]}, "gen_ai.prompt": "other"}),
        input=ASKED,
    ),
    case(
        "OpenTelemetry's messages before a list of the same in one attribute",
        span(
            "x", {"gen_ai.input.messages": [USER], "llm.input_messages": [{"role": "user", "content": "?"}]}
        ),
        input=ASKED,
    ),
    case(
        "of several choices the first is the answer",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.output.messages": [
                    _text("assistant", SAID, finish_reason="stop"),
                    _text("assistant", "It does not.", finish_reason="stop"),
                ],
            },
        ),
        output=SAID,
    ),
    case(
        "what an agent said one after the other is all its own",
        span(
            "agent",
            {
                OP: "invoke_agent",
                "gen_ai.output.messages": [
                    _text("assistant", "I look.", finish_reason="stop"),
                    _text("assistant", SAID, finish_reason="stop"),
                ],
            },
        ),
        output=SAID,
    ),
    case(
        "choices in events",
        span(
            "chat",
            CHAT,
            logs=[
                ("gen_ai.choice", {}, {"index": n, "finish_reason": "stop", "message": {"content": text}})
                for n, text in enumerate((SAID, "It does not."))
            ],
        ),
        output=SAID,
    ),
    case(
        "a text and the call after it are no choices",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.output.messages": [
                    _text("assistant", "I look.", finish_reason="stop"),
                    {
                        "role": "assistant",
                        "parts": [{"type": "tool_call", "id": "c1", "name": "timetable", "arguments": DAY}],
                        "finish_reason": "stop",
                    },
                ],
            },
        ),
        output=None,
        tools=[("timetable", DAY, None, "unknown")],
    ),
]
ALL = [*MASTRA, *LIVEKIT, *BRAINTRUST, *OPIK, *LANGWATCH]


@pytest.mark.parametrize("told", ALL, ids=[told.name for told in ALL])
def test_a_trace_means_what_its_product_says(told: Case) -> None:
    assert list(missed(told)) == []
