"""Forms of spans that products' test suites expect to be read, each with values of our own.

Langfuse, MLflow, Phoenix, OpenInference, OpenLLMetry, LangWatch, Logfire, Genkit, LiveKit, Semantic Kernel;
`test_platform_suites.py` and `test_framework_suites.py` hold whole traces of theirs.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

J = json.dumps
ASKED, SAID = "Is the lift working?", "It runs again since noon."
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
OWN = "langfuse.observation."
AI = "ai.generateText.doGenerate"
KIND = "openinference.span.kind"
AGENT = span("agent", {KIND: "AGENT", "input.value": ASKED, "output.value": SAID})
TOOL = {"lift": 2}


def _stored(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as MLflow keeps them: each value as JSON, whatever it was."""
    return {key: J(value) for key, value in attributes.items()}


def _provider(words: dict[str, Any]) -> Case:
    told = {"ai.operationId": AI, "ai.model.id": "m1", "gen_ai.usage.input_tokens": 90}
    told |= {"gen_ai.usage.output_tokens": 30, "ai.response.providerMetadata": words}
    name = f"cached tokens among the words of {next(iter(words))}"
    return case(name, span("x", told), scope="ai", usage=(90, 30), cached=50)


LANGFUSE = [
    case(
        "a tool whose arguments and result have Pydantic AI's old names",
        span("x", {"gen_ai.tool.name": "lift", "tool_arguments": TOOL, "tool_response": "up"}),
        tools=[("lift", TOOL, "up", "ok")],
    ),
    case(
        "an agent's whole conversation ends with its answer",
        span(
            "agent run",
            {
                "prompt": ASKED,
                "agent_name": "a",
                "all_messages_events": [
                    {"event.name": "gen_ai.user.message", **USER},
                    {"event.name": "gen_ai.assistant.message", **ANSWER},
                ],
            },
        ),
        scope="logfire",
        **TOLD,
    ),
    case("a completion without a number", span("x", {"gen_ai.completion.content": SAID}), output=SAID),
    case(
        "tokens and nothing else",
        span("x", {"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4}),
        usage=(9, 4),
    ),
    case(
        "the platform's session before the framework's conversation",
        span(
            "a",
            {
                "gen_ai.operation.name": "invoke_agent",
                "langfuse.session.id": "s",
                "gen_ai.conversation.id": "c",
            },
        ),
        conversation="s",
    ),
    case(
        "a generation at the level of errors",
        span(
            "x",
            {
                OWN + "type": "generation",
                OWN + "input": [USER],
                OWN + "level": "ERROR",
                OWN + "status_message": "no",
            },
        ),
        scope="langfuse-sdk",
        input=ASKED,
        error="no",
    ),
    _provider({"openai": {"cachedPromptTokens": 50}}),
    _provider({"anthropic": {"usage": {"cache_read_input_tokens": 50}}}),
    _provider({"bedrock": {"usage": {"cacheReadInputTokens": 50}}}),
]
MLFLOW = [
    case(
        "attributes that were stored as JSON",
        span(
            "x",
            _stored(
                {
                    "ai.operationId": AI,
                    "ai.prompt.messages": J([USER]),
                    "ai.response.text": SAID,
                    "ai.response.model": "m1",
                    "gen_ai.usage.input_tokens": 9,
                    "gen_ai.usage.output_tokens": 4,
                }
            ),
        ),
        models=["m1"],
        usage=(9, 4),
        **TOLD,
    ),
    case(
        "calls that were stored as JSON",
        span(
            "x",
            _stored(
                {
                    "ai.operationId": AI,
                    "ai.response.toolCalls": J([{"toolCallId": "c", "toolName": "lift", "input": J(TOOL)}]),
                }
            ),
        ),
        tools=[("lift", TOOL, None, "unknown")],
    ),
    case(
        "its own words on a span of another convention",
        span("x", {KIND: "LLM", "mlflow.spanInputs": J(ASKED), "mlflow.spanOutputs": J(SAID)}),
        **TOLD,
    ),
    case(
        "a voice agent's context",
        span(
            "llm_node",
            {"lk.chat_ctx": {"items": [{"type": "message", "role": "user", "content": [ASKED]}]}},
        ),
        scope="livekit-agents",
        input=ASKED,
    ),
    case("a thread that is a number", span("x", {**CHAT, "thread_id": 12345}), conversation="12345"),
    case(
        "the first names of models",
        span("x", {"gen_ai.system": "acme", "gen_ai.request_model": "m1", "gen_ai.prompt": ASKED}),
        input=ASKED,
        models=["m1"],
    ),
]
OPENLLMETRY = [
    case(
        "Haystack's texts without their speakers",
        span("x", {"llm.request.type": "chat", "gen_ai.prompt.0.user": ["Be brief.", ASKED]}),
        scope="opentelemetry.instrumentation.haystack",
        input=ASKED,
    ),
    case(
        "Bedrock's blocks as text",
        span(
            "x",
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": J([{"text": ASKED}]),
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": J([{"text": SAID}]),
            },
        ),
        scope="opentelemetry.instrumentation.bedrock",
        **TOLD,
    ),
    case(
        "a SageMaker endpoint's reply",
        span(
            "x",
            {
                "llm.request.type": "completion",
                "traceloop.entity.input": {"inputs": ASKED},
                "traceloop.entity.output": [{"generated_text": SAID}],
            },
        ),
        scope="opentelemetry.instrumentation.sagemaker",
        **TOLD,
    ),
    case(
        "the only content inside an MCP server's wrapper",
        span("x.workflow", {"traceloop.span.kind": "workflow"}),
        span(
            "lift.tool",
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "lift",
                "traceloop.entity.input": {"tool_name": "lift", "arguments": TOOL},
                "traceloop.entity.output": {"result": [{"type": "text", "text": "up"}]},
            },
        ),
        scope="opentelemetry.instrumentation.mcp",
        tools=[("lift", TOOL, "up", "ok")],
    ),
]
OPENINFERENCE = [
    case(
        "parameters of the call, where nothing else tells them",
        AGENT,
        span("x", {KIND: "TOOL", "tool.name": "lift", "tool.parameters": TOOL, "output.value": "up"}),
        tools=[("lift", TOOL, "up", "ok")],
        **TOLD,
    ),
    case(
        "parameters of all calls are no arguments",
        AGENT,
        span("x", {KIND: "TOOL", "tool.name": "lift", "tool.parameters": {"lift": {"type": "integer"}}}),
        tools=[("lift", None, None, "unknown")],
        **TOLD,
    ),
    case(
        "its names inside a list",
        span(
            "x",
            {
                KIND: "LLM",
                "llm.input_messages": [{"message.role": "user", "message.content": ASKED}],
                "llm.output_messages": [{"message.role": "assistant", "message.content": SAID}],
            },
        ),
        **TOLD,
    ),
    case(
        "documents whose names are inside a list",
        span("x", {KIND: "RETRIEVER", "retrieval.documents": [{"document.content": "Closed until noon."}]}),
        documents=["Closed until noon."],
    ),
    case(
        "its names on spans of another scope",
        span("x", {**CHAT, KIND: "LLM", "input.value": {"messages": [USER]}, "output.value": SAID}),
        scope="openlit",
        **TOLD,
    ),
    case(
        "a retrieval told by its documents",
        span("a", {"gen_ai.operation.name": "invoke_agent"}),
        span(
            "x",
            {"gen_ai.retrieval.query.text": ASKED, "gen_ai.retrieval.documents": [{"content": "Closed."}]},
        ),
        documents=["Closed."],
    ),
]
OTHERS = [
    case(
        "model, response and tokens as one object each",
        span(
            "ai.generateText",
            {
                "ai.model": {"id": "m1", "provider": "acme.chat"},
                "ai.prompt": {"messages": [USER]},
                "ai.response": {"text": SAID},
                "ai.usage": {"promptTokens": 9, "completionTokens": 4},
            },
        ),
        scope="ai",
        models=["m1"],
        usage=(9, 4),
        **TOLD,
    ),
    case(
        "a content that was spelled out in keys",
        span("x", {**CHAT, "gen_ai.input.messages": [{"role": "user", "content": {"0": {"text": ASKED}}}]}),
        input=ASKED,
    ),
    case(
        "who asked, in metadata",
        span("x", {**CHAT, "metadata": {"userId": "u7", "threadId": "s3"}}),
        user="u7",
        conversation="s3",
    ),
    case(
        "a streamed call in Logfire's newest format",
        span("x", {**CHAT, "request_data": {"model": "m1"}, "gen_ai.input.messages": [USER]}),
        span(
            "streaming response from {x}",
            {
                **CHAT,
                "duration": 1.5,
                "request_data": {"model": "m1"},
                "gen_ai.input.messages": [USER],
                "gen_ai.output.messages": [ANSWER],
            },
            above=None,
        ),
        scope="logfire.openai",
        **TOLD,
    ),
    case(
        "a flow that failed",
        span(
            "plan",
            {
                "genkit:type": "flow",
                "genkit:name": "plan",
                "genkit:input": J(ASKED),
                "genkit:error": "no lift",
            },
            status="ERROR",
        ),
        scope="genkit-tracer",
        input=ASKED,
        output=None,
        error="no lift",
    ),
    case(
        "errors whose texts were left out",
        span(
            "agent_turn",
            {
                "lk.user_input": ASKED,
                "exception.type": "E",
                "exception.message": "exception details redacted",
            },
            status="ERROR",
        ),
        scope="livekit-agents",
        input=ASKED,
        error="E",
    ),
    case(
        "a text that a model is to complete",
        span(
            "text.completions m1",
            {**CHAT, "gen_ai.operation.name": "text.completions"},
            logs=[
                ("", {"event.name": "gen_ai.prompt"}, ASKED),
                ("", {"event.name": "gen_ai.choice"}, J({"message": SAID, "index": 0})),
            ],
        ),
        scope="semantic_kernel.utils.telemetry.model_diagnostics.decorators",
        **TOLD,
    ),
]


