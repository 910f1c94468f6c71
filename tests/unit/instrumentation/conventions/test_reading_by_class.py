"""Forms that several products share, each with spans of at least two of them and values of our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

J = json.dumps
ASKED, SAID = "Is the lift working?", "It runs again since noon."
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
KIND = "openinference.span.kind"
TRACELOOP = "traceloop.span.kind"
IN, OUT = "traceloop.entity.input", "traceloop.entity.output"
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
TASK, REPORT = J({"lift": 2, "ask": "state"}), J({"lift": 2, "state": "up"})
AGENT = span("agent", {KIND: "AGENT", "input.value": ASKED, "output.value": SAID})


def _call(name: str, arguments: dict[str, Any], call_id: str | None = None) -> dict[str, Any]:
    part = {"type": "tool_call", "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part if call_id is None else {**part, "id": call_id}]}


def _result(result: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "response": result, **more}]}


def _text(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


USED = {"gen_ai.usage.input_tokens": 42, "gen_ai.usage.output_tokens": 11}
ACTION = "Thought: look.\nAction: state"
INVOKE = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "s"}
RESULT = "gen_ai.tool.call.result"
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "state",
    "gen_ai.tool.call.arguments": {"lift": 2},
}
OI_TOOL = {KIND: "TOOL", "tool.name": "state", "input.value": {"lift": 2}}
FORMED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "name": "Report", "args": json.loads(REPORT)}],
}
CONFIRMED = {
    "role": "tool",
    "content": "Returning structured response: lift=2",
    "tool_call_id": "c1",
    "name": "Report",
}


def _answer(text: str) -> dict[str, Any]:
    return {"gen_ai.output.messages": [_text("assistant", text)]}


def _asked_and_said(text: str) -> dict[str, Any]:
    return {"gen_ai.input.messages": [_text("user", ASKED)], **_answer(text)}


def _indexed(*said: str) -> dict[str, str]:
    """Roles and texts of OpenLLMetry's prompt."""
    pairs = zip(said[::2], said[1::2], strict=True)
    keys = (f"gen_ai.prompt.{n}." for n in range(len(said)))
    told = [(key, *pair) for key, pair in zip(keys, pairs, strict=False)]
    return {
        f"{key}{name}": value
        for key, *pair in told
        for name, value in zip(("role", "content"), pair, strict=True)
    }


def _said(text: str) -> dict[str, str]:
    return {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": text}


JSON_TEXTS = [
    case(
        "Agno: a question and an answer that are JSON",
        span("a.agent", {TRACELOOP: "agent", IN: TASK, OUT: REPORT}),
        scope="opentelemetry.instrumentation.agno",
        input=TASK,
        output=REPORT,
    ),
    case(
        "OpenInference: an agent's JSON, with the model's own words inside",
        span("agent", {KIND: "AGENT", "input.value": TASK, "output.value": REPORT}),
        span(
            "llm",
            {
                KIND: "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": TASK,
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": REPORT,
            },
        ),
        input=TASK,
        output=REPORT,
    ),
    case(
        "OpenTelemetry: message events whose content is JSON",
        span(
            "chat",
            CHAT,
            events=[
                ("gen_ai.user.message", {"content": TASK}),
                ("gen_ai.choice", {"index": 0, "message": REPORT}),
            ],
        ),
        input=TASK,
        output=REPORT,
    ),
    case(
        "Langfuse: the state of a chain is no answer where a model gave one",
        span(
            "chain",
            {
                "langfuse.observation.type": "chain",
                "langfuse.observation.input": TASK,
                "langfuse.observation.output": J({"steps": 3}),
            },
        ),
        span(
            "generation",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": J([USER]),
                "langfuse.observation.output": J(ANSWER),
            },
        ),
        **TOLD,
    ),
    case(
        "smolagents: an agent's JSON, whose model thought in words",
        span("CodeAgent.run", {KIND: "AGENT", "input.value": {"task": TASK}, "output.value": REPORT}),
        span("llm", {KIND: "LLM", "input.value": "New task:\n" + TASK, "output.value": "Thought: it is up."}),
        scope="openinference.instrumentation.smolagents",
        input=TASK,
        output=REPORT,
    ),
    case(
        "MLflow: a text of JSON that was written as JSON again",
        span(
            "agent",
            {"mlflow.spanType": J("AGENT"), "mlflow.spanInputs": J(TASK), "mlflow.spanOutputs": J(REPORT)},
        ),
        scope="mlflow",
        input=TASK,
        output=REPORT,
    ),
    case(
        "ADK: an error in JSON is no answer",
        span("agent", {KIND: "AGENT", "input.value": ASKED, "output.value": J({"error_code": "E", "n": 1})}),
        output=None,
    ),
    case(
        "LangGraph: where a router leads is no answer",
        span("graph", {KIND: "CHAIN", "input.value": ASKED}),
        span("llm", {KIND: "LLM", "input.value": ASKED, "output.value": SAID}),
        span("route", {KIND: "CHAIN", "input.value": ASKED, "output.value": "__end__"}),
        scope="openinference.instrumentation.langchain",
        **TOLD,
    ),
    case(
        "OpenInference: an answer that is a list of numbers",
        span("agent", {KIND: "AGENT", "input.value": ASKED, "output.value": "[2, 3]"}),
        input=ASKED,
        output="[2, 3]",
    ),
    case(
        "MLflow: the same",
        span(
            "agent",
            {"mlflow.spanType": J("AGENT"), "mlflow.spanInputs": J(ASKED), "mlflow.spanOutputs": "[2]"},
        ),
        input=ASKED,
        output="[2]",
    ),
]

