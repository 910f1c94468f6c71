"""One conversation, written as each convention writes it, is recovered as one and the same run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals.dialects import load_dialects
from otel_evals.model import Run, SpanEvent, SpanRecord

DIALECTS = load_dialects()
QUESTION, ANSWER, RESULT = "Weather in Paris?", "It is sunny.", "Sunny"
ARGUMENTS = {"city": "Paris"}
J = json.dumps

ASK = {"role": "user", "content": QUESTION}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": J(ARGUMENTS)}}
    ],
}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": RESULT}
SAY = {"role": "assistant", "content": ANSWER}
P_ASK = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
P_CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": ARGUMENTS}],
}
P_TOLD = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": RESULT}]}
P_SAY = {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}


class Trace:
    """Builds a trace whose spans follow each other inside the first."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.spans: list[SpanRecord] = []

    def add(
        self,
        name: str,
        attributes: dict[str, Any],
        *,
        under: int | None = 0,
        events: list[tuple[str, Any]] = [],  # noqa: B006 - never changed
        logs: list[tuple[str, Any]] = [],  # noqa: B006 - never changed
        **more: Any,
    ) -> Trace:
        number = len(self.spans)
        parent = None if number == 0 or under is None else f"{under + 1:016x}"
        self.spans.append(
            SpanRecord(
                trace_id="a" * 32,
                span_id=f"{number + 1:016x}",
                parent_span_id=parent,
                name=name,
                start_time=number * 10,
                end_time=1_000 if number == 0 else number * 10 + 5,
                attributes=attributes,
                events=tuple(SpanEvent(name=n, attributes=body) for n, body in events),
                logs=tuple(SpanEvent(name=n, body=body) for n, body in logs),
                scope_name=self.scope,
                **more,
            )
        )
        return self


def genai() -> Trace:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    return (
        Trace("my.library")
        .add("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
        .add("chat m", {**chat, "gen_ai.input.messages": J([P_ASK]), "gen_ai.output.messages": J([P_CALL])})
        .add(
            "execute_tool get_weather",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_weather",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": J(ARGUMENTS),
                "gen_ai.tool.call.result": RESULT,
            },
        )
        .add(
            "chat m",
            {
                **chat,
                "gen_ai.input.messages": J([P_ASK, P_CALL, P_TOLD]),
                "gen_ai.output.messages": J([P_SAY]),
            },
        )
    )


def genai_legacy_logs() -> Trace:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
    history = [
        ("gen_ai.user.message", ASK),
        ("gen_ai.assistant.message", CALL),
        ("gen_ai.tool.message", TOLD),
    ]
    return (
        Trace("opentelemetry.instrumentation.openai_v2")
        .add("POST /chat", {"http.route": "/chat"})
        .add("chat m", chat, logs=[*history[:1], ("gen_ai.choice", {"index": 0, "message": CALL})])
        .add("chat m", chat, logs=[*history, ("gen_ai.choice", {"index": 0, "message": SAY})])
    )


def genai_event_content() -> Trace:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.system": "az.ai.inference"}
    return (
        Trace("azure.ai.inference")
        .add("app", {})
        .add(
            "chat m",
            chat,
            events=[
                ("gen_ai.user.message", {"gen_ai.event.content": J(ASK)}),
                ("gen_ai.assistant.message", {"gen_ai.event.content": J(CALL)}),
                ("gen_ai.tool.message", {"gen_ai.event.content": J({"content": RESULT, "id": "c1"})}),
                ("gen_ai.choice", {"gen_ai.event.content": J({"index": 0, "message": SAY})}),
            ],
        )
    )


