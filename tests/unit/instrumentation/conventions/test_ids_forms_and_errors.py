"""Ids used twice, answers in the form of a call, and errors in place of answers, by convention."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

J = json.dumps
KIND = "openinference.span.kind"
ASKED, SAID = "Is a boat free on Friday?", "The red one is."
BOAT = {"boat": "red", "day": "friday"}
CHAT = {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": "m1"}
INVOKE = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}


def _text(role: str, text: str, **more: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}], **more}


def _call(boat: str, call_id: str = "look_0") -> dict[str, Any]:
    part = {"type": "tool_call", "id": call_id, "name": "look", "arguments": {"boat": boat}}
    return {"role": "assistant", "parts": [part]}


def _result(free: bool, call_id: str = "look_0") -> dict[str, Any]:
    part = {"type": "tool_call_response", "id": call_id, "response": {"free": free}}
    return {"role": "user", "parts": [part]}


QUESTION = _text("user", ASKED)
FIRST, SECOND = [_call("blue"), _result(free=False)], [_call("red"), _result(free=True)]


def _asks(given: list[Any], said: Any) -> dict[str, Any]:
    return span("chat", {**CHAT, "gen_ai.input.messages": given, "gen_ai.output.messages": [said]})


def _looked(boat: str, free: bool) -> dict[str, Any]:
    """Attributes of a tool's span with the id that each response's first call has."""
    return {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "look",
        "ai.toolCall.id": "look_0",
        "ai.toolCall.args": J({"boat": boat}),
        "ai.toolCall.result": J({"free": free}),
    }


BOTH = [("look", {"boat": "blue"}, {"free": False}), ("look", {"boat": "red"}, {"free": True})]
REUSED = [
    case(
        "google-genai of OpenTelemetry: each response numbers its calls from 0",
        span("app", {}),
        _asks([QUESTION], FIRST[0]),
        _asks([QUESTION, *FIRST], SECOND[0]),
        _asks([QUESTION, *FIRST, *SECOND], _text("assistant", SAID)),
        tools=[(*each, "unknown") for each in BOTH],
        output=SAID,
    ),
    case(
        "Vercel AI SDK: the same in the spans of tools",
        span("ai.generateText", {"ai.operationId": "ai.generateText", "ai.response.text": SAID}),
        span("ai.toolCall", _looked("blue", free=False)),
        span("ai.toolCall", _looked("red", free=True)),
        tools=[(*each, "ok") for each in BOTH],
    ),
    case(
        "OpenTelemetry: spans and messages that tell the same calls under one id",
        span("agent", {**INVOKE, "gen_ai.output.messages": [*FIRST, *SECOND, _text("assistant", SAID)]}),
        *(
            span(
                "execute_tool look",
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "look",
                    "gen_ai.tool.call.id": "look_0",
                    "gen_ai.tool.call.arguments": J(arguments),
                    "gen_ai.tool.call.result": J(result),
                },
            )
            for _, arguments, result in BOTH
        ),
        tools=[(*each, "ok") for each in BOTH],
        output=SAID,
    ),
    case(
        "OpenTelemetry: a conversation that is repeated is no second call",
        span("agent", {**INVOKE, "gen_ai.output.messages": [*FIRST, *FIRST, _text("assistant", SAID)]}),
        tools=[(*BOTH[0], "unknown")],
    ),
]

FORM = {"tool_call.function.name": "Booking", "tool_call.function.arguments": J(BOAT), "tool_call.id": "c1"}
FORMED = {f"llm.output_messages.0.message.tool_calls.0.{key}": value for key, value in FORM.items()}
OF_OPENAI = {"id": "c1", "type": "function", "function": {"name": "Booking", "arguments": J(BOAT)}}
FORMS = [
    case(
        "Instructor through OpenInference: the arguments of the forced call are the answer",
        span("instructor.create", {KIND: "CHAIN", "input.value": ASKED, "output.value": BOAT}),
        span(
            "ChatCompletion",
            {
                KIND: "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": ASKED,
                "llm.output_messages.0.message.role": "assistant",
                **FORMED,
            },
        ),
        tools=[],
        input=ASKED,
        output=J(BOAT),
    ),
    case(
        "Langfuse: the same in an observed function",
        span("book", {"langfuse.observation.type": "agent", "langfuse.observation.output": BOAT}),
        span(
            "OpenAI-generation",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": J([{"role": "user", "content": ASKED}]),
                "langfuse.observation.output": {"role": "assistant", "tool_calls": [OF_OPENAI]},
            },
        ),
        tools=[],
        output=J(BOAT),
    ),
    case(
        "OpenTelemetry: a call with other arguments than the answer stays a call",
        span("agent", {**INVOKE, "gen_ai.output.messages": [_text("assistant", J(BOAT))]}),
        span("chat", {**CHAT, "gen_ai.output.messages": [_call("red")]}),
        tools=[("look", {"boat": "red"}, None, "unknown")],
        output=J(BOAT),
    ),
]

RAISED = ("exception", {"exception.type": "lib.ProviderError", "exception.message": "No model today."})
FAILED: list[dict[str, Any]] = [{"status": "ERROR"}, {"status": "ERROR", "events": [RAISED]}]
ERRORS = [
    case(
        "Agno through OpenInference: the error of the model as the agent's output",
        span(
            "clerk.run",
            {KIND: "AGENT", "input.value": ASKED, "output.value": "No model today."},
            **FAILED[0],
        ),
        span("OpenAIChat.invoke", {KIND: "LLM", "input.value": ASKED}, **FAILED[1]),
        input=ASKED,
        output=None,
    ),
    case(
        "OpenLLMetry: the same of an agent's task",
        span(
            "clerk.agent",
            {
                "traceloop.span.kind": "agent",
                "traceloop.entity.input": ASKED,
                "traceloop.entity.output": "No model today.",
            },
            **FAILED[0],
        ),
        span("chat", {**CHAT, "gen_ai.input.messages": [QUESTION]}, **FAILED[1]),
        output=None,
    ),
    case(
        "Agno through OpenTelemetry: the message ends with an error",
        span(
            "invoke_agent clerk",
            {
                **INVOKE,
                "gen_ai.input.messages": [QUESTION],
                "gen_ai.output.messages": [_text("assistant", "No model today.", finish_reason="error")],
            },
        ),
        input=ASKED,
        output=None,
    ),
    case(
        "OpenTelemetry: an answer that repeats a failed tool's error is an answer",
        span(
            "invoke_agent clerk",
            {
                **INVOKE,
                "gen_ai.output.messages": [_text("assistant", "No model today.", finish_reason="stop")],
            },
        ),
        span(
            "execute_tool look",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
            **FAILED[1],
        ),
        output="No model today.",
    ),
]

LONG = ("exception", {"exception.message": "Error 400: {'message': 'No model today.'}"})
ERRORS += [
    case(
        f"{name}: an agent that returns a part of its model's error",
        span("clerk", {**INVOKE, "gen_ai.output.messages": [_text("assistant", "No model today.")]}),
        span("chat", {**CHAT, "gen_ai.input.messages": [QUESTION]}, status="ERROR", events=[LONG]),
        scope=scope,
        input=ASKED,
        output=None,
        error="Error 400: {'message': 'No model today.'}",
    )
    for name, scope in (("OpenLIT", "openlit.instrumentation.agno"), ("OpenTelemetry", "my.app"))
]
ERRORS.append(
    case(
        "OpenLIT: a failed call with nothing but a name",
        span("app", {}),
        span("chat m1", {}, status="ERROR", scope="openlit.instrumentation.anthropic", events=[RAISED]),
        runs=1,
        error="No model today.",
    )
)

END = {"result": {"response": {"role": "assistant", "content": SAID}, "current_agent_name": "clerk"}}
MESSAGE = (
    "ChatMessage(_role=<ChatRole.{0}: '{1}'>, _content=[TextContent(text='{2}')], _name=None, _meta={3})"
)
WHOLE = [
    MESSAGE.format("SYSTEM", "system", "Be brief.", "{}"),
    MESSAGE.format("USER", "user", ASKED, "{}"),
    MESSAGE.format("ASSISTANT", "assistant", SAID, "{'model': 'm1', 'index': 0}"),
]
NAMES_AND_SUMS = [
    case(
        "LlamaIndex through OpenLLMetry: the agent that ended the workflow",
        span(
            "FunctionAgent.workflow",
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.name": "FunctionAgent.workflow",
                "traceloop.entity.input": {"user_msg": ASKED},
                "traceloop.entity.output": J(J(END)),
            },
        ),
        scope="opentelemetry.instrumentation.llamaindex",
        agent="clerk",
        output=SAID,
    ),
    case(
        "Haystack through OpenInference: tokens, model and system prompt next to the answer",
        span("Pipeline.run", {KIND: "CHAIN", "output.value": {"clerk": {"messages": WHOLE}}}),
        span(
            "Agent.run",
            {
                KIND: "CHAIN",
                "input.value": {"messages": WHOLE[1:2]},
                "output.value": {
                    "messages": WHOLE,
                    "last_message": WHOLE[-1],
                    "token_usage": {"prompt_tokens": 42, "completion_tokens": 11},
                },
            },
        ),
        scope="openinference.instrumentation.haystack",
        input=ASKED,
        output=SAID,
        system="Be brief.",
        models=["m1"],
        usage=(42, 11),
    ),
    case(
        "LangGraph through OpenInference: a system prompt in the final state only",
        span(
            "clerk",
            {
                KIND: "AGENT",
                "input.value": {"messages": [{"role": "user", "content": ASKED}]},
                "output.value": {
                    "messages": [
                        {"type": "system", "content": "Be brief."},
                        {"type": "human", "content": ASKED},
                        {"type": "ai", "content": SAID},
                    ]
                },
            },
        ),
        scope="openinference.instrumentation.langchain",
        system="Be brief.",
        output=SAID,
    ),
]
RESPONSE = {
    "instructions": "Be brief.",
    "output": [{"type": "message", "role": "assistant", "content": SAID}],
}
NAMES_AND_SUMS += [
    case(
        "Logfire: an agent is named, not the workflow; instructions of a response",
        span("OpenAI Agents trace: {name}", {"agent_trace_id": "t", "name": "Agent workflow"}),
        span("Agent run: {name!r}", {"name": "clerk"}),
        span(
            "Responses API with 'm1'",
            {"raw_input": J([{"role": "user", "content": ASKED}]), "response": RESPONSE},
            above=1,
        ),
        span("Function: {name}", {"name": "look", "input": J({"boat": "red"}), "output": "free"}, above=1),
        scope="logfire.openai_agents",
        agent="clerk",
        system="Be brief.",
        input=ASKED,
        output=SAID,
    )
]
SDK = "com.anthropic.sdk.python"
OF_MLFLOW = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": {"messages": [{"role": "user"}]}}
COUNTED = {"gen_ai.usage.input_tokens": 42, "gen_ai.usage.output_tokens": 11}
COUNTS = {"input_tokens": 42, "output_tokens": 11}
NAMES_AND_SUMS += [
    case(
        "MLflow: a span of the SDK next to its own is the same call",
        span("clerk", {"mlflow.spanType": '"AGENT"', "mlflow.spanOutputs": J(SAID)}),
        span("create", {**OF_MLFLOW, "mlflow.chat.tokenUsage": COUNTS}, start_time=10, end_time=50),
        span(
            "anthropic.messages.create",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m1",
                "mlflow.spanType": "null",
                **COUNTED,
            },
            start_time=11,
            end_time=49,
            scope=SDK,
        ),
        scope="mlflow.tracing.provider",
        usage=(42, 11),
        models=["m1"],
        output=SAID,
    ),
    case(
        "MLflow: pydantic-ai's agent by its name, and the answer of its stream by its model",
        span(
            "Agent.run_stream",
            {
                "mlflow.spanType": '"AGENT"',
                "name": '"clerk"',
                "mlflow.spanInputs": {"user_prompt": ASKED},
                "mlflow.spanOutputs": J("{'_all_messages': [], '_result': <object at 0x7f>}"),
            },
        ),
        span(
            "chat", {**CHAT, "mlflow.spanType": "null", "gen_ai.output.messages": [_text("assistant", SAID)]}
        ),
        scope="mlflow.tracing.provider",
        agent="clerk",
        output=SAID,
    ),
]
CONTENTS = "llm.input_messages.0.message.contents."
NAMES_AND_SUMS += [
    case(
        "Strands through OpenInference: the agent's name before its node's, the image next to the question",
        span(
            "invoke_agent clerk",
            {
                KIND: "AGENT",
                "gen_ai.agent.name": "clerk",
                "graph.node.id": "strands_agent",
                "llm.input_messages.0.message.role": "user",
                f"{CONTENTS}0.message_content.type": "text",
                f"{CONTENTS}0.message_content.text": ASKED,
                f"{CONTENTS}1.message_content.type": "text",
                f"{CONTENTS}1.message_content.text": J(
                    {"image": {"format": "png", "source": {"bytes": "<>"}}}
                ),
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": SAID,
            },
        ),
        scope="strands.telemetry.tracer",
        agent="clerk",
        input=ASKED,
        output=SAID,
    ),
]


def _loop(
    name: str, agent: dict[str, Any], model: dict[str, Any], tool: dict[str, Any], **facts: Any
) -> Case:
    """An agent with the sum, and a model's span around all requests with the tokens of the last one."""
    return case(
        name,
        span("clerk", agent),
        span("chat", model, start_time=10, end_time=90),
        span("look", tool, start_time=30, end_time=40),
        **facts,
    )