NAMES = [
    case(
        "LangGraph: the agent's name in the metadata",
        span("LangGraph", {KIND: "CHAIN", "input.value": ASKED, "metadata": {"lc_agent_name": "support"}}),
        span("model", {KIND: "LLM", "input.value": ASKED, "output.value": SAID}),
        scope="@arizeai/openinference-instrumentation-langchain",
        agent="support",
        **TOLD,
    ),
    case(
        "LangGraph: the graph's name, not that of the member who answered",
        span("support", {KIND: "CHAIN", "input.value": ASKED}),
        span("mechanic", {KIND: "AGENT", "input.value": ASKED, "output.value": SAID}),
        scope="openinference.instrumentation.langchain",
        agent="support",
        **TOLD,
    ),
    case(
        "LangGraph: a graph without a name is called after its agent",
        span("LangGraph", {KIND: "CHAIN", "input.value": ASKED}),
        span("mechanic", {KIND: "AGENT", "input.value": ASKED, "output.value": SAID}),
        scope="openinference.instrumentation.langchain",
        agent="mechanic",
        **TOLD,
    ),
    case(
        "Agno: the team's name",
        span("desk.team", {TRACELOOP: "workflow", "agno.team.name": "desk", IN: ASKED, OUT: SAID}),
        span("mechanic.agent", {TRACELOOP: "agent", "gen_ai.agent.name": "mechanic", OUT: SAID}),
        scope="opentelemetry.instrumentation.agno",
        agent="desk",
        **TOLD,
    ),
]


