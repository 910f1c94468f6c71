"""Frameworks and engines that write other conventions: what they put around them changes nothing."""

from __future__ import annotations

import pytest

from tests.support.facts import Case, case, missed, span

ASKED, SAID = "Does the ferry sail on Sundays?", "It sails at nine and at noon."
USER, ANSWER = {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID}
DAY = {"day": "sunday"}
CALL = ("timetable", DAY, "9:00", "ok")
OP = "gen_ai.operation.name"
AGENT = {OP: "invoke_agent", "gen_ai.agent.name": "clerk"}
CHAT = {
    OP: "chat",
    "gen_ai.request.model": "m1",
    "gen_ai.usage.input_tokens": 8,
    "gen_ai.usage.output_tokens": 4,
}
TOOL = {OP: "execute_tool", "gen_ai.tool.name": "timetable", "gen_ai.tool.call.arguments": DAY}
TOLD = {
    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}],
    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": SAID}]}],
}
LLM = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "m1",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": ASKED,
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": SAID,
    "llm.token_count.prompt": 8,
    "llm.token_count.completion": 4,
}
OPENINFERENCE = "openinference.instrumentation.openai_agents"
TURN = {"input": ASKED, "output": SAID}

CASES = [
    case(
        "Cloudflare Agents: OpenTelemetry's names, its own for the rest",
        span(
            "invoke_agent clerk",
            {
                **AGENT,
                **TOLD,
                "cloudflare.agents.operation.name": "streamText",
                "gen_ai.conversation.id": "s3",
                "user.id": "u7",
            },
        ),
        span("chat m1", CHAT),
        span("execute_tool timetable", {**TOOL, "gen_ai.tool.call.result": '"9:00"'}),
        span("agent_initialization", {"cloudflare.agents.operation.name": "agent_initialization"}),
        scope="agents",
        **TURN,
        models=["m1"],
        usage=(8, 4),
        tools=[CALL],
        agent="clerk",
        conversation="s3",
        user="u7",
    ),
    case(
        "n8n: an agent inside of a workflow's node",
        span("workflow.execute", {"n8n.workflow.id": "w1", "n8n.execution.status": "success"}),
        span("node.execute", {"n8n.node.name": "AI Agent", "n8n.node.items.input": 1}),
        span("invoke_agent clerk", {**AGENT, **TOLD}, 1),
        span("chat m1", CHAT, 2),
        scope="n8n",
        **TURN,
        models=["m1"],
        usage=(8, 4),
        agent="clerk",
    ),
    case(
        "n8n: a workflow without an agent is no run",
        span("workflow.execute", {"n8n.workflow.id": "w1"}),
        span("node.execute", {"n8n.node.type": "n8n-nodes-base.httpRequest"}),
        scope="n8n",
        runs=0,
    ),
    case(
        "Temporal: workflows and activities between an agent and its model",
        span("StartWorkflow:Clerk", {"temporalWorkflowID": "w1"}, scope="temporalio"),
        span("RunWorkflow:Clerk", {"temporalWorkflowID": "w1"}, scope="temporalio"),
        span("agent", {"openinference.span.kind": "AGENT"}, 1, scope=OPENINFERENCE),
        span("StartActivity:invoke_model", {"temporalActivityID": "a1"}, 2, scope="temporalio"),
        span("response", LLM, 3, scope=OPENINFERENCE),
        **TURN,
        models=["m1"],
        usage=(8, 4),
    ),
    case(
        "Inngest: the AI SDK inside of a function",
        span("inngest.execution", {"inngest.traceref": "t"}, scope="inngest"),
        span(
            "ai.generateText",
            {"ai.operationId": "ai.generateText", "ai.prompt": {"prompt": ASKED}, "ai.response.text": SAID},
            scope="ai",
        ),
        **TURN,
    ),
    case(
        "OpenHands: Laminar's spans",
        span("conversation", {"lmnr.association.properties.session_id": "s3"}),
        span("agent.step", {"lmnr.span.type": "DEFAULT"}),
        span(
            "litellm.completion",
            {
                "lmnr.span.type": "LLM",
                "gen_ai.request.model": "m1",
                "gen_ai.input.messages": [USER],
                "gen_ai.output.messages": [ANSWER],
            },
            1,
        ),
        span(
            "timetable", {"lmnr.span.type": "TOOL", "lmnr.span.input": DAY, "lmnr.span.output": '"9:00"'}, 1
        ),
        scope="lmnr.tracer",
        **TURN,
        models=["m1"],
        tools=[CALL],
        conversation="s3",
    ),
    case(
        "Koog: messages in events, tools in OpenInference's names",
        span("run", {OP: "invoke_agent", "gen_ai.conversation.id": "s3"}),
        span("node", {"koog.node.name": "call"}),
        span(
            "llm",
            CHAT,
            1,
            events=[
                ("gen_ai.system.message", {"content": "Be kind."}),
                ("gen_ai.user.message", {"content": ASKED}),
                ("gen_ai.choice", {"index": 0, "message": ANSWER}),
            ],
        ),
        span(
            "tool",
            {**TOOL, "gen_ai.tool.call.arguments": None, "input.value": DAY, "output.value": '"9:00"'},
            1,
        ),
        scope="ai.koog",
        **TURN,
        system="Be kind.",
        models=["m1"],
        usage=(8, 4),
        tools=[CALL],
        conversation="s3",
    ),
    case(
        "what was looked up in a memory",
        span("agent", AGENT),
        span(
            "search_memory",
            {OP: "search_memory", "gen_ai.memory.records": [{"id": "r1", "content": "Likes ferries."}]},
        ),
        documents=["Likes ferries."],
    ),
    case(
        "Letta's methods tell nothing of a conversation",
        span("Agent.step", {"function.name": "step"}, scope="letta"),
        runs=0,
    ),
]