def genai_content_events() -> Trace:
    """OpenTelemetry before 1.28, and OpenLIT: whole conversations in two events."""
    return (
        Trace("openlit")
        .add("app", {})
        .add(
            "chat m",
            {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"},
            events=[
                ("gen_ai.content.prompt", {"gen_ai.prompt": J([ASK, CALL, TOLD])}),
                ("gen_ai.content.completion", {"gen_ai.completion": J([SAY])}),
            ],
        )
    )


def openinference() -> Trace:
    asked = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": QUESTION}
    call = "message.tool_calls.0.tool_call."
    return (
        Trace("openinference.instrumentation.some_framework")
        .add("agent", {"openinference.span.kind": "AGENT", "agent.name": "a"})
        .add(
            "llm",
            {
                "openinference.span.kind": "LLM",
                **asked,
                f"llm.output_messages.0.{call}id": "c1",
                f"llm.output_messages.0.{call}function.name": "get_weather",
                f"llm.output_messages.0.{call}function.arguments": J(ARGUMENTS),
            },
        )
        .add(
            "tool",
            {
                "openinference.span.kind": "TOOL",
                "tool.name": "get_weather",
                "input.value": "Paris",
                "output.value": J({"type": "tool", "data": {"content": RESULT, "tool_call_id": "c1"}}),
            },
        )
        .add(
            "llm",
            {
                "openinference.span.kind": "LLM",
                **asked,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.contents.0.message_content.text": ANSWER,
            },
        )
    )


def haystack_reprs() -> Trace:
    asked = (
        f"ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='{QUESTION}')], _meta={{}})"
    )
    said = f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='{ANSWER}')])"
    result = (
        f"ToolCallResult(result='{RESULT}', origin=ToolCall(tool_name='get_weather', id='c1'), error=False)"
    )
    tool = "ToolCall(tool_name='get_weather', arguments={'city': 'Paris'}, id='c1')"
    return (
        Trace("openinference.instrumentation.haystack")
        .add("Pipeline.run", {"openinference.span.kind": "CHAIN", "input.value": J({"data": {"x": "Foo()"}})})
        .add(
            "Agent.run",
            {
                "openinference.span.kind": "AGENT",
                "input.value": J({"messages": [asked]}),
                "output.value": J(
                    {
                        "messages": [
                            asked,
                            f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[{tool}])",
                            f"ChatMessage(_role=<ChatRole.TOOL: 'tool'>, _content=[{result}])",
                            said,
                        ]
                    }
                ),
            },
        )
    )


def traceloop_indexed() -> Trace:
    prompt = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION, "llm.request.type": "chat"}
    call = {
        "tool_calls.0.id": "c1",
        "tool_calls.0.name": "get_weather",
        "tool_calls.0.arguments": J(ARGUMENTS),
    }
    entity = "traceloop.entity."
    message = f"content='{RESULT}' name='get_weather' tool_call_id='c1'"
    return (
        Trace("opentelemetry.instrumentation.langchain")
        .add(
            "agent.workflow",
            {
                "traceloop.span.kind": "workflow",
                entity + "input": J(
                    {"inputs": {"messages": [["user", QUESTION]]}, "tags": [], "metadata": {}}
                ),
                entity + "output": J(
                    {"outputs": {"messages": [{"type": "ai", "content": ANSWER}]}, "kwargs": {}}
                ),
            },
        )
        .add("ChatOpenAI.chat", {**prompt, **{f"gen_ai.completion.0.{k}": v for k, v in call.items()}})
        .add(
            "get_weather.tool",
            {
                "traceloop.span.kind": "tool",
                entity + "name": "get_weather",
                entity + "input": J(
                    {"input_str": "{'city': 'Paris'}", "tags": [], "metadata": {}, "kwargs": {}}
                ),
                entity + "output": J({"output": message, "kwargs": {}}),
            },
        )
        .add(
            "ChatOpenAI.chat",
            {
                **prompt,
                "gen_ai.prompt.1.role": "assistant",
                **{f"gen_ai.prompt.1.{k}": v for k, v in call.items()},
                "gen_ai.prompt.2.role": "tool",
                "gen_ai.prompt.2.tool_call_id": "c1",
                "gen_ai.prompt.2.content": RESULT,
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": ANSWER,
            },
        )
    )


def traceloop_crewai() -> Trace:
    return (
        Trace("opentelemetry.instrumentation.crewai")
        .add("crewai.workflow", {"gen_ai.system": "crewai", "crewai.crew.result": ANSWER})
        .add("x.task", {"traceloop.span.kind": "task", "crewai.task.description": QUESTION})
        .add("a.agent", {"traceloop.span.kind": "agent", "crewai.agent.role": "a"}, under=1)
        .add("get_weather.tool", genai().spans[2].attributes, under=2)
    )


def traceloop_crewai_reprs() -> Trace:
    """No tool spans: the conversation stands in a repr on the root."""
    conversation = [{"role": "user", "content": f"Current Task: {QUESTION}"}, CALL, TOLD, SAY]
    fields = f"description={QUESTION!r}, raw={ANSWER!r}, format=<F.RAW: 'raw'>, messages={conversation!r}"
    task = f"TaskOutput({fields})"
    return (
        Trace("opentelemetry.instrumentation.crewai")
        .add("crewai.workflow", {"crewai.crew.result": ANSWER, "crewai.crew.tasks_output": f"[{task}]"})
        .add("x.task", {"traceloop.span.kind": "task", "crewai.task.description": QUESTION})
        .add("a.agent", {"traceloop.span.kind": "agent"}, under=1)
    )