def _ollama(number: int, *messages: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.request.model": "m1"}
    for index, message in enumerate(messages):
        for key, value in message.items():
            keys[f"gen_ai.prompt.{index}.{key}"] = value
    keys |= {f"gen_ai.completion.0.{key}": value for key, value in answer.items()}
    return span(f"ollama.chat {number}", keys)


LIFT = {
    "role": "assistant",
    "tool_calls.0.name": "look",
    "tool_calls.0.arguments": '{"lift": 2}',
}
CONTINUED = [
    case(
        "Ollama: a prompt that extends the one before, whose call of a tool was not recorded",
        span("app", {}),
        _ollama(1, USER, answer={"role": "assistant"}),
        _ollama(2, USER, LIFT, {"role": "tool", "content": "up"}, answer=ANSWER),
        scope="opentelemetry.instrumentation.ollama",
        tools=[("look", {"lift": 2}, "up", "unknown")],
        **TOLD,
    ),
    case(
        "OpenTelemetry: the same without finish reasons",
        span("app", {}),
        span("chat", {**CHAT, "gen_ai.input.messages": [_text("user", ASKED)]}),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_text("user", ASKED), _call("look", {"lift": 2}), _result("up")],
                "gen_ai.output.messages": [_text("assistant", SAID)],
            },
        ),
        tools=[("look", {"lift": 2}, "up", "unknown")],
        **TOLD,
    ),
    case(
        "OpenTelemetry: a new question is a new run",
        span("app", {}),
        span("chat", {**CHAT, "gen_ai.input.messages": [_text("user", "Hello")]}),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_text("user", "Hello"), _result("up"), _text("user", ASKED)],
                "gen_ai.output.messages": [_text("assistant", SAID)],
            },
        ),
        runs=2,
        input=ASKED,
    ),
    case(
        "OpenLLMetry: an observation, which a ReAct agent's user gives, is no question",
        span("app", {}),
        span("openai.chat", {"llm.request.type": "chat", **_indexed("user", ASKED), **_said(ACTION)}),
        span(
            "openai.chat",
            {
                "llm.request.type": "chat",
                **_indexed("user", ASKED, "assistant", ACTION, "user", "Observation: up"),
                **_said(SAID),
            },
        ),
        **TOLD,
    ),
    case(
        "OpenTelemetry: the same",
        span("app", {}),
        span("chat", {**CHAT, "gen_ai.input.messages": [_text("user", ASKED)], **_answer(ACTION)}),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [
                    _text("user", ASKED),
                    _text("assistant", ACTION),
                    _text("user", "Observation: up"),
                ],
                **_answer(SAID),
            },
        ),
        **TOLD,
    ),
]

RESULTS = [
    case(
        "Cohere: results without ids for calls with ids",
        span("app", {}),
        _ollama(
            1,
            USER,
            answer={
                "role": "assistant",
                "tool_calls.0.id": "c1",
                "tool_calls.0.name": "look",
                "tool_calls.0.arguments": '{"lift": 1}',
                "tool_calls.1.id": "c2",
                "tool_calls.1.name": "look",
                "tool_calls.1.arguments": '{"lift": 2}',
            },
        ),
        _ollama(
            2,
            USER,
            {"role": "assistant"},
            {"role": "tool", "content": "down"},
            {"role": "tool", "content": "up"},
            answer=ANSWER,
        ),
        scope="opentelemetry.instrumentation.cohere",
        tools=[("look", {"lift": 1}, "down", "ok"), ("look", {"lift": 2}, "up", "ok")],
        **TOLD,
    ),
    case(
        "OpenTelemetry: a result with an id for a call without one, that names the tool",
        span(
            "agent",
            {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": [_text("user", ASKED)]},
        ),
        span("chat", {**CHAT, "gen_ai.output.messages": [_call("look", {"lift": 2})]}),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_text("user", ASKED), _result("up", id="c1", name="look")],
                "gen_ai.output.messages": [_text("assistant", SAID)],
            },
        ),
        tools=[("look", {"lift": 2}, "up", "unknown")],
        **TOLD,
    ),
    case(
        "OpenInference: a result with an id for a call without one, that does not name the tool",
        AGENT,
        span("llm", {KIND: "LLM", "gen_ai.output.messages": [_call("look", {"lift": 2})]}),
        span("llm", {KIND: "LLM", "gen_ai.input.messages": [_text("user", ASKED), _result("up", id="c1")]}),
        tools=[("look", {"lift": 2}, "up", "ok")],
        **TOLD,
    ),
]

MCP = "meta=None content=[TextContent(type='text', text='up', annotations=None)] isError=False"
AGNO = "images=None videos=None audios=None files=None"


def _agno(result: str, error: str = "None", status: str = "success") -> dict[str, Any]:
    told = f"status='{status}' result={result} error={error} updated_session_state=None {AGNO}"
    return {TRACELOOP: "tool", "gen_ai.tool.name": "look", OUT: told}


