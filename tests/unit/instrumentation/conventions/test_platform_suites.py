"""Spans as the test suites of observability platforms have them, and what these say they mean.

Langfuse, LangWatch, Latitude, Laminar, Braintrust and MLflow: forms that their ingestion accepts, with values
of our own.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

ASKED, SAID = "Does the ferry sail on Sundays?", "It sails at nine and at noon."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
CALL = ("timetable", {"day": "sunday"}, {"sailings": ["9:00", "12:00"]}, "ok")
OWN = "langfuse.observation."
BT = "braintrust."


def _asks(call_id: str) -> dict[str, object]:
    function = {"name": CALL[0], "arguments": '{"day": "sunday"}'}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]}


def _parts(call_id: str) -> list[dict[str, object]]:
    """The AI SDK's messages of a turn, up to the tool's result."""
    call = {"type": "tool-call", "toolCallId": call_id, "toolName": CALL[0], "input": CALL[1]}
    result = {"type": "tool-result", "toolCallId": call_id, "toolName": CALL[0], "output": CALL[2]}
    return [USER, {"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}]


LANGFUSE = [
    case(
        "attributes on anybody's span make it an observation",
        span("handle", {OWN + "input": ASKED, OWN + "output": SAID, "langfuse.user.id": "u7"}),
        **TOLD,
        user="u7",
        models=[],
    ),
    case(
        "what a trace was asked stands on its root",
        span(
            "handle",
            {"langfuse.trace.input": {"query": ASKED}, "langfuse.trace.output": {"response": SAID}},
        ),
        span("call", {OWN + "model.name": "m1", OWN + "usage_details": {"input": 12, "output": 5}}),
        **TOLD,
        models=["m1"],
        usage=(12, 5),
    ),
    case(
        "a generation of the SDK",
        span(
            "answer",
            {
                OWN + "type": "generation",
                OWN + "input": [USER],
                OWN + "output": ANSWER,
                OWN + "model.name": "m1",
                OWN + "usage_details": {"input_tokens": 12, "output_tokens": 5},
                "session.id": "s3",
                "user.id": "u7",
            },
        ),
        scope="langfuse-sdk",
        **TOLD,
        models=["m1"],
        usage=(12, 5),
        conversation="s3",
        user="u7",
    ),
    case(
        "metadata of older clients tell user and session",
        span(
            "chat",
            {
                "gen_ai.request.model": "m1",
                "langfuse.trace.metadata.langfuse_user_id": "u7",
                "langfuse.observation.metadata.langfuse_session_id": "s3",
            },
        ),
        user="u7",
        conversation="s3",
        models=["m1"],
    ),
    case(
        "an object that was asked for stands where Genkit has texts",
        span(
            "model",
            {
                "genkit:type": "action",
                "genkit:metadata:subtype": "model",
                "genkit:name": "acme/m1",
                "genkit:input": {"messages": [{"role": "user", "content": [{"text": ASKED}]}]},
                "genkit:output": {
                    "message": {"role": "model", "content": [{"text": {"open": False}}]},
                    "usage": {"inputTokens": 3, "outputTokens": 2},
                },
            },
        ),
        scope="genkit-tracer",
        input=ASKED,
        output='{"open": false}',
        models=["acme/m1"],
        usage=(3, 2),
    ),
    case(
        "a response of ADK's first versions tells the cached tokens",
        span(
            "call_llm",
            {
                "gen_ai.usage.input_tokens": 50,
                "gen_ai.usage.output_tokens": 4,
                "gcp.vertex.agent.llm_response": {
                    "content": {"role": "model", "parts": [{"text": SAID}]},
                    "usage_metadata": {
                        "prompt_token_count": 50,
                        "candidates_token_count": 4,
                        "cached_content_token_count": 40,
                    },
                },
            },
        ),
        scope="gcp.vertex.agent",
        output=SAID,
        usage=(50, 4),
        cached=40,
    ),
    case(
        "what should be JSON and is none is no answer",
        span(
            "call_llm",
            {"gen_ai.usage.input_tokens": 50, "gcp.vertex.agent.llm_response": "unreadable{{"},
        ),
        scope="gcp.vertex.agent",
        output=None,
        usage=(50, 0),
    ),
    case(
        "a voice agent's turn in its first form",
        span("agent_turn", {"lk.input_text": ASKED, "lk.response.text": SAID}),
        scope="livekit-agents",
        **TOLD,
    ),
    case(
        "the AI SDK's attributes without an operation",
        span("answer", {"ai.prompt.messages": [USER], "ai.response.text": SAID}),
        scope="ai",
        **TOLD,
    ),
]
LANGWATCH = [
    case(
        "a conversation among the inputs makes a span a model call",
        span(
            "answer",
            {
                "langwatch.input": {"type": "chat_messages", "value": [USER]},
                "langwatch.output": {"type": "chat_messages", "value": [ANSWER]},
                "langwatch.metrics": {"type": "json", "value": {"promptTokens": 9, "completionTokens": 4}},
                "metadata": {"user_id": "u7", "thread_id": "s3"},
            },
        ),
        **TOLD,
        usage=(9, 4),
        user="u7",
        conversation="s3",
    ),
    case(
        "its gateway writes OpenTelemetry's names",
        span(
            "gen_ai.responses",
            {
                "gen_ai.provider.name": "acme",
                "gen_ai.request.model": "m1",
                "gen_ai.usage.input_tokens": 9,
                "gen_ai.usage.output_tokens": 4,
                "gen_ai.usage.cached_input_tokens": 6,
            },
        ),
        scope="langwatch-service-aigateway",
        models=["m1"],
        usage=(9, 4),
        cached=6,
    ),
    case("old prompts need no model", span("x", {"gen_ai.prompt": ASKED}), input=ASKED),
    case("nor do old answers", span("x", {"gen_ai.completion": SAID}), output=SAID),
    case(
        "messages in one attribute each",
        span("x", {"llm.input_messages": [USER], "llm.output_messages": [ANSWER]}),
        **TOLD,
    ),
    case(
        "an operation called tool",
        span("x", {"gen_ai.operation.name": "tool", "gen_ai.tool.name": "timetable"}),
        tools=[("timetable", None, None, "unknown")],
    ),
    case(
        "documents in one attribute",
        span("x", {"retrieval.documents": [{"document": {"content": "Sundays 9:00"}}]}),
        scope="openinference.instrumentation.haystack",
        documents=["Sundays 9:00"],
    ),
    case(
        "a tool of an editor that embeds the AI SDK",
        span("ai.toolCall", {"ai.toolCall.name": "shell", "ai.toolCall.args": '{"run": "ls"}'}),
        scope="opencode",
        tools=[("shell", {"run": "ls"}, None, "unknown")],
    ),
    case(
        "a structured answer where the text is empty",
        span("ai.generateText", {"ai.response.text": "", "ai.response.object": '{"sails":true}'}),
        scope="opencode",
        output='{"sails":true}',
    ),
    case(
        "a step of Mastra names its model in the request",
        span(
            "step",
            {
                "mastra.span.type": "model_step",
                "mastra.model_step.input": {"body": {"model": "m1", "messages": [USER]}},
                "mastra.model_step.output": {"text": SAID, "toolCalls": []},
            },
        ),
        scope="@mastra/otel",
        **TOLD,
        models=["m1"],
    ),
    case(
        "or in its metadata",
        span(
            "step",
            {"mastra.span.type": "model_step", "mastra.metadata.modelMetadata": {"modelId": "m1"}},
        ),
        models=["m1"],
    ),
    case(
        "a turn of Codex whose responses end in log records",
        span(
            "session_task.turn",
            {"codex.turn.reasoning_effort": "low"},
            logs=[
                ("", {"event.name": "codex.user_prompt", "prompt": ASKED}, None),
                (
                    "",
                    {
                        "event.name": "codex.sse_event",
                        "model": "m1",
                        "input_token_count": "90",
                        "output_token_count": "4",
                        "cached_token_count": "80",
                        "conversation.id": "s3",
                    },
                    None,
                ),
            ],
        ),
        scope="codex_cli_rs",
        input=ASKED,
        models=["m1"],
        usage=(90, 4),
        cached=80,
        conversation="s3",
    ),
    case(
        "Spring AI's log line with one bare text",
        span(
            "chat m1",
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"},
            logs=[
                ("", {}, "Chat Model Prompt Content:\n" + ASKED),
                ("", {}, "Chat Model Completion:\n" + SAID),
            ],
        ),
        **TOLD,
    ),
]
LATITUDE = [
    case(
        "old request types name agents and tools",
        span("planner", {"llm.request.type": "agent", "traceloop.association.properties.user_id": "u7"}),
        span(
            "chat", {"llm.request.type": "completion", "gen_ai.prompt": [USER], "gen_ai.completion": [ANSWER]}
        ),
        span(
            "timetable",
            {
                "llm.request.type": "tool",
                "traceloop.entity.name": "timetable",
                "traceloop.entity.input": CALL[1],
                "traceloop.entity.output": CALL[2],
            },
        ),
        **TOLD,
        tools=[CALL],
        user="u7",
    ),
    case(
        "the session and the user of the function around a call",
        span("planner", {"session.id": "s3", "user.id": "u7"}),
        span("ai.generateText", {"ai.operationId": "ai.generateText", "ai.prompt": {"messages": [USER]}}),
        scope="ai",
        input=ASKED,
        conversation="s3",
        user="u7",
    ),
]
LAMINAR = [
    case(
        "one conversation, told with other ids by the model's span",
        span(
            "ai.generateText",
            {
                "ai.operationId": "ai.generateText",
                "ai.prompt": {"system": "Be brief.", "messages": _parts("c1")},
                "ai.response.toolCalls": [
                    {"toolCallId": "c9", "toolName": "weather", "args": '{"at": "sea"}'}
                ],
            },
        ),
        span(
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": _parts("c2"),
                "ai.response.toolCalls": [
                    {"toolCallId": "c9", "toolName": "weather", "args": '{"at": "sea"}'}
                ],
                "gen_ai.usage.input_tokens": 9,
                "gen_ai.usage.output_tokens": 4,
            },
        ),
        scope="ai",
        input=ASKED,
        system="Be brief.",
        tools=[(*CALL[:3], "unknown"), ("weather", {"at": "sea"}, None, "pending")],
        usage=(9, 4),
    ),
    case(
        "a decorated function with its properties",
        span(
            "handle",
            {
                "lmnr.span.input": {"query": ASKED},
                "lmnr.span.output": f'"{SAID}"',
                "lmnr.association.properties.session_id": "s3",
                "lmnr.association.properties.user_id": "u7",
            },
        ),
        scope="lmnr.tracer",
        **TOLD,
        conversation="s3",
        user="u7",
        models=[],
    ),
    case(
        "Mastra's first names for the AI SDK's attributes",
        span(
            "mastra.stream",
            {
                "aisdk.model.id": "m1",
                "stream.usage.inputTokens": 9,
                "stream.usage.outputTokens": 4,
                "stream.usage.cachedInputTokens": 6,
                "stream.prompt.messages": [USER],
                "stream.response.text": SAID,
            },
        ),
        **TOLD,
        models=["m1"],
        usage=(9, 4),
        cached=6,
    ),
    case(
        "Gemini's parts as texts of JSON",
        span(
            "gemini.generate_content",
            {
                "gen_ai.system": "gemini",
                "gen_ai.request.model": "m1",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": [{"type": "text", "text": ASKED}],
                "gen_ai.completion.0.role": "model",
                "gen_ai.completion.0.content": [{"type": "text", "text": SAID}],
                "llm.request.type": "completion",
            },
        ),
        **TOLD,
    ),
]
BRAINTRUST = [
    case(
        "an AI service of LangChain4j",
        span("chat", {}, scope="braintrust-java"),
        span(
            "Chat Completion",
            {
                BT + "span_attributes": {"type": "llm"},
                BT + "input_json": [USER],
                BT + "output_json": [{"message": _asks("c1"), "finish_reason": "tool_calls"}],
                BT + "metadata": {"model": "m1", "provider": "acme"},
                BT + "metrics": {"prompt_tokens": 9, "completion_tokens": 4, "tokens": 13},
            },
        ),
        span(
            "timetable",
            {
                BT + "span_attributes": {"type": "tool", "name": "timetable"},
                BT + "input_json": CALL[1],
                BT + "output": CALL[2],
            },
        ),
        span(
            "Chat Completion",
            {
                BT + "span_attributes": {"type": "llm"},
                BT + "input_json": [
                    USER,
                    _asks("c1"),
                    {"role": "tool", "tool_call_id": "c1", "content": "9, 12"},
                ],
                BT + "output_json": [{"message": ANSWER, "finish_reason": "stop"}],
                BT + "metadata": {"model": "m1"},
            },
        ),
        scope="braintrust-java",
        **TOLD,
        models=["m1"],
        usage=(9, 4),
        tools=[CALL],
    ),
    case(
        "the task of an evaluation",
        span("eval", {BT + "span_attributes": {"type": "eval"}, BT + "input_json": {"input": ASKED}}),
        span(
            "task",
            {
                BT + "span_attributes": {"type": "task"},
                BT + "input_json": {"input": ASKED},
                BT + "output_json": {"output": SAID},
            },
        ),
        span("score", {BT + "span_attributes": {"type": "score"}, BT + "output": {"score": 0.5}}),
        **TOLD,
    ),
]
MLFLOW = [
    case(
        "a chain that tells a question and an answer",
        span(
            "predict",
            {
                "mlflow.spanType": '"CHAIN"',
                "mlflow.spanInputs": {"question": ASKED},
                "mlflow.spanOutputs": {"answer": SAID},
                "mlflow.trace.session": '"s3"',
                "mlflow.trace.user": '"u7"',
            },
        ),
        scope="mlflow",
        **TOLD,
        conversation="s3",
        user="u7",
    ),
    case(
        "words of other conventions are stored as JSON",
        span(
            "llm",
            {
                "openinference.span.kind": '"LLM"',
                "llm.model_name": '"m1"',
                "input.value": f'"{ASKED}"',
                "output.value": f'"{SAID}"',
            },
        ),
        models=["m1"],
    ),
    case(
        "VoltAgent's newer counts win",
        span(
            "llm",
            {
                "span.type": "llm",
                "llm.messages": [USER],
                "output": SAID,
                "usage.prompt_tokens": 9,
                "usage.completion_tokens": 4,
                "llm.usage.prompt_tokens": 100,
                "llm.usage.completion_tokens": 50,
            },
        ),
        **TOLD,
        usage=(9, 4),
    ),
]
ALL = [*LANGFUSE, *LANGWATCH, *LATITUDE, *LAMINAR, *BRAINTRUST, *MLFLOW]


@pytest.mark.parametrize("told", ALL, ids=lambda told: told.name)
def test_a_trace_means_what_the_platform_says(told: Case) -> None:
    assert list(missed(told)) == []