@pytest.mark.parametrize("told", CASES, ids=[told.name for told in CASES])
def test_a_trace_means_what_its_framework_says(told: Case) -> None:
    assert list(missed(told)) == []


def _generate(question: str, answer: str) -> dict[str, object]:
    told = {
        "ai.operationId": "ai.generateText",
        "ai.prompt": {"prompt": question},
        "ai.response.text": answer,
    }
    return span("ai.generateText", told, scope="ai")


AROUND = [
    {"http.route": "/ask"},
    {"traceloop.span.kind": "workflow", "traceloop.entity.name": "flow"},
    {"openinference.span.kind": "CHAIN"},
    {"gen_ai.span.kind": "CHAIN"},
    {"langfuse.observation.type": "span"},
]


@pytest.mark.parametrize("own", AROUND, ids=[next(iter(own)) for own in AROUND])
def test_several_questions_under_an_applications_span_are_runs_of_their_own(own: dict[str, str]) -> None:
    spans = (_generate("Is it open?", "It is open."), _generate(ASKED, SAID))
    assert list(missed(case("apart", span("flow", own), *spans, runs=2, input=ASKED, output=SAID))) == []


@pytest.mark.parametrize("own", AROUND[1:], ids=[next(iter(own)) for own in AROUND[1:]])
def test_a_call_that_goes_on_with_the_answer_of_another_is_the_same_run(own: dict[str, str]) -> None:
    spans = (_generate(ASKED, "At nine and noon."), _generate("Say kindly: At nine and noon.", SAID))
    assert list(missed(case("one", span("flow", own), *spans, input=ASKED, output=SAID))) == []


def test_a_workflow_that_tells_question_and_answer_is_one_run() -> None:
    own = {"traceloop.span.kind": "workflow", "traceloop.entity.input": {"kwargs": {"question": ASKED}}}
    spans = (_generate("Is it open?", "It is open."), _generate("And on Sundays?", SAID))
    assert list(missed(case("one", span("flow", own), *spans, input=ASKED, output=SAID))) == []