WRAPPED = [
    case(
        "BeeAI: arguments with options beside them, and a result as its repr",
        AGENT,
        span(
            "look",
            {
                KIND: "TOOL",
                "tool.name": "look",
                "metadata.class_name": "FunctionTool",
                "input.value": {"input": {"lift": 2}, "options": None},
                "output.value": "{'state': 'up', 'since': ['noon']}",
            },
        ),
        scope="openinference.instrumentation.beeai",
        tools=[("look", {"lift": 2}, {"state": "up", "since": ["noon"]}, "ok")],
        **TOLD,
    ),
    case(
        "Agno: a result in the representation of its execution; no input is no arguments",
        span("a.agent", {TRACELOOP: "agent", IN: ASKED, OUT: SAID}),
        span("look.tool", _agno("{'state': 'up', 'told': \"Ana's\"}")),
        scope="opentelemetry.instrumentation.agno",
        tools=[("look", {}, {"state": "up", "told": "Ana's"}, "ok")],
        **TOLD,
    ),
    case(
        "Agno: an execution that failed",
        span("a.agent", {TRACELOOP: "agent", IN: ASKED, OUT: SAID}),
        span("look.tool", {**_agno("None", "'no such lift'", "failure"), IN: {"lift": 9}}),
        scope="opentelemetry.instrumentation.agno",
        tools=[("look", {"lift": 9}, "no such lift", "error")],
        **TOLD,
    ),
    case(
        "Strands: a result in its type",
        AGENT,
        span("tool", {"gen_ai.tool.name": "look", "gen_ai.tool.call.result": [{"json": {"state": "up"}}]}),
        tools=[("look", None, {"state": "up"}, "ok")],
        **TOLD,
    ),
    case(
        "MCP: a result as its repr",
        AGENT,
        span(
            "look",
            {
                KIND: "TOOL",
                "tool.name": "look",
                "output.value": MCP,
            },
        ),
        tools=[("look", None, "up", "ok")],
        **TOLD,
    ),
    case(
        "Strands: a result with its status, under OpenTelemetry's name",
        AGENT,
        span("execute_tool state", {**TOOL, RESULT: {"status": "success", "content": [{"text": "up"}]}}),
        tools=[("state", {"lift": 2}, "up", "ok")],
    ),
    case(
        "Bedrock: a result that says that it failed",
        AGENT,
        span("state", {**OI_TOOL, "output.value": {"status": "error", "content": [{"json": {"code": 7}}]}}),
        tools=[("state", {"lift": 2}, {"code": 7}, "error")],
    ),
    case(
        "LangChain: a message as the result, under OpenTelemetry's name",
        AGENT,
        span("execute_tool state", {**TOOL, RESULT: "content='up' name='state' tool_call_id='c1'"}),
        tools=[("state", {"lift": 2}, "up", "ok")],
    ),
]