def haystack_pipeline() -> Trace:
    asked = f"ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='{QUESTION}')])"
    said = f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='{ANSWER}')])"
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "get_weather",
        "input.value": J({"kwargs": ARGUMENTS}),
    }
    return (
        Trace("openinference.instrumentation.haystack")
        .add(
            "Pipeline.run",
            {
                "openinference.span.kind": "CHAIN",
                "input.value": J({"data": {"llm": {"messages": [asked]}}}),
                "output.value": J({"llm": {"replies": [said]}}),
            },
        )
        .add("tool", {**tool, "output.value": RESULT})
        .add(
            "handoff to other",
            {"openinference.span.kind": "TOOL", "input.value": "a", "output.value": "other"},
        )
    )


def pydantic_ai_v1_events() -> Trace:
    def event(name: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"event.name": name, **body}

    asked = event("gen_ai.user.message", ASK)
    return (
        Trace("pydantic-ai")
        .add(
            "agent run",
            {
                "agent_name": "a",
                "all_messages_events": J([asked, event("gen_ai.assistant.message", CALL)]),
                "final_result": ANSWER,
            },
        )
        .add(
            "chat m",
            {
                "gen_ai.operation.name": "chat",
                "events": J([asked, event("gen_ai.choice", {"index": 0, "message": CALL})]),
            },
        )
        .add(
            "running tool",
            {"gen_ai.tool.name": "get_weather", "tool_arguments": J(ARGUMENTS), "tool_response": RESULT},
        )
    )


def logfire_openai_agents() -> Trace:
    asked = [{"role": "user", "content": QUESTION}]
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "get_weather",
        "arguments": J(ARGUMENTS),
    }
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    responses = {
        "logfire.msg_template": "Responses API with {gen_ai.request.model!r}",
        "gen_ai.request.model": "m",
    }
    return (
        Trace("logfire.openai_agents")
        .add(
            "OpenAI Agents trace: {name}",
            {
                "logfire.msg_template": "OpenAI Agents trace: {name}",
                "name": "Agent workflow",
                "group_id": "s",
            },
        )
        .add("Agent run: {name!r}", {"logfire.msg_template": "Agent run: {name!r}", "name": "a"})
        .add(
            "Responses API",
            {**responses, "raw_input": J(asked), "response": J({"id": "r1", "output": [call]})},
            under=1,
        )
        .add(
            "Function: {name}",
            {
                "logfire.msg_template": "Function: {name}",
                "name": "get_weather",
                "input": J(ARGUMENTS),
                "output": RESULT,
            },
            under=1,
        )
        .add(
            "Responses API",
            {**responses, "raw_input": J(asked), "response": J({"output": [message]})},
            under=1,
        )
    )


def google_adk_1() -> Trace:
    own = "gcp.vertex.agent."
    asked = {"role": "user", "parts": [{"text": QUESTION}]}
    call = {
        "role": "model",
        "parts": [{"function_call": {"id": "c1", "name": "get_weather", "args": ARGUMENTS}}],
    }
    return (
        Trace("gcp.vertex.agent")
        .add("invocation", {})
        .add("invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"})
        .add(
            "call_llm",
            {
                "gen_ai.request.model": "m",
                own + "llm_request": J({"model": "m", "contents": [asked]}),
                own + "llm_response": J({"content": call}),
            },
            under=1,
        )
        .add(
            "execute_tool get_weather",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_weather",
                own + "llm_request": "{}",
                own + "tool_call_args": J(ARGUMENTS),
                own + "tool_response": J({"result": RESULT}),
            },
            under=2,
        )
        .add(
            "call_llm",
            {
                "gen_ai.request.model": "m",
                own + "llm_request": J({"model": "m", "contents": [asked, call]}),
                own + "llm_response": J({"content": {"role": "model", "parts": [{"text": ANSWER}]}}),
            },
            under=1,
        )
    )


