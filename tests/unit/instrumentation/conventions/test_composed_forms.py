"""Spans that tell what was said only together, and values that stand for none.

Forms of the suites of Latitude, LangWatch, Langfuse, Laminar and OpenLLMetry, with values of our own.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import SplitRuns, join_split_runs
from otel_evals.model import Run
from tests.support.facts import Case, case, missed, span
from tests.support.replacing import replace
from tests.support.trace_builder import DIALECTS

ASKED, SAID = "Which pier has the ferry?", "It leaves from pier four."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
LOOKUP = {"toolCallId": "c1", "toolName": "piers", "input": {"line": 3}}
CALL = ("piers", {"line": 3}, "four", "ok")
HANDED = {"type": "tool-result", "toolCallId": "c1", "toolName": "piers", "result": "four"}


def _asked(said: str | None, **more: Any) -> dict[str, Any]:
    """One `generateText` that ended by asking for a tool, and perhaps said something beside it."""
    attributes = {
        "ai.operationId": "ai.generateText",
        "ai.prompt": {"prompt": ASKED},
        "ai.response.toolCalls": [LOOKUP],
        "ai.response.finishReason": "tool-calls",
        "ai.usage.promptTokens": 8,
        "ai.usage.completionTokens": 3,
        **({"ai.response.text": said} if said else {}),
    }
    return span("ai.generateText", attributes, **more)


def _went_on(**more: Any) -> dict[str, Any]:
    """The `generateText` that was given the tool's result."""
    attributes = {
        "ai.operationId": "ai.generateText",
        "ai.prompt": {"messages": [{"role": "tool", "content": [HANDED]}]},
        "ai.response.text": SAID,
        "ai.response.finishReason": "stop",
        "ai.usage.promptTokens": 12,
        "ai.usage.completionTokens": 4,
    }
    return span("ai.generateText", attributes, **more)


def _tool(above: int) -> dict[str, Any]:
    attributes = {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "piers",
        "ai.toolCall.id": "c1",
        "ai.toolCall.args": {"line": 3},
        "ai.toolCall.result": "four",
    }
    return span("ai.toolCall", attributes, above=above)


ONE_TURN: dict[str, Any] = {
    "runs": 1,
    "input": ASKED,
    "output": SAID,
    "tools": [CALL],
    "usage": (20, 7),
    "conversation": "s3",
    "user": "u7",
}
HANDLER = span("handler", {"session.id": "s3", "user.id": "u7"})