FINAL = {KIND: "TOOL", "tool.name": "final_answer", "input.value": {"response": SAID}, "output.value": "sent"}
PSEUDO = [
    case(
        "BeeAI: the tool by which an agent answers, and the events of its spans",
        AGENT,
        span(
            "llm", {KIND: "LLM", "gen_ai.output.messages": [_call("final_answer", {"response": SAID}, "c1")]}
        ),
        span("final_answer", {**FINAL, "metadata.class_name": "FinalAnswerTool"}),
        span(
            "error", {KIND: "TOOL", "metadata.path": "tool.custom.look.error", "input.value": {"error": "e"}}
        ),
        scope="openinference.instrumentation.beeai",
        tools=[],
        **TOLD,
    ),
    case(
        "Pydantic AI: the tool by which an agent returns an object",
        span(
            "agent run",
            {"agent_name": "a", "final_result": SAID, "pydantic_ai.all_messages": [_text("user", ASKED)]},
        ),
        span("chat", {**CHAT, "gen_ai.output.messages": [_call("final_result", {"state": "up"}, "c1")]}),
        scope="pydantic-ai",
        tools=[],
        **TOLD,
    ),
    case(
        "Agno: a task that a team passes on",
        span("desk.team", {TRACELOOP: "workflow", "agno.team.name": "desk", IN: ASKED, OUT: SAID}),
        span(
            "delegate.tool", {TRACELOOP: "tool", "gen_ai.tool.name": "delegate_task_to_member", IN: {"a": 1}}
        ),
        span("a.agent", {TRACELOOP: "agent", "gen_ai.agent.name": "a", OUT: SAID}),
        scope="opentelemetry.instrumentation.agno",
        tools=[],
        **TOLD,
    ),
    case(
        "BeeAI: what an agent raised is no answer",
        span(
            "agent",
            {KIND: "AGENT", "input.value": ASKED, "output.value": "ModelError(models): Tool Error"},
            status="ERROR",
            events=[
                ("exception", {"exception.type": "models.ModelError", "exception.message": "Tool Error"})
            ],
        ),
        input=ASKED,
        output=None,
        error="Tool Error",
    ),
    case(
        "OpenLLMetry: nor is the message of what a model raised",
        span(
            "a.agent",
            {TRACELOOP: "agent", IN: ASKED, OUT: "quota exceeded"},
            status="ERROR",
            status_message="quota exceeded",
        ),
        scope="traceloop.sdk",
        output=None,
        error="quota exceeded",
    ),
    case(
        "Pydantic AI: the tool of one of several types",
        span("agent run", {**INVOKE, **_asked_and_said(REPORT)}),
        span("chat", {**CHAT, "gen_ai.output.messages": [_call("final_result_Report", {"lift": 2}, "c1")]}),
        tools=[],
    ),
    case(
        "LangChain: a tool named after the form of the answer",
        span("LangGraph", {KIND: "CHAIN", "input.value": J({"messages": [USER]})}),
        span(
            "model",
            {
                KIND: "LLM",
                "input.value": J({"messages": [USER]}),
                "output.value": J({"messages": [FORMED, CONFIRMED]}),
            },
        ),
        scope="openinference.instrumentation.langchain",
        tools=[],
        output=REPORT,
    ),
    case(
        "Strands: the same",
        span("invoke_agent s", {**INVOKE, "gen_ai.input.messages": [_text("user", ASKED)]}),
        span("chat", {**CHAT, "gen_ai.output.messages": [_call("Report", json.loads(REPORT), "c1")]}),
        span(
            "execute_tool Report",
            {
                **TOOL,
                "gen_ai.tool.name": "Report",
                "gen_ai.tool.call.id": "c1",
                RESULT: "Successfully validated Report structured output",
            },
        ),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [
                    _text("user", ASKED),
                    _call("Report", json.loads(REPORT), "c1"),
                    _result("Successfully validated Report structured output", id="c1"),
                ],
                "gen_ai.output.messages": [],
            },
        ),
        tools=[],
        output=REPORT,
    ),
]


def _generic(kind: str, **more: str) -> dict[str, str]:
    return {"type": "generic", "generic_type": kind, **more}