NAMES_AND_SUMS += [
    _loop(
        "VoltAgent: the sum of a loop is the agent's",
        {"entity.type": "agent", "usage.prompt_tokens": 42, "usage.completion_tokens": 11},
        {"span.type": "llm", "llm.usage.prompt_tokens": 22, "llm.usage.completion_tokens": 6},
        {"span.type": "tool", "tool.name": "look", "input": "{}"},
        scope="@voltagent/core",
        usage=(42, 11),
    ),
    _loop(
        "OpenTelemetry: the same",
        {**INVOKE, **COUNTED},
        {**CHAT, "gen_ai.usage.input_tokens": 22, "gen_ai.usage.output_tokens": 6},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
        usage=(42, 11),
    ),
    _loop(
        "OpenTelemetry: a call that counts more than the agent",
        {**INVOKE, "gen_ai.usage.input_tokens": 22, "gen_ai.usage.output_tokens": 6},
        {**CHAT, **COUNTED},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
        usage=(42, 11),
    ),
]
LANGFUSE = {"langfuse.observation.type": "generation", "langfuse.trace.metadata.thread_id": J("t-1")}
APART = {"input": 26, "input_cache_read": 16, "output": 8, "output_reasoning": 3, "total": 53}
INSIDE = {"prompt_tokens": 42, "completion_tokens": 11, "total_tokens": 53, "prompt_cached_tokens": 16}
NAMES_AND_SUMS += [
    case(
        f"Langfuse: {name}",
        span("chat", {**LANGFUSE, "langfuse.observation.usage_details": counts}),
        usage=(42, 11),
        cached=16,
        conversation="t-1",
    )
    for name, counts in (("cached tokens apart from the input", APART), ("included in it", INSIDE))
]