def _own(result: dict[str, Any]) -> Case:
    """A tool's own value that looks like a wrapper of some framework."""
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lift",
        "gen_ai.tool.call.result": result,
    }
    agent = span("a", {"gen_ai.operation.name": "invoke_agent"})
    return case(
        f"{J(result)} is what the tool gave",
        agent,
        span("x", told),
        tools=[("lift", None, result, "ok")],
    )


def _replied(*output: dict[str, Any], given: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    messages = {"gen_ai.input.messages": [USER, *(given or [])], "gen_ai.output.messages": list(output)}
    return span("x", {**CHAT, **messages})


ASKS = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "lift", "arguments": TOOL}]}
LEFT_OUT = [{"type": "text", "text": "[REDACTED]"}]
GAVE = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": LEFT_OUT}]}
WORDS = [
    case(
        f"{asked} and {told}",
        span("x", {OWN + "type": "agent", OWN + "input": {asked: ASKED}, OWN + "output": {told: SAID}}),
        scope="langfuse-sdk",
        **TOLD,
    )
    for asked, told in (("user_query", "final_answer"), ("chatInput", "finalOutput"), ("topic", "completion"))
]
ASSOCIATED = "traceloop.association.properties."
IDS = (
    ("ai.telemetry.metadata.user_id", "ai.telemetry.metadata.session_id"),
    ("ai.telemetry.metadata.userId", "ai.telemetry.metadata.chat_id"),
    (ASSOCIATED + "userId", ASSOCIATED + "thread_id"),
    ("lmnr.association.properties.user_id", "lmnr.association.properties.session_id"),
    ("langsmith.metadata.userId", "langsmith.metadata.conversation_id"),
    ("mastra.metadata.userId", "mastra.metadata.threadId"),
    ("metadata.user_id", "metadata.thread_id"),
    ("user_id", "conversation_id"),
)
WHO = [
    *(
        case(f"{u} and {c}", span("x", {**CHAT, u: "u7", c: "s3"}), user="u7", conversation="s3")
        for u, c in IDS
    ),
    case("numbers", span("x", {**CHAT, "user.id": 7, "session.id": 3}), user="7", conversation="3"),
    case(
        "the platform's ids on a span around the run",
        span("POST /chat", {"langfuse.user.id": "u7", "langfuse.session.id": "s3"}),
        span("x", CHAT),
        user="u7",
        conversation="s3",
    ),
    case(
        "a trace's metadata as one object",
        span(
            "x",
            {
                OWN + "type": "generation",
                "langfuse.trace.metadata": {"langfuse_user_id": "u7", "langfuse_session_id": "s3"},
            },
        ),
        scope="langfuse-sdk",
        user="u7",
        conversation="s3",
    ),
]
RETRIEVED = (
    ("documents without an envelope", [{"page_content": "Closed."}, {"pageContent": "Open."}]),
    ("contexts", {"contexts": ["Closed.", "Open."]}),
    ("chunks", {"chunks": [{"text": "Closed."}, {"text": "Open."}]}),
    (
        "texts among the metadata",
        [{"id": "1", "metadata": {"text": "Closed."}}, {"metadata": {"content": "Open."}}],
    ),
)
DOCUMENTS = [
    case(
        f"a retriever's {name}",
        span("a", {OWN + "type": "agent"}),
        span("x", {OWN + "type": "retriever", OWN + "output": J(output)}),
        scope="langfuse-sdk",
        documents=["Closed.", "Open."],
    )
    for name, output in RETRIEVED
]
VALUES = [
    *map(
        _own,
        ({"output": "up"}, {"response": "up", "id": "7"}, {"type": "floor", "value": 2}, {"result": "up"}),
    ),
    case(
        "a result whose text was left out",
        _replied(ANSWER, given=[ASKS, GAVE]),
        tools=[("lift", TOOL, None, "unknown")],
        **TOLD,
    ),
    case(
        "what a platform's SDK says a tool gave",
        span("a", {OWN + "type": "agent"}),
        span("x", {OWN + "type": "tool", OWN + "output": {"output": "up"}}),
        scope="langfuse-sdk",
        tools=[("x", None, {"output": "up"}, "ok")],
    ),
    case(
        "a refusal beside an empty content",
        _replied({"role": "assistant", "content": None, "refusal": "I cannot say."}),
        output="I cannot say.",
    ),
    case(
        "an unknown operation that asks a model in the old form",
        span(
            "x",
            {
                **CHAT,
                "gen_ai.operation.name": "ponder",
                "gen_ai.prompt.0.content": ASKED,
                "gen_ai.completion.0.content": SAID,
            },
        ),
        **TOLD,
    ),
]


@pytest.mark.parametrize(
    "told",
    [*LANGFUSE, *MLFLOW, *OPENLLMETRY, *OPENINFERENCE, *OTHERS, *WORDS, *WHO, *DOCUMENTS, *VALUES],
    ids=lambda told: told.name,
)
def test_a_form_means_what_its_suite_says(told: Case) -> None:
    assert list(missed(told)) == []