AGENTS = [
    case(
        "an agent is asked again with its tool's result",
        HANDLER,
        _asked(None),
        _tool(1),
        _went_on(),
        scope="ai",
        **ONE_TURN,
    ),
    case(
        "which had said something before",
        HANDLER,
        _asked("Let me look."),
        _tool(1),
        _went_on(),
        scope="ai",
        **ONE_TURN,
    ),
    case(
        "a tool that nobody hands on ends the turn",
        HANDLER,
        _asked("Let me look."),
        _tool(1),
        scope="ai",
        input=ASKED,
        output="Let me look.",
        tools=[CALL],
    ),
    case(
        "another question is another turn",
        HANDLER,
        _asked(None),
        span(
            "ai.generateText",
            {
                "ai.operationId": "ai.generateText",
                "ai.prompt": {"prompt": "And back?"},
                "ai.response.text": SAID,
            },
        ),
        scope="ai",
        runs=2,
        input="And back?",
        output=SAID,
    ),
]
WORKFLOWS = [
    case(
        "the object that a function was called with is not what its agent was asked",
        span(
            "main",
            {
                "langwatch.span.type": "workflow",
                "langwatch.input": {"type": "json", "value": {"request": {"id": "r1"}}},
            },
        ),
        span(
            "invoke_agent ferry",
            {"gen_ai.operation.name": "invoke_agent"},
            events=[("gen_ai.user.message", {"content": ASKED}), ("gen_ai.choice", {"message": SAID})],
        ),
        **TOLD,
    ),
    case(
        "a chain of LangChain without the model's span",
        span(
            "RunnableSequence.workflow",
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": {"inputs": {"input": ASKED}, "tags": [], "metadata": {}},
                "traceloop.entity.output": {"outputs": SAID, "kwargs": {"tags": []}},
            },
        ),
        scope="opentelemetry.instrumentation.langchain",
        **TOLD,
    ),
]
NO_VALUES = [
    case(
        "what an agent says aloud was asked by nobody",
        span("Agent Workflow", {"traceloop.span.kind": "workflow"}),
        span(
            "openai.realtime.speech",
            {
                "gen_ai.operation.name": "speech",
                "gen_ai.request.model": "tts",
                "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": SAID}]}],
            },
        ),
        span(
            "openai.realtime",
            {
                **CHAT,
                "gen_ai.input.messages": [{"role": "user", "content": ASKED}],
                "gen_ai.output.messages": [{"role": "assistant", "content": SAID}],
            },
        ),
        **TOLD,
        models=["m1"],
    ),
    case(
        "a model that could not be told",
        span("chat", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "unknown"}),
        models=[],
    ),
    case(
        "how long a tool took is no call of another",
        span("claude_code.interaction", {"user_prompt": ASKED}),
        span("claude_code.tool", {"tool.name": "Read", "tool.input": {}, "tool.output": "four"}),
        span("claude_code.tool.execution", {"session.id": "s3"}, above=1),
        scope="claude-code",
        tools=[("Read", {}, "four", "ok")],
    ),
]
SPANS = [
    case(
        "a tool's message before any call is the user's, if it says so",
        span(
            "invoke_agent ferry",
            {"gen_ai.request.model": "m1"},
            events=[
                ("gen_ai.tool.message", {"role": "user", "content": [{"text": ASKED}]}),
                ("gen_ai.choice", {"message": [{"text": SAID}]}),
            ],
        ),
        **TOLD,
    ),
    case(
        "only the answer is a conversation",
        span(
            "x",
            {
                "langwatch.output": {
                    "type": "chat_messages",
                    "value": [{"role": "assistant", "content": SAID}],
                }
            },
        ),
        output=SAID,
    ),
    case(
        "only a call is told",
        span(
            "x",
            {
                "gen_ai.completion.0.tool_calls.0.name": "piers",
                "gen_ai.completion.0.tool_calls.0.arguments": {"line": 3},
            },
        ),
        tools=[("piers", {"line": 3}, None, "unknown")],
    ),
    case(
        "tokens alone, in ADK's scope",
        span(
            "x",
            {
                "gen_ai.usage.input_tokens": 90,
                "gen_ai.usage.output_tokens": 30,
                "gen_ai.usage.reasoning.output_tokens": 9,
            },
        ),
        scope="gcp.vertex.agent",
        usage=(90, 30),
        reasoning=9,
    ),
    case(
        "cached tokens among the provider's words, without an operation",
        span(
            "x",
            {
                "gen_ai.usage.input_tokens": 90,
                "gen_ai.usage.output_tokens": 30,
                "ai.response.providerMetadata": {"acme": {"usage": {"cacheReadInputTokens": 50}}},
            },
        ),
        scope="ai",
        usage=(90, 30),
        cached=50,
    ),
    case(
        "a platform's names on a request's span",
        span("POST /ask", {"langwatch.user.id": "u7", "langwatch.thread.id": "s3"}),
        span("chat m1", CHAT),
        user="u7",
        conversation="s3",
    ),
    case(
        "an application's own words there",
        span("POST /ask", {"user_id": "u7", "session_id": "s3"}),
        span("chat m1", CHAT),
        user="u7",
        conversation="s3",
    ),
]
WHO = [
    case(f"who asked, as {name}", span("chat", {**CHAT, name: "u7"}), user="u7")
    for name in ("llm.user", "gen_ai.request.user", "langwatch.user_id", "mlflow.trace.user")
]
STORED = [
    case(
        "a model's call that a backend stored as JSON",
        span(
            "openai.chat",
            {
                key: json.dumps(value)
                for key, value in {
                    "llm.request.type": "chat",
                    "gen_ai.response.model": "m1",
                    "gen_ai.prompt.0.role": "user",
                    "gen_ai.prompt.0.content": ASKED,
                    "gen_ai.completion.0.content": SAID,
                }.items()
            },
        ),
        **TOLD,
        models=["m1"],
    ),
    case(
        "a call without arguments, streamed as an empty text",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.completion.0.tool_calls.0.name": "piers",
                "gen_ai.completion.0.tool_calls.0.arguments": "",
            },
        ),
        tools=[("piers", None, None, "unknown")],
    ),
]


_LLM = "llm.input_messages."
BESIDE = [
    case(
        "what a user says beside a tool's result is no result",
        span(
            "bedrock.invoke_model",
            {
                "openinference.span.kind": "LLM",
                _LLM + "0.message.role": "user",
                _LLM + "0.message.content": "Where is pier four?",
                _LLM + "1.message.role": "assistant",
                _LLM + "1.message.tool_calls.0.tool_call.id": "c1",
                _LLM + "1.message.tool_calls.0.tool_call.function.name": "piers",
                _LLM + "2.message.role": "user",
                _LLM + "2.message.tool_call_id": "c1",
                _LLM + "2.message.contents.1.message_content.type": "text",
                _LLM + "2.message.contents.1.message_content.text": ASKED,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": SAID,
            },
        ),
        **TOLD,
        tools=[],
    ),
]


@pytest.mark.parametrize(
    "told", [*AGENTS, *WORKFLOWS, *NO_VALUES, *SPANS, *WHO, *STORED, *BESIDE], ids=lambda told: told.name
)
def test_a_form_means_what_its_suite_says(told: Case) -> None:
    assert list(missed(told)) == []


def _in_two_traces() -> list[Run]:
    """The two calls of an agent's function without a span around them: each is a trace."""
    one = case("asked", _asked(None), scope="ai")
    two = case("went on", _went_on(), scope="ai")
    at: dict[str, Any] = {"trace_id": "d" * 32, "span_id": "d" * 16, "start_time": 2_000, "end_time": 2_100}
    later = [replace(s, **at) for s in two.spans]
    return [*find_runs(one.spans, DIALECTS), *find_runs(later, DIALECTS)]


def test_agents_of_several_traces_are_one_turn() -> None:
    runs = list(join_split_runs(_in_two_traces()))
    assert [(run.output, len(run.trace_ids), run.usage.total_tokens) for run in runs] == [(SAID, 2, 27)]


def test_agents_that_close_one_by_one_are_one_turn() -> None:
    """Live, the first waits for the second, and is let go if none comes."""
    asked, went_on = _in_two_traces()
    turns = SplitRuns(patience=5.0)
    assert turns.add(asked, now=0.0) == []
    assert [(run.input, run.output) for run in turns.add(went_on, now=1.0)] == [(ASKED, SAID)]
    assert turns.add(_in_two_traces()[0], now=2.0) == []
    assert [run.input for run in turns.due(7.0)] == [ASKED]