CALL_THEN_TEXT = [{"function_call": {"name": "look", "args": {"lift": 2}}}, {"text": SAID}]
PARTS = [
    case(
        "Gemini: the text after a call is the answer",
        span(
            "llm",
            {
                KIND: "LLM",
                "input.value": {"contents": [{"role": "user", "parts": [{"text": ASKED}]}]},
                "output.value": {
                    "candidates": [
                        {"content": {"role": "model", "parts": CALL_THEN_TEXT}, "finish_reason": "STOP"}
                    ]
                },
            },
        ),
        tools=[("look", {"lift": 2}, None, "unknown")],
        **TOLD,
    ),
    case(
        "ADK: the same",
        span(
            "call_llm",
            {
                "gcp.vertex.agent.llm_request": {"contents": [{"role": "user", "parts": [{"text": ASKED}]}]},
                "gcp.vertex.agent.llm_response": {"content": {"role": "model", "parts": CALL_THEN_TEXT}},
            },
        ),
        scope="gcp.vertex.agent",
        **TOLD,
    ),
    case(
        "Anthropic: no text is the answer of a response that ends for tools",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.response.finish_reasons": ["tool_use"],
                "gen_ai.output.messages": [
                    {
                        "role": "assistant",
                        "parts": [
                            {"type": "tool_call", "name": "look", "id": "c1"},
                            {"type": "text", "content": "One moment."},
                        ],
                    }
                ],
            },
        ),
        output=None,
    ),
    case(
        "OpenLLMetry: the text next to an image without a type",
        span(
            "chat",
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": J([{"image": {"format": "png"}}, {"text": ASKED}]),
                "gen_ai.completion.0.content": SAID,
            },
        ),
        **TOLD,
    ),
    case(
        "OpenLLMetry: the text next to audio of an unknown type",
        span(
            "chat",
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": J(
                    [{"type": "audio_url", "url": "u"}, {"type": "text", "text": ASKED}]
                ),
                "gen_ai.completion.0.content": SAID,
            },
        ),
        **TOLD,
    ),
    case(
        "OpenTelemetry: the text next to a generic part, and a generic text",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [
                    {
                        "role": "user",
                        "parts": [{"type": "generic", "generic_type": "map"}, *_text("", ASKED)["parts"]],
                    }
                ],
                "gen_ai.output.messages": [
                    {
                        "role": "assistant",
                        "parts": [{"type": "generic", "generic_type": "text", "content": SAID}],
                    }
                ],
            },
        ),
        **TOLD,
    ),
    case(
        "OpenTelemetry: a call that a stream repeats",
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.output.messages": [
                    _call("look", {"lift": 2}),
                    _call("look", {"lift": 2}),
                    _call("look", {"lift": 3}),
                ],
            },
        ),
        tools=[("look", {"lift": 2}, None, "unknown"), ("look", {"lift": 3}, None, "unknown")],
    ),
]

DETAILS = {
    **CHAT,
    "gen_ai.input.messages": [_text("user", ASKED)],
    "gen_ai.output.messages": [_text("assistant", SAID)],
}
SMALL = [
    case(
        "OpenInference: the model of a call that failed",
        span(
            "llm",
            {KIND: "LLM", "input.value": ASKED, "llm.invocation_parameters": {"model": "m1"}},
            status="ERROR",
        ),
        models=["m1"],
    ),
    case(
        "LangChain: the same under its own name",
        span("llm", {KIND: "LLM", "input.value": ASKED, "llm.invocation_parameters": {"model_name": "m1"}}),
        scope="openinference.instrumentation.langchain",
        models=["m1"],
    ),
    case(
        "Flue: a workflow with nothing inside",
        span(
            "flue.workflow lifts",
            {
                "flue.workflow.name": "lifts",
                "flue.workflow.payload": {"text": ASKED},
                "flue.workflow.result": SAID,
            },
        ),
        scope="@flue/opentelemetry",
        **TOLD,
    ),
    case(
        "VoltAgent: a tool's plain input and output",
        span("agent", {"entity.type": "agent", "entity.name": "clerk", "input": ASKED, "output": SAID}),
        span(
            "tool.execution:look",
            {"span.type": "tool", "tool.name": "look", "input": {"lift": 2}, "output": {"state": "up"}},
        ),
        scope="@voltagent/core",
        tools=[("look", {"lift": 2}, {"state": "up"}, "ok")],
        **TOLD,
    ),
    case(
        "OpenTelemetry: a log record with the details of a call, on a server's span",
        span(
            "POST /chat",
            {"http.request.method": "POST"},
            logs=[("gen_ai.client.inference.operation.details", DETAILS, None)],
        ),
        scope="opentelemetry.instrumentation.fastapi",
        models=["m1"],
        **TOLD,
    ),
    case(
        "Strands: an event with them, on an application's span",
        span("handle", {}, events=[("gen_ai.client.inference.operation.details", DETAILS)]),
        models=["m1"],
        **TOLD,
    ),
]


def _chunk(index: int, *parts: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any], Any]:
    body = {"index": index, "content": {"role": "model", "parts": list(parts)}}
    return "gen_ai.choice", {}, body if finish is None else {**body, "finish_reason": finish}