def strands_latest() -> Trace:
    details = "gen_ai.client.inference.operation.details"
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "strands-agents",
        "gen_ai.agent.name": "a",
    }
    response = {**P_TOLD["parts"][0], "response": [{"text": RESULT}]}  # type: ignore[dict-item]  # one part
    return (
        Trace("strands.telemetry.tracer")
        .add(
            "invoke_agent a",
            agent,
            events=[
                (details, {"gen_ai.input.messages": J([P_ASK])}),
                (details, {"gen_ai.output.messages": J([P_SAY])}),
            ],
        )
        .add(
            "execute_tool get_weather",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_weather",
                "gen_ai.tool.call.id": "c1",
            },
            events=[
                (details, {"gen_ai.input.messages": J([{**P_CALL, "role": "tool"}])}),
                (details, {"gen_ai.output.messages": J([{"role": "tool", "parts": [response]}])}),
            ],
        )
    )


def vercel_5() -> Trace:
    return (
        Trace("ai")
        .add(
            "ai.streamText",
            {
                "ai.operationId": "ai.streamText",
                "ai.prompt": J({"prompt": QUESTION}),
                "ai.response.text": ANSWER,
            },
        )
        .add(
            "ai.streamText.doStream",
            {
                "ai.operationId": "ai.streamText.doStream",
                "ai.prompt.messages": J([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]),
                "ai.response.toolCalls": J(
                    [{"toolCallId": "c1", "toolName": "get_weather", "input": J(ARGUMENTS)}]
                ),
                "ai.usage.promptTokens": 3.0,
                "ai.usage.completionTokens": 1.0,
            },
        )
        .add(
            "ai.toolCall",
            {
                "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "get_weather",
                "ai.toolCall.id": "c1",
                "ai.toolCall.args": J(ARGUMENTS),
                "ai.toolCall.result": J(RESULT),
            },
        )
    )


def vercel_7() -> Trace:
    trace = genai()
    renamed = Trace("gen_ai").add(
        "invoke_agent m",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": J([P_ASK]),
            "gen_ai.output.messages": J([P_SAY]),
        },
    )
    renamed.add("step 0", {"gen_ai.operation.name": "agent_step"})
    return renamed.add("execute_tool get_weather", trace.spans[2].attributes, under=1)


def langfuse() -> Trace:
    own = "langfuse.observation."
    return (
        Trace("langfuse-sdk")
        .add(
            "a", {own + "type": "agent", own + "input": J({"question": QUESTION}), own + "output": J(ANSWER)}
        )
        .add("llm", {own + "type": "generation", own + "input": J([ASK]), own + "output": J(CALL)})
        .add("get_weather", {own + "type": "tool", own + "input": J(ARGUMENTS), own + "output": J(RESULT)})
    )


def genkit() -> Trace:
    request = {"ref": "c1", "name": "get_weather", "input": ARGUMENTS}
    asked = {"role": "user", "content": [{"text": QUESTION}]}
    return (
        Trace("genkit-tracer")
        .add("flow", {"genkit:type": "flow", "genkit:input": J(QUESTION), "genkit:output": J(ANSWER)})
        .add(
            "m",
            {
                "genkit:metadata:subtype": "model",
                "genkit:input": J({"messages": [asked]}),
                "genkit:output": J({"message": {"role": "model", "content": [{"toolRequest": request}]}}),
            },
        )
        .add(
            "get_weather",
            {
                "genkit:metadata:subtype": "tool",
                "genkit:name": "get_weather",
                "genkit:input": J(ARGUMENTS),
                "genkit:output": J(RESULT),
            },
        )
    )


def haystack_native() -> Trace:
    own = "haystack."
    return (
        Trace("my.app")
        .add("haystack.pipeline.run", {own + "pipeline.input_data": J({"agent": {"x": 1}})})
        .add(
            "haystack.agent.run",
            {
                own + "agent.max_steps": 3,
                own + "agent.input": J({"messages": [{"role": "user", "content": [{"text": QUESTION}]}]}),
                own + "agent.output": J({"messages": [{"role": "assistant", "content": [{"text": ANSWER}]}]}),
            },
        )
        .add(
            "haystack.agent.step.tool",
            {
                own + "tool.name": "get_weather",
                own + "tool.input": J(ARGUMENTS),
                own + "tool.output": J(RESULT),
            },
            under=1,
        )
    )


def google_genai_tool() -> Trace:
    body = {"content": {"role": "user", "parts": [{"text": QUESTION}]}}
    said = {"index": 0, "content": {"role": "model", "parts": [{"text": ANSWER}]}, "finish_reason": "STOP"}
    return (
        Trace("opentelemetry.instrumentation.google_genai")
        .add("app", {})
        .add(
            "generate_content m",
            {"gen_ai.operation.name": "generate_content"},
            logs=[("gen_ai.user.message", body), ("gen_ai.choice", said)],
        )
        .add(
            "execute_tool get_weather",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_weather",
                "code.function.parameters.city.type": "str",
                "code.function.parameters.city.value": "Paris",
                "code.function.return.value": RESULT,
            },
            under=1,
        )
    )


