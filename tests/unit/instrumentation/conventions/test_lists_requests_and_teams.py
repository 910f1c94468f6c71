"""Messages in indexed keys, whole requests, confirmed forms, and the names of teams, by convention."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

J = json.dumps
KIND = "openinference.span.kind"
RULES, ASKED, SAID = "You rent out boats.", "Is the red boat free?", "The red one is."
LOOK = {"boat": "red"}
INVOKE = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
OF_LANGCHAIN = "@arizeai/openinference-instrumentation-langchain"


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _indexed(prefix: str, *messages: dict[str, str]) -> dict[str, str]:
    """Attributes of messages in indexed keys."""
    named = enumerate(messages)
    return {f"{prefix}.{n}.message.{key}": value for n, each in named for key, value in each.items()}


def _lc(kind: str, **kwargs: Any) -> dict[str, Any]:
    """A message of LangChain.js, serialised."""
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", kind], "kwargs": kwargs}


_GIVEN = ({"role": "system", "content": RULES}, {"role": "user", "content": ASKED})
_CALL = "tool_calls.0.tool_call."
_ASKS = {
    "role": "assistant",
    _CALL + "id": "c1",
    _CALL + "function.name": "look",
    _CALL + "function.arguments": J(LOOK),
}
_GAVE = {"role": "tool", "tool_call_id": "c1", "content": J({"free": True})}
LISTS = [
    case(
        "traceAI: messages in indexed keys under OpenTelemetry's name, next to the first one's text",
        span("app", {}),
        span(
            "ChatCompletion",
            {
                "gen_ai.span.kind": "LLM",
                "input.value": RULES,
                "output.value": SAID,
                "gen_ai.request.parameters": {"model": "m1"},
                **_indexed("gen_ai.input.messages", *_GIVEN, _ASKS, _GAVE),
                **_indexed("gen_ai.output.messages", {"role": "assistant", "content": SAID}),
            },
        ),
        system=RULES,
        input=ASKED,
        output=SAID,
        models=["m1"],
        tools=[("look", LOOK, {"free": True}, "unknown")],
    ),
    case(
        "an application: the same without a kind",
        span("ask", {**CHAT, "input.value": "asked", **_indexed("gen_ai.input.messages", *_GIVEN)}),
        system=RULES,
        input=ASKED,
    ),
]

REQUESTS = [
    case(
        "LangChain.js through OpenInference: a message without its content, which is a list in the request",
        span(
            "ChatOpenAI",
            {
                KIND: "LLM",
                "input.value": {
                    "messages": [
                        [
                            _lc("SystemMessage", content=[{"type": "text", "text": RULES}]),
                            _lc("HumanMessage", content=ASKED),
                        ]
                    ]
                },
                **_indexed("llm.input_messages", {"role": "system"}, _GIVEN[1]),
            },
        ),
        system=RULES,
        input=ASKED,
    ),
    case(
        "Anthropic's SDK through OpenInference: instructions next to the messages",
        span(
            "Anthropic Messages",
            {
                KIND: "LLM",
                "input.value": {"system": RULES, "messages": [_GIVEN[1]]},
                **_indexed("llm.input_messages", _GIVEN[1]),
            },
        ),
        system=RULES,
        input=ASKED,
    ),
    case(
        "ADK for TypeScript: the same inside the request's configuration",
        span(
            "call_llm",
            {
                "gcp.vertex.agent.llm_request": {
                    "contents": [{"role": "user", "parts": [{"text": ASKED}]}],
                    "config": {"systemInstruction": RULES},
                },
                "gcp.vertex.agent.llm_response": {
                    "content": {"parts": [{"text": SAID}], "role": "model"},
                    "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4},
                },
                "gen_ai.usage.input_tokens": 9,
            },
            scope="gcp.vertex.agent",
        ),
        system=RULES,
        input=ASKED,
        output=SAID,
        cached=4,
    ),
    case(
        "Langfuse for JavaScript: instructions of the Responses API in the metadata",
        span(
            "OpenAI.responses",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": ASKED,
                "langfuse.observation.metadata.instructions": RULES,
            },
        ),
        system=RULES,
        input=ASKED,
    ),
    case(
        "Traceloop for JavaScript: a text that is JSON of typed parts",
        span(
            "chat m1",
            {**CHAT, "gen_ai.input.messages": [_said("user", J([{"type": "text", "text": ASKED}]))]},
        ),
        input=ASKED,
    ),
    case(
        "Splunk: the same as Python's repr of one part",
        span(
            "chat m1",
            {**CHAT, "gen_ai.input.messages": [_said("user", str({"type": "input_text", "text": ASKED}))]},
        ),
        input=ASKED,
    ),
    case(
        "OpenTelemetry: a question that is a list of other objects stays a text",
        span(
            "chat m1", {**CHAT, "gen_ai.input.messages": [_said("user", J([{"type": "boat", "text": "x"}]))]}
        ),
        input=J([{"type": "boat", "text": "x"}]),
    ),
    case(
        "Genkit: the instruction to answer in a form is not the user's",
        span(
            "desk/m1",
            {
                "genkit:type": "action",
                "genkit:metadata:subtype": "model",
                "genkit:input": {
                    "messages": [
                        {
                            "role": "user",
                            "content": [
                                {"text": ASKED},
                                {"text": "Answer in JSON.", "metadata": {"purpose": "output"}},
                            ],
                        }
                    ]
                },
            },
        ),
        input=ASKED,
    ),
]

FORM = {"boat": "red", "day": "friday"}
CONFIRMED = "Returning structured response: boat='red' day='friday'"
_FORM_CALL = {"type": "tool_call", "id": "c1", "name": "Booking", "arguments": FORM}
FORMS = [
    case(
        "LoongSuite: an answer that confirms the form's call, recorded without the tool's message",
        span(
            "invoke_agent clerk",
            {
                **INVOKE,
                "gen_ai.span.kind": "AGENT",
                "gen_ai.output.messages": [_said("assistant", CONFIRMED)],
            },
        ),
        span(
            "chat m1",
            {
                **CHAT,
                "gen_ai.span.kind": "LLM",
                "gen_ai.input.messages": [_said("user", ASKED)],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [_FORM_CALL]}],
            },
        ),
        input=ASKED,
        output=J(FORM),
        tools=[],
    ),
]

SDK = "com.anthropic.sdk.python"
_CACHED = {"gen_ai.usage.cache_read.input_tokens": 16, "gen_ai.usage.output_tokens": 7}
TWINS = [
    case(
        f"{library}: one call in two spans, one of which counts cached tokens apart",
        span("app", {}),
        span(
            "chat",
            {**CHAT, "gen_ai.usage.input_tokens": 84, "gen_ai.usage.output_tokens": 7},
            scope=library,
            start_time=10,
            end_time=90,
        ),
        span(
            "messages.create",
            {"gen_ai.response.id": "m1", "gen_ai.usage.input_tokens": 100, **_CACHED},
            scope=SDK,
            start_time=20,
            end_time=80,
        ),
        usage=(100, 7),
        cached=16,
    )
    for library in ("langtrace_python_sdk.instrumentation.anthropic", "openlit.otel.tracing")
]


def _in_graph(node: str, around: str = "") -> str:
    namespace = f"{around}:1f|{node}:2a" if around else f"{node}:2a"
    return J({"langgraph_node": node, "langgraph_checkpoint_ns": namespace})


def _node(name: str, kind: str, metadata: str, above: int, **more: Any) -> dict[str, Any]:
    return span(name, {KIND: kind, "metadata": metadata, **more}, above, scope=OF_LANGCHAIN)


_TOOL_OUTPUT = {"output": {"type": "tool", "data": {"content": "free", "tool_call_id": "c1"}}}
_OUT, STEP = "traceloop.entity.output", {"traceloop.span.kind": "task"}
_OF_GRAPH = "langfuse.observation.metadata.langgraph_checkpoint_ns"
TEAMS = [
    case(
        "OpenInference: a graph without a name has its first agent's; routers and tools are no agents",
        span("LangGraph", {KIND: "CHAIN", "input.value": {"messages": [_GIVEN[1]]}}, scope=OF_LANGCHAIN),
        _node("route_to_agent", "AGENT", _in_graph("__start__"), 0, **{"output.value": "greeter"}),
        _node("greeter", "CHAIN", _in_graph("greeter"), 0),
        _node("ChatOpenAI", "LLM", _in_graph("model", "greeter"), 2),
        _node("ask_agent", "AGENT", _in_graph("tools", "greeter"), 2, **{"tool.name": "ask_agent"}),
        _node("boat_agent", "AGENT", _in_graph("boat_agent"), 0),
        agent="greeter",
        input=ASKED,
        tools=[("ask_agent", None, None, "unknown")],
    ),
    case(
        "Langfuse: the same",
        span(
            "LangGraph", {"langfuse.observation.type": "span", "langfuse.observation.input": J([_GIVEN[1]])}
        ),
        span("ChatOpenAI", {"langfuse.observation.type": "generation", _OF_GRAPH: "greeter:1f|model:2a"}),
        agent="greeter",
    ),
    case(
        "Langfuse: a graph with a name",
        span(
            "front",
            {
                "langfuse.observation.type": "span",
                "langfuse.observation.input": J([_GIVEN[1]]),
                "langfuse.observation.metadata.ls_integration": "langgraph",
            },
        ),
        span("ChatOpenAI", {"langfuse.observation.type": "generation", _OF_GRAPH: "greeter:1f|model:2a"}),
        agent="front",
    ),
    case(
        "OpenLLMetry: a graph without a name",
        span("invoke_agent LangGraph", {**INVOKE, "gen_ai.agent.name": "LangGraph"}),
        span("invoke_agent clerk", INVOKE),
        agent="clerk",
    ),
    case(
        "Langfuse: the agent of LangChain.js",
        span(
            "desk",
            {
                "langfuse.observation.type": "span",
                "langfuse.observation.input": J([_GIVEN[1]]),
                "langfuse.observation.metadata.lc_agent_name": "clerk",
            },
        ),
        span("ChatOpenAI", {"langfuse.observation.type": "generation"}),
        agent="clerk",
    ),
    case(
        "OpenAI Agents for JavaScript: the span of a handover repeats the model's call",
        span("greeter", {KIND: "AGENT", "graph.node.id": "greeter"}),
        span(
            "response",
            {
                KIND: "LLM",
                **_indexed("llm.input_messages", _GIVEN[1]),
                **_indexed("llm.output_messages", {**_ASKS, _CALL + "function.name": "transfer_to_boats"}),
            },
        ),
        span("handoff to boats", {KIND: "TOOL", "tool.name": "handoff_to_boats"}),
        tools=[("transfer_to_boats", LOOK, None, "pending")],
    ),
    case(
        "OpenLLMetry: a run of OpenAI Agents inside a tool has its span next to the agent's",
        span(
            "Agent Workflow",
            {"traceloop.span.kind": "workflow"},
            scope="opentelemetry.instrumentation.openai_agents",
        ),
        span(
            "boss.agent",
            {
                **INVOKE,
                "gen_ai.agent.name": "boss",
                "gen_ai.input.messages": [_said("user", "Have somebody look.")],
                "gen_ai.output.messages": [_said("assistant", "It is free.")],
            },
            end_time=100,
        ),
        span(
            "ask_clerk.tool",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "ask",
                "gen_ai.tool.call.result": SAID,
            },
            1,
            end_time=80,
        ),
        span(
            "clerk.agent",
            {
                **INVOKE,
                "gen_ai.input.messages": [_said("user", ASKED)],
                "gen_ai.output.messages": [_said("assistant", SAID)],
            },
            end_time=70,
        ),
        agent="boss",
        output="It is free.",
        tools=[("ask", None, SAID, "ok")],
    ),
    case(
        "LlamaIndex through OpenLLMetry: a workflow is named after its first agent, not the last",
        span(
            "AgentWorkflow.workflow",
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": {"user_msg": ASKED},
                _OUT: {"result": {"response": {"content": SAID}, "current_agent_name": "clerk"}},
            },
        ),
        span("AgentWorkflow.task", {**STEP, _OUT: {"input": [_GIVEN[1]], "current_agent_name": "front"}}),
        span("AgentWorkflow.task", {**STEP, _OUT: {"input": [_GIVEN[1]], "current_agent_name": "clerk"}}),
        scope="opentelemetry.instrumentation.llamaindex",
        agent="front",
    ),
    case(
        "Traceloop for JavaScript: the tool's name is in its message",
        span("desk.workflow", {"traceloop.span.kind": "workflow"}),
        span(
            "execute_tool DynamicStructuredTool",
            {
                "gen_ai.operation.name": "execute_tool",
                "traceloop.span.kind": "task",
                "traceloop.entity.name": "DynamicStructuredTool",
                "traceloop.entity.input": {"args": [J(LOOK)]},
                "traceloop.entity.output": _lc("ToolMessage", content="free", tool_call_id="c1", name="look"),
            },
        ),
        tools=[("look", LOOK, "free", "ok")],
    ),
]
_MS = 1_000_000
_SENTENCE = _said("assistant", "Let me look.")
CLOCKS = [
    case(
        f"{product}: a start that is rounded down to the millisecond before the last call's end",
        span("app", {}, end_time=9 * _MS),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_said("user", ASKED)],
                "gen_ai.output.messages": [_SENTENCE],
                "gen_ai.response.finish_reasons": ["tool_calls"],
            },
            scope=scope,
            start_time=_MS,
            end_time=3 * _MS + 33_000,
        ),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_said("user", ASKED), _SENTENCE],
                "gen_ai.output.messages": [_said("assistant", SAID)],
            },
            scope=scope,
            start_time=3 * _MS,
            end_time=5 * _MS,
        ),
        output=SAID,
    )
    for product, scope in (
        ("Traceloop for JavaScript", "@traceloop/instrumentation-openai"),
        ("OpenTelemetry for JavaScript", "@opentelemetry/instrumentation-openai"),
    )
]
PLAIN = [
    case(
        "Strands through OpenInference: a swarm's question is its plain input",
        span(
            "invoke_swarm",
            {
                KIND: "CHAIN",
                "input.value": ASKED,
                "input.mime_type": "text/plain",
                **_indexed("llm.input_messages", _GIVEN[1]),
            },
            scope="strands.telemetry.tracer",
        ),
        *(
            span(
                f"invoke_agent {name}",
                {
                    **INVOKE,
                    "gen_ai.agent.name": name,
                    KIND: "AGENT",
                    "input.value": f"{text}: {ASKED}",
                    "input.mime_type": "text/plain",
                    **_indexed("llm.input_messages", {"role": "user", "content": f"{text}: {ASKED}"}),
                    **_indexed("llm.output_messages", {"role": "assistant", "content": said}),
                },
                scope="strands.telemetry.tracer",
            )
            for name, text, said in (
                ("greeter", "Others: clerk", "One moment."),
                ("clerk", "From: greeter", SAID),
            )
        ),
        input=ASKED,
        output=SAID,
        agent="greeter",
    ),
    case(
        "CrewAI through OpenInference: the question is the only task",
        span(
            "boats.kickoff",
            {
                KIND: "CHAIN",
                "crew_inputs": "",
                "crew_tasks": J([{"description": ASKED, "expected_output": "-"}]),
            },
        ),
        span(
            "ChatCompletion",
            {KIND: "LLM", **_indexed("llm.input_messages", {"role": "user", "content": f"Task: {ASKED}"})},
        ),
        input=ASKED,
    ),
]


def _agent(name: str, question: str, answer: str, **more: Any) -> dict[str, Any]:
    messages = {"input": ("user", question), "output": ("assistant", answer)}
    said = {f"gen_ai.{side}.messages": [_said(*each)] for side, each in messages.items() if each[1]}
    return span(f"{name}.run", {**INVOKE, "gen_ai.agent.name": name, **said}, **more)


def _agno(name: str, question: str, answer: str, **more: Any) -> dict[str, Any]:
    attributes = {KIND: "AGENT", "agno.agent": name, "input.value": question, "output.value": answer}
    return span(f"{name}.run", attributes, scope="openinference.instrumentation.agno", **more)


LEAKS = [
    case(
        f"{product}: an agent that starts after another, still the current span, has answered",
        agent("front", "Hello?", "Good morning.", end_time=90),
        agent("clerk", ASKED, SAID, start_time=95, end_time=99),
        runs=2,
        agent="clerk",
        input=ASKED,
        output=SAID,
    )
    for product, agent in (("OpenTelemetry", _agent), ("Agno through OpenInference", _agno))
]
LEAKS.append(
    case(
        "OpenLIT: the span of a streamed team ends before its members start",
        _agent("front", ASKED, "", end_time=90),
        _agent("clerk", ASKED, SAID, start_time=95, end_time=99),
        agent="front",
        output=SAID,
    )
)
MADE_UP = [
    case(
        f"{product}: ids in messages that were made up for a model without ids are not those of the spans",
        span("agent", {**INVOKE, "gen_ai.output.messages": [_said("assistant", SAID)]}),
        span(
            "generate_content m1",
            {
                **CHAT,
                "gen_ai.output.messages": [
                    {
                        "role": "assistant",
                        "parts": [
                            {"type": "tool_call", "id": f"look_{n}", "name": "look", "arguments": each}
                            for n, each in enumerate((LOOK, {"boat": "blue"}))
                        ],
                    }
                ],
            },
            scope=scope,
        ),
        *(
            span(
                "execute_tool look",
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "look",
                    "gen_ai.tool.call.id": f"adk-{n}",
                },
                scope=scope,
            )
            for n in range(2)
        ),
        tools=[("look", LOOK, None, "unknown"), ("look", {"boat": "blue"}, None, "unknown")],
    )
    for product, scope in (("Google ADK", "gcp.vertex.agent"), ("OpenTelemetry", "opentelemetry.util.genai"))
]
_BARE = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look"}]}
STREAMED = [
    case(
        "OpenTelemetry: the arguments of a streamed call are in the next request only, without its id",
        span("app", {}),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [_said("user", ASKED)],
                "gen_ai.output.messages": [_BARE],
                "gen_ai.response.finish_reasons": ["tool_calls"],
            },
        ),
        span(
            "chat",
            {
                **CHAT,
                "gen_ai.input.messages": [
                    _said("user", ASKED),
                    {
                        "role": "assistant",
                        "parts": [{"type": "tool_call", "name": "look", "arguments": LOOK}],
                    },
                    {"role": "tool", "parts": [{"type": "tool_call_response", "response": "free"}]},
                ],
                "gen_ai.output.messages": [_said("assistant", SAID)],
            },
        ),
        output=SAID,
        tools=[("look", LOOK, "free", "unknown")],
    )
]
USAGE = [
    case(
        "AG2: a span that repeats the tokens of a call is no call",
        span("agent", INVOKE),
        span("chat", {**CHAT, "gen_ai.usage.input_tokens": 9, "gen_ai.usage.thinking_tokens": 3}),
        *(
            span(
                f"record_usage {kind}",
                {"ag2.usage.kind": kind, "gen_ai.response.model": "m1", "gen_ai.usage.input_tokens": count},
            )
            for kind, count in (("model_call", 9), ("subtask", 30), ("compaction", 5))
        ),
        usage=(14, 0),
        reasoning=3,
        models=["m1"],
    )
]
ALL = [*LISTS, *REQUESTS, *FORMS, *TWINS, *TEAMS, *CLOCKS, *PLAIN, *LEAKS, *MADE_UP, *STREAMED, *USAGE]


@pytest.mark.parametrize("told", ALL, ids=lambda told: told.name)
def test_it_is_read(told: Case) -> None:
    assert list(missed(told)) == []