WHOLE_CALL = {"name": "look", "arguments": J({"boat": "red"})}
NAMES_AND_SUMS += [
    case(
        "AG2 through OpenInference: whole calls, a flag with the result, the agent that was asked",
        span(
            "user.initiate_chat",
            {
                KIND: "AGENT",
                "agent.name": "user",
                "ag2.recipient.name": "clerk",
                "input.value": {"message": ASKED},
                "output.value": SAID,
            },
        ),
        *(
            span(
                "look",
                {
                    KIND: "TOOL",
                    "tool.name": "look",
                    "input.value": WHOLE_CALL,
                    "output.value": [done, {"name": "look", "role": "function", "content": text}],
                },
                status=status,
            )
            for done, text, status in ((True, "free", "OK"), (False, "no such boat", "ERROR"))
        ),
        agent="clerk",
        tools=[("look", {"boat": "red"}, "free", "ok"), ("look", {"boat": "red"}, "no such boat", "error")],
        output=SAID,
    ),
    case(
        "OpenTelemetry: the same call, and a tool's own pair",
        span("agent", INVOKE),
        span(
            "execute_tool look",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look",
                "gen_ai.tool.call.arguments": WHOLE_CALL,
                "gen_ai.tool.call.result": '[true, {"content": 1}]',
            },
        ),
        tools=[("look", {"boat": "red"}, [True, {"content": 1}], "ok")],
    ),
]


@pytest.mark.parametrize("told", [*REUSED, *FORMS, *ERRORS, *NAMES_AND_SUMS], ids=lambda told: told.name)
def test_it_is_read(told: Case) -> None:
    assert list(missed(told)) == []