CONVENTIONS = [
    genai,
    genai_legacy_logs,
    genai_event_content,
    genai_content_events,
    openinference,
    haystack_reprs,
    traceloop_indexed,
    traceloop_crewai,
    traceloop_crewai_reprs,
    haystack_pipeline,
    pydantic_ai_v1_events,
    logfire_openai_agents,
    google_adk_1,
    strands_latest,
    vercel_5,
    vercel_7,
    langfuse,
    genkit,
    haystack_native,
    google_genai_tool,
]


def only(trace: Trace) -> Run:
    (run,) = find_runs(trace.spans, DIALECTS)
    return run


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda c: c.__name__)
def test_the_conversation_is_recovered(convention: Any) -> None:
    run = only(convention())
    assert run.input == QUESTION
    assert run.output == ANSWER
    assert run.content == "full"
    (call,) = run.tool_calls
    assert (call.name, call.arguments, call.result) == ("get_weather", ARGUMENTS, RESULT)
    assert call.status in ("ok", "unknown")
    assert run.sources["input"].key
    assert {run.sources["input"].span_id, run.sources["output"].span_id} <= {
        o.span_id for o in run.operations
    }


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda c: c.__name__)
def test_every_convention_names_its_agent_or_none(convention: Any) -> None:
    assert only(convention()).agent_name in ("a", None, "flow", "Agent workflow", "agent.workflow")


def test_masked_values_are_never_content() -> None:
    for mask in ("__REDACTED__", "[REDACTED]", "<redacted>", "***", "[Scrubbed due to 'password']"):
        trace = Trace("openinference.instrumentation.x").add(
            "llm", {"openinference.span.kind": "LLM", "input.value": mask, "output.value": mask}
        )
        run = only(trace)
        assert (run.input, run.output, run.content) == (None, None, "none")
        assert run.availability["input"] == run.availability["output"] == "captured_off"


def test_skeletons_are_captured_off() -> None:
    skeleton = J([{"role": "user", "parts": [{"type": "text"}]}])
    trace = Trace("pydantic-ai").add("agent run", {"agent_name": "a", "pydantic_ai.all_messages": skeleton})
    run = only(trace)
    assert run.input is None
    assert run.availability["input"] == "captured_off"


def test_an_error_of_a_tool_is_told_however_it_was_recorded() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}
    exception = ("exception", {"exception.type": "ValueError", "exception.message": "no such city"})
    logfire = {"logfire.msg_template": "Function: {name}", "name": "t"}
    nested = J({"message": "Error running tool", "data": {"error": "no such city"}})
    for trace in (
        Trace("x").add("t", tool, events=[exception], status="ERROR"),
        Trace("x").add("t", tool, status="ERROR", status_message="no such city"),
        Trace("x").add(
            "t", {**tool, "error.type": "TOOL_ERROR", "gen_ai.tool.call.result": J({"error": "no such city"})}
        ),
        Trace("x").add(
            "t", {**tool, "gen_ai.tool.status": "error", "gen_ai.tool.call.result": "no such city"}
        ),
        Trace("logfire.openai_agents").add("Function: t", {**logfire, "error": nested}),
    ):
        (call,) = only(trace).tool_calls
        assert (call.status, call.error) == ("error", "no such city")


def test_openinference_documents_come_with_id_score_and_metadata() -> None:
    prefix = "retrieval.documents.0.document."
    trace = Trace("openinference.instrumentation.x").add(
        "retrieve",
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "refunds",
            prefix + "content": "30 days",
            prefix + "id": "d1",
            prefix + "score": 0.5,
            prefix + "metadata": '{"source": "a.md"}',
        },
    )
    (document,) = only(trace).documents
    assert (document.content, document.id, document.score, document.query) == (
        "30 days",
        "d1",
        0.5,
        "refunds",
    )
    assert document.metadata == {"source": "a.md"}


def test_a_span_of_two_conventions_is_read_once() -> None:
    both = {**openinference().spans[3].attributes, **genai().spans[3].attributes}
    run = only(Trace("openinference.instrumentation.openai").add("llm", both))
    assert run.output == ANSWER
    assert len(run.operations) == 1