GEMINI = "opentelemetry.instrumentation.google_genai"
QUESTION_LOG = ("gen_ai.user.message", {}, {"content": {"role": "user", "parts": [{"text": ASKED}]}})
CHUNKS = [
    case(
        "Gemini: a streamed answer is an event for each chunk",
        span(
            "g",
            CHAT,
            logs=[QUESTION_LOG, _chunk(0, {"text": SAID[:5]}), _chunk(1, {"text": SAID[5:]}, finish="STOP")],
        ),
        scope=GEMINI,
        **TOLD,
    ),
    case(
        "Gemini: thoughts come first, and unfinished chunks may say so",
        span(
            "g",
            CHAT,
            logs=[
                QUESTION_LOG,
                _chunk(0, {"text": "Look.", "thought": True}, finish="FINISH_REASON_UNSPECIFIED"),
                _chunk(1, {"text": SAID[:5]}, finish="FINISH_REASON_UNSPECIFIED"),
                _chunk(2, {"text": SAID[5:]}, finish="STOP"),
            ],
        ),
        scope=GEMINI,
        **TOLD,
    ),
    case(
        "OpenTelemetry: chunks in span events",
        span(
            "chat",
            CHAT,
            events=[
                ("gen_ai.user.message", {"content": ASKED}),
                ("gen_ai.choice", {"index": 0, "message": J({"content": SAID[:5]})}),
                ("gen_ai.choice", {"index": 0, "message": J({"content": SAID[5:]}), "finish_reason": "stop"}),
            ],
        ),
        **TOLD,
    ),
    case(
        "Gemini: of several finished candidates, the first is the answer",
        span(
            "g",
            CHAT,
            logs=[
                QUESTION_LOG,
                _chunk(0, {"text": SAID}, finish="STOP"),
                _chunk(1, {"text": "No."}, finish="STOP"),
            ],
        ),
        scope=GEMINI,
        **TOLD,
    ),
]

DIFY = {"result": [{"title": "Lifts", "content": "Lift 2 runs.", "metadata": {"score": 0.9}}]}
DOCUMENTS = [
    case(
        "Dify: documents are a node's result, through Phoenix",
        span(
            "workflow", {KIND: "CHAIN", "input.value": {"sys.query": ASKED}, "output.value": {"answer": SAID}}
        ),
        span(
            "knowledge-retrieval", {KIND: "RETRIEVER", "input.value": {"query": ASKED}, "output.value": DIFY}
        ),
        documents=["Lift 2 runs."],
        **TOLD,
    ),
    case(
        "Langfuse: the same",
        span("agent", {"langfuse.observation.type": "agent", "langfuse.observation.output": SAID}),
        span("search", {"langfuse.observation.type": "retriever", "langfuse.observation.output": DIFY}),
        documents=["Lift 2 runs."],
    ),
]

TWO_LIBRARIES = [
    case(
        f"{name}: two libraries tell one streamed call",
        span("app", {}),
        span("chat m1", {**CHAT, **USED, **_asked_and_said(SAID)}, start_time=9, end_time=51, scope=one),
        span("other", attributes, start_time=10, end_time=50, scope=other),
        usage=(42, 11),
        **TOLD,
    )
    for name, one, other, attributes in (
        (
            "OpenInference",
            "opentelemetry.instrumentation.openai_v2",
            "openinference.instrumentation.openai",
            {
                KIND: "LLM",
                "llm.token_count.prompt": 42,
                "llm.token_count.completion": 11,
                "input.value": J({"messages": [USER]}),
                "output.value": J({"choices": [{"message": ANSWER}]}),
            },
        ),
        ("OpenLIT", "com.openai.sdk", "openlit", {**CHAT, **USED, **_asked_and_said(SAID)}),
    )
]
EVERY = [
    *TWO_LIBRARIES,
    *JSON_TEXTS,
    *NAMES,
    *CONTINUED,
    *RESULTS,
    *WRAPPED,
    *PSEUDO,
    *PARTS,
    *SMALL,
    *CHUNKS,
    *DOCUMENTS,
]


@pytest.mark.parametrize("told", EVERY, ids=lambda told: told.name)
def test_it_is_read(told: Case) -> None:
    assert list(missed(told)) == []
