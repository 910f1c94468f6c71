"""Spans as the suites and documents of frameworks and instrumentations have them, with values of our own.

Logfire, OpenInference, Spring AI, Semantic Kernel, Azure's agents, AWS' distribution, Microsoft's agents,
LiveKit, Pipecat, MCP and OpenTelemetry's own conventions.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

ASKED, SAID = "Does the ferry sail on Sundays?", "It sails at nine and at noon."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
KIND = "openinference.span.kind"
TEMPLATE = "logfire.msg_template"


def _text(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _call(call_id: str, name: str) -> dict[str, object]:
    function = {"name": name, "arguments": "{}"}
    call = {"id": call_id, "type": "function", "function": function}
    return {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [call]}


STREAMED = {TEMPLATE: "Chat Completion with {x}", "request_data": {"messages": [USER], "stream": True}}
LOGFIRE = [
    case(
        "a streamed call is one call, told by the span at its end",
        span("Chat Completion", {**STREAMED, "gen_ai.request.model": "m1"}),
        span(
            "streaming response",
            {
                TEMPLATE: "streaming response from {x} took {duration:.2f}s",
                "request_data": STREAMED["request_data"],
                "response_data": {"message": ANSWER},
                "duration": 1.5,
                "gen_ai.request.model": "m1",
            },
            above=None,
        ),
        scope="logfire.openai",
        **TOLD,
        models=["m1"],
    ),
    case(
        "a handoff comes after the tool that was asked for before it; null is no group",
        span("trace", {TEMPLATE: "OpenAI Agents trace: {name}", "agent_trace_id": "t", "group_id": "null"}),
        span("agent", {TEMPLATE: "Agent run: {name!r}", "name": "clerk"}),
        span(
            "response",
            {
                TEMPLATE: "Responses API with {x}",
                "gen_ai.request.model": "m1",
                "raw_input": [USER],
                "events": [
                    {"event.name": "gen_ai.user.message", **USER},
                    _call("c1", "timetable"),
                    _call("c2", "transfer_to_boss"),
                ],
            },
            1,
        ),
        span("tool", {TEMPLATE: "Function: {name}", "name": "timetable", "input": "{}", "output": "9:00"}, 1),
        span("agent", {TEMPLATE: "Agent run: {name!r}", "name": "boss"}),
        span(
            "response",
            {
                TEMPLATE: "Responses API with {x}",
                "gen_ai.request.model": "m1",
                "raw_input": [
                    USER,
                    {"type": "function_call", "call_id": "c1", "name": "timetable", "arguments": "{}"},
                    {"type": "function_call", "call_id": "c2", "name": "transfer_to_boss", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "9:00"},
                    {"type": "function_call_output", "call_id": "c2", "output": "boss"},
                ],
                "events": [{"event.name": "gen_ai.user.message", **USER}, {"event.name": "x", **ANSWER}],
                "gen_ai.output.messages": [_text("assistant", SAID)],
            },
            4,
        ),
        scope="logfire.openai_agents",
        **TOLD,
        tools=[("timetable", {}, "9:00", "ok"), ("transfer_to_boss", {}, "boss", "unknown")],
        conversation=None,
    ),
    case(
        "what kept an agent from asking its model",
        span("trace", {TEMPLATE: "OpenAI Agents trace: {name}", "agent_trace_id": "t"}),
        span("agent", {TEMPLATE: "Agent run: {name!r}", "name": "clerk"}),
        span(
            "turn",
            {"error": {"message": "not allowed", "data": {"guardrail": "g"}}},
            1,
            status="ERROR",
        ),
        scope="logfire.openai_agents",
        error="not allowed",
        output=None,
    ),
    case(
        "events of Google's instrumentation in one attribute, without names",
        span(
            "generate_content m1",
            {
                **CHAT,
                "events": [USER, {"index": 0, "finish_reason": "STOP", "message": ANSWER}],
                "gen_ai.usage.input_tokens": 8,
                "gen_ai.usage.output_tokens": 3,
            },
        ),
        scope="opentelemetry.instrumentation.google_genai",
        **TOLD,
        usage=(8, 3),
    ),
    case(
        "the only content of an MCP server's result",
        span("tool", {TEMPLATE: "Function: {name}", "name": "f", "output": {"type": "text", "text": "9:00"}}),
        scope="logfire.openai_agents",
        tools=[("f", None, "9:00", "ok")],
    ),
]
OPENINFERENCE = [
    case(
        "prompts and completions of older models",
        span(
            "llm",
            {
                KIND: "LLM",
                "llm.model_name": "m1",
                "llm.prompts.0.prompt.text": ASKED,
                "llm.choices.0.completion.text": SAID,
            },
        ),
        **TOLD,
        models=["m1"],
    ),
    case(
        "a function call beside the messages",
        span(
            "llm",
            {
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": ASKED,
                "llm.function_call": {"name": "timetable", "arguments": '{"day": 7}'},
            },
        ),
        input=ASKED,
        tools=[("timetable", {"day": 7}, None, "unknown")],
    ),
    case(
        "a function call in a message",
        span(
            "llm",
            {
                KIND: "LLM",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.function_call_name": "timetable",
                "llm.output_messages.0.message.function_call_arguments_json": '{"day": 7}',
            },
        ),
        tools=[("timetable", {"day": 7}, None, "unknown")],
    ),
    case(
        "BeeAI's events are one call, not three",
        span(
            "beeai-framework-main",
            {
                KIND: "AGENT",
                "input.value": ASKED,
                "output.value": f"{{'role': 'assistant', 'text': '{SAID}'}}",
            },
        ),
        span("agent.react.update-3", {KIND: "AGENT", "tool.name": "Timetable"}),
        span("backend.acme.chat.start-4", {KIND: "LLM", "llm.model_name": "m1", "input.value": [USER]}),
        span("tool.search.timetable.start-5", {KIND: "TOOL", "tool.parameters": '{"day": 7}'}),
        span(
            "tool.search.timetable.success-5",
            {KIND: "TOOL", "tool.parameters": '{"day": 7}', "output.value": '["9:00"]'},
        ),
        span("tool.search.timetable.finish-5", {KIND: "TOOL"}),
        scope="openinference.instrumentation.beeai",
        **TOLD,
        models=["m1"],
        tools=[("timetable", {"day": 7}, ["9:00"], "ok")],
    ),
    case(
        "a lone chain is a mere function",
        span("helper", {KIND: "CHAIN", "input.value": ASKED, "output.value": SAID}),
        runs=0,
    ),
]
OTHERS = [
    case(
        "Spring AI lists texts without their speakers",
        span("chat m1", {**CHAT, "gen_ai.prompt": ["Be brief.", ASKED], "gen_ai.completion": [SAID]}),
        **TOLD,
    ),
    case(
        "Azure's agents tell their answer in an event",
        span(
            "process_thread_run",
            {
                "gen_ai.operation.name": "process_thread_run",
                "gen_ai.thread.id": "s3",
                "gen_ai.response.model": "m1",
                "gen_ai.usage.input_tokens": 8,
                "gen_ai.usage.output_tokens": 3,
            },
            events=[
                (
                    "gen_ai.assistant.message",
                    {"gen_ai.event.content": {"content": {"text": {"value": SAID}}, "role": "assistant"}},
                )
            ],
        ),
        scope="azure.ai.agents",
        output=SAID,
        usage=(8, 3),
        conversation="s3",
        models=["m1"],
    ),
    case(
        "AWS' distribution keeps a conversation in a log record's body",
        span(
            "invoke_agent clerk",
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk", "session.id": "s3"},
            logs=[
                (
                    "",
                    {"event.name": "strands.telemetry.tracer"},
                    {
                        "input": {
                            "messages": [
                                {"role": "user", "content": {"content": json.dumps([{"text": ASKED}])}}
                            ]
                        },
                        "output": {
                            "messages": [
                                {
                                    "role": "assistant",
                                    "content": {"message": SAID, "finish_reason": "end_turn"},
                                }
                            ]
                        },
                    },
                )
            ],
        ),
        scope="strands.telemetry.tracer",
        **TOLD,
        conversation="s3",
        agent="clerk",
    ),
    case(
        "a result of Microsoft's agents names its kind",
        span(
            "execute_tool f",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "f",
                "gen_ai.tool.call.result": {"type": "function_result", "call_id": "c", "result": "9:00"},
            },
        ),
        tools=[("f", None, "9:00", "ok")],
    ),
    case(
        "a voice session's room and caller, and no model but the agent's",
        span("agent_session", {"lk.agent_label": "clerk", "lk.pii.room_name": "room"}),
        span("user_turn", {"lk.pii.participant_identity": "u7", "gen_ai.request.model": "ears"}),
        span("agent_turn", {"lk.pii.user_input": ASKED, "lk.pii.response.text": SAID}),
        span("llm_request", {**CHAT, "gen_ai.usage.input_tokens": 8, "gen_ai.usage.output_tokens": 3}, 2),
        span("tts_node", {"gen_ai.request.model": "mouth"}, 2),
        scope="livekit-agents",
        **TOLD,
        models=["m1"],
        usage=(8, 3),
        conversation="room",
        user="u7",
    ),
    case(
        "Pipecat's turn tells the conversation of its model call",
        span("turn", {"turn.number": 1, "gen_ai.conversation.id": "s3"}),
        span("llm", {**CHAT, "input": [USER], "output": SAID}),
        scope="pipecat",
        **TOLD,
        conversation="s3",
    ),
    case(
        "events alone make a span of a model",
        span(
            "chat",
            {"gen_ai.system": "acme"},
            events=[("gen_ai.user.message", {"content": ASKED}), ("gen_ai.choice", {"message": ANSWER})],
        ),
        **TOLD,
    ),
    case(
        "the other end of a call in another trace is no run",
        span(
            "tools/call timetable",
            {"mcp.method.name": "tools/call", "gen_ai.tool.name": "timetable"},
            kind="SERVER",
            links=(("d" * 32, "e" * 16),),
        ),
        scope="mcp.server",
        runs=0,
    ),
    case(
        "a linked server's span is the same call",
        span("claude_code.interaction", {"span.type": "interaction", "user_prompt": ASKED}),
        span(
            "claude_code.tool",
            {"span.type": "tool", "tool_name": "mcp__sea__timetable", "tool_input": '{"day": 7}'},
        ),
        span(
            "tools/call timetable",
            {"mcp.method.name": "tools/call", "gen_ai.tool.name": "timetable"},
            above=None,
            scope="mcp.server",
            kind="SERVER",
            links=(("c" * 32, f"{2:016x}"),),
            start_time=500,
            end_time=600,
        ),
        scope="com.anthropic.claude_code",
        input=ASKED,
        tools=[("mcp__sea__timetable", {"day": 7}, None, "unknown")],
    ),
    case(
        "a Genkit flow alone is a run, and its name no model",
        span(
            "plan",
            {
                "genkit:type": "flow",
                "genkit:name": "plan",
                "genkit:input": f'"{ASKED}"',
                "genkit:output": f'"{SAID}"',
            },
        ),
        scope="genkit-tracer",
        **TOLD,
        models=[],
    ),
    case(
        "a reranker was asked what it was to rank by",
        span(
            "cohere.rerank",
            {
                "llm.request.type": "rerank",
                "gen_ai.prompt.0.role": "system",
                "gen_ai.prompt.0.content": "Sundays 9:00",
                "gen_ai.prompt.1.role": "user",
                "gen_ai.prompt.1.content": ASKED,
                "gen_ai.completion.0.content": "Doc 0, Score: 0.98",
            },
        ),
        input=ASKED,
        output=None,
        documents=["Sundays 9:00"],
    ),
]
ALL = [*LOGFIRE, *OPENINFERENCE, *OTHERS]


@pytest.mark.parametrize("told", ALL, ids=lambda told: told.name)
def test_a_trace_means_what_its_framework_says(told: Case) -> None:
    assert list(missed(told)) == []
