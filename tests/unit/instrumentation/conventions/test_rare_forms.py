"""Older, newer and rarer forms of conventions: each recovered from a few made-up spans."""

from __future__ import annotations

import json
from typing import Any

from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.model import Availability, SpanEvent
from tests.support.replacing import replace
from tests.support.trace_builder import DIALECTS, TraceBuilder, raised, the_call

J = json.dumps
ASKED, SAID = "Is the bridge open?", "It is closed today."


def test_adk_first_versions_name_tool_and_agent_in_the_span() -> None:
    """`tool_call [x]` is a tool whose error stands in its exception, `agent_run [x]` an agent."""
    own = "gcp.vertex.agent."
    request = {"contents": [{"role": "user", "parts": [{"text": ASKED}]}], "config": {}}
    asks = {"function_call": {"id": "f1", "name": "bridge_state", "args": {"bridge": "north"}}}
    spans = (
        TraceBuilder("gcp.vertex.agent")
        .add("invocation", {})
        .add("agent_run [ferryman]", {})
        .add(
            "call_llm",
            {
                "gen_ai.system": own[:-1],
                "gen_ai.request.model": "m",
                own + "llm_request": J(request),
                own + "llm_response": J({"content": {"role": "model", "parts": [asks]}}),
            },
            1,
        )
        .add(
            "tool_call [bridge_state]", {own + "tool_call_args": '{"bridge": "north"}'}, 2, **raised("north")
        )
    )
    run = spans.run
    assert run.agent_name == "ferryman"
    assert the_call(run) == ("bridge_state", {"bridge": "north"}, None, "error")
    assert run.tool_calls[0].error == "north"
    assert [m.text for m in run.input_messages] == [ASKED]


def test_dspy_names_tools_after_their_call_and_finishes_with_a_tool_that_is_none() -> None:
    """`x.__call__` is the tool x; `finish.__call__` is nobody's."""
    kind = "openinference.span.kind"
    spans = (
        TraceBuilder("openinference.instrumentation.dspy")
        .add(
            "ReAct.forward",
            {kind: "CHAIN", "input.value": J({"input_args": {"question": ASKED}}), "output.value": SAID},
        )
        .add(
            "bridge_state.__call__",
            {kind: "TOOL", "input.value": J({"kwargs": {"bridge": "north"}}), "output.value": "closed"},
        )
        .add("finish.__call__", {kind: "TOOL", "input.value": J({"kwargs": {}}), "output.value": "done"})
    )
    assert the_call(spans.run) == ("bridge_state", {"bridge": "north"}, "closed", "ok")


def test_crewai_first_versions_tell_the_inputs_apart_and_the_arguments_in_a_repr() -> None:
    """`crew_inputs` is what was asked; the call is written down as pydantic's text."""
    kind = "openinference.span.kind"
    calling = "tool_name='bridge_state' arguments={'bridge': 'north', 'lane': 2}"
    spans = (
        TraceBuilder("openinference.instrumentation.crewai")
        .add(
            "Crew.kickoff",
            {kind: "CHAIN", "crew_inputs": J({"question": ASKED}), "output.value": J({"raw": SAID})},
        )
        .add("Task._execute_core", {kind: "AGENT", "graph.node.id": "ferryman"})
        .add(
            "ToolUsage._use",
            {
                kind: "TOOL",
                "tool.name": "bridge_state",
                "input.value": J({"tool_string": "Action: bridge_state", "tool": "T()", "calling": calling}),
                "output.value": "closed",
            },
            1,
        )
    )
    run = spans.run
    assert the_call(run) == ("bridge_state", {"bridge": "north", "lane": 2}, "closed", "ok")
    assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)


def step(given: Any = None, gave: Any = None, kind: str = "task", twice: bool = False) -> dict[str, Any]:
    """What Traceloop writes on a step of LlamaIndex; older versions turn models into JSON twice."""
    told = {"traceloop.span.kind": kind, "traceloop.entity.name": "Step.task"}
    if given is not None:
        told["traceloop.entity.input"] = J(given)
    if gave is not None:
        told["traceloop.entity.output"] = J(J(gave)) if twice else J(gave)
    return told


def said(text: str, role: str = "assistant") -> dict[str, Any]:
    """LlamaIndex' own message."""
    return {"role": role, "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": text}]}


LLAMA = "opentelemetry.instrumentation.llamaindex"


def test_llamaindex_steps_of_traceloop_tell_their_kind_by_what_came_of_them() -> None:
    """A step with a tool's output is a tool, one with a model's raw reply a model call."""
    calls = {
        "tool_calls": [{"id": "k1", "function": {"name": "bridge_state", "arguments": '{"bridge": "north"}'}}]
    }
    asks = {"role": "assistant", "additional_kwargs": calls, "blocks": []}
    tool_output = {
        "content": "closed",
        "tool_name": "bridge_state",
        "raw_input": {"args": [], "kwargs": {"bridge": "north"}},
        "raw_output": {"open": False},
        "is_error": False,
    }
    event = {
        "tool_name": "bridge_state",
        "tool_kwargs": {"bridge": "north"},
        "tool_id": "k1",
        "tool_output": tool_output,
    }
    for twice in (False, True):
        history = [J(said(ASKED, "user"))] if twice else [said(ASKED, "user")]
        spans = (
            TraceBuilder(LLAMA)
            .add("Agent.workflow", step(kind="workflow"))
            .add(
                "Model.task", step({"messages": history}, {"message": asks, "raw": {"id": "r"}}, twice=twice)
            )
            .add("call_tool.task", step(None, event, twice=twice))
            .add("Tool.task", step({"kwargs": {"bridge": "north"}}, tool_output, twice=twice), 2)
            .add("Parser.task", step({"output": "Thought: done. Answer: ..."}, {"thought": "done"}))
            .add(
                "end.task",
                step(None, {"result": {"response": said(SAID), "tool_calls": [{"tool_id": "k1"}]}}),
            )
        )
        run = spans.run
        assert the_call(run) == ("bridge_state", {"bridge": "north"}, {"open": False}, "ok")
        assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)


def test_llamaindex_failed_tools_and_retrievers_of_traceloop() -> None:
    """A failure is told by the event above the tool; nodes are documents, and the query is the question."""
    failed = {"content": "Error: north", "tool_name": "bridge_state", "raw_output": "north", "is_error": True}
    event = {
        "tool_name": "bridge_state",
        "tool_kwargs": {"bridge": "n"},
        "tool_id": "k",
        "tool_output": failed,
    }
    node = J({"node": {"id_": "n1", "metadata": {}, "text": "Closed on Sundays."}, "score": 0.5})
    spans = (
        TraceBuilder(LLAMA)
        .add("Engine.workflow", step({"str_or_query_bundle": ASKED}, {"response": SAID}, "workflow"))
        .add("Retriever.task", step({"str_or_query_bundle": {"query_str": ASKED}}, [node]))
        .add("call_tool.task", step(None, event))
        .add("Tool.task", step({"kwargs": {"bridge": "n"}}), 2)
    )
    run = spans.run
    assert the_call(run) == ("bridge_state", {"bridge": "n"}, "north", "error")
    assert [(d.content, d.score) for d in run.documents] == [("Closed on Sundays.", 0.5)]
    assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)


def test_llamaindex_bare_completion_of_traceloop_is_a_run() -> None:
    """A completion without a workflow around it is a model call, though its span says workflow."""
    run = (
        TraceBuilder(LLAMA)
        .add("Model.workflow", step({"prompt": ASKED}, {"text": SAID, "raw": {"id": "r"}}, "workflow"))
        .run
    )
    assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)


def test_autogen_messages_are_written_as_text_and_tools_name_themselves_plainly() -> None:
    """What pydantic makes of a message is read back; `tool_name` and `tool_args` are a call, seen twice."""
    kind = "openinference.span.kind"
    asked = (
        f"source='user' metadata={{}} at=datetime.datetime(2026, 1, 2) content={ASKED!r} type='TextMessage'"
    )
    for text in (asked, f"id='7-a' {asked}"):
        spans = (
            TraceBuilder("openinference.instrumentation.autogen_agentchat")
            .add(
                "ferryman.on_messages",
                {kind: "AGENT", "input.value": J({"messages": [text], "token": "<T>"})},
            )
            .add(
                "FunctionTool.run_json",
                {
                    kind: "TOOL",
                    "tool_name": "bridge_state",
                    "input.value": J({"args": {"bridge": "north"}, "cancellation_token": "<Token>"}),
                },
                **raised("north"),
            )
            .add(
                "bridge_state",
                {"tool_name": "bridge_state", "tool_args": '{"bridge": "north"}'},
                1,
                scope="base_tool",
            )
        )
        run = spans.run
        assert [m.text for m in run.input_messages] == [ASKED]
        assert the_call(run) == ("bridge_state", {"bridge": "north"}, None, "error")


def test_litellm_wrote_the_names_of_its_constants() -> None:
    """`SpanAttributes.LLM_PROMPTS.0.content` is a prompt like any other."""
    own = "SpanAttributes."
    run = (
        TraceBuilder("litellm")
        .add(
            "litellm_request",
            {
                own + "LLM_REQUEST_TYPE": "completion",
                own + "LLM_REQUEST_MODEL": "m",
                own + "LLM_USAGE_PROMPT_TOKENS": 5,
                own + "LLM_USAGE_COMPLETION_TOKENS": 2,
                own + "LLM_PROMPTS.0.role": "user",
                own + "LLM_PROMPTS.0.content": ASKED,
                own + "LLM_COMPLETIONS.0.role": "assistant",
                own + "LLM_COMPLETIONS.0.content": SAID,
            },
        )
        .run
    )
    assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)
    assert (run.models, run.usage.total_tokens) == (("m",), 7)


def test_tools_on_offer_that_stand_among_the_messages_are_not_calls() -> None:
    """Langfuse lists them as messages of tools."""
    own = "langfuse.observation."
    offer = {"type": "function", "function": {"name": "bridge_state", "parameters": {"type": "object"}}}
    run = (
        TraceBuilder("langfuse-sdk")
        .add(
            "chat",
            {
                own + "type": "generation",
                own + "input": J(
                    [{"role": "user", "content": ASKED}, {"role": "tool", "content": offer}, offer]
                ),
                own + "output": J({"role": "assistant", "content": SAID}),
            },
        )
        .run
    )
    assert ([m.text for m in run.input_messages], run.output, run.tool_calls) == ([ASKED], SAID, ())


def test_a_way_to_answer_that_is_no_tool_is_not_one_in_another_telling_either() -> None:
    """What smolagents' own spans say is no tool, a model's span of another instrumentation calls one."""
    kind = "openinference.span.kind"
    out = "llm.output_messages.0.message."
    spans = (
        TraceBuilder("openinference.instrumentation.smolagents")
        .add("Agent.run", {kind: "AGENT", "input.value": J({"task": ASKED}), "output.value": SAID})
        .add(
            "ChatCompletion",
            {
                kind: "LLM",
                out + "role": "assistant",
                out + "tool_calls.0.tool_call.function.name": "final_answer",
                out + "tool_calls.0.tool_call.function.arguments": J({"answer": SAID}),
            },
            scope="openinference.instrumentation.openai",
        )
        .add(
            "Final",
            {kind: "TOOL", "tool.name": "final_answer", "input.value": J({"kwargs": {"answer": SAID}})},
        )
    )
    assert (spans.run.output, spans.run.tool_calls) == (SAID, ())


def test_a_pipeline_that_tells_a_conversation_is_a_run() -> None:
    """An agent may be recorded as a mere component; what came out of it gives it away."""
    kind = "openinference.span.kind"
    talk = [
        f"ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text={ASKED!r})])",
        f"ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text={SAID!r})])",
    ]
    spans = (
        TraceBuilder("openinference.instrumentation.haystack")
        .add(
            "Pipeline.run",
            {kind: "CHAIN", "input.value": J({"data": {"filter": {}, "ask": {"query": ASKED}}})},
        )
        .add("Agent.run", {kind: "CHAIN", "output.value": J({"messages": talk, "step_count": 1})})
    )
    assert ([m.text for m in spans.run.input_messages], spans.run.output) == ([ASKED], SAID)
    alone = TraceBuilder("app").add("helper", {kind: "CHAIN", "input.value": ASKED, "output.value": SAID})
    assert find_runs(alone.spans, DIALECTS) == []


def test_a_server_in_the_same_process_calls_nothing_again() -> None:
    """Traceloop's MCP spans tell a request and its handling side by side; two equal requests stay two."""
    entity = "traceloop.entity."
    request = J({"tool_name": "bridge_state", "arguments": {"bridge": "north"}})
    tool = {"traceloop.span.kind": "tool", entity + "name": "bridge_state", entity + "input": request}
    spans = TraceBuilder("opentelemetry.instrumentation.mcp.instrumentation").add(
        "day", {"traceloop.span.kind": "agent"}
    )
    for _ in range(2):
        spans.add("bridge_state.tool", {**tool, entity + "output": J({"result": "closed"})})
        spans.add("mcp.server", {"traceloop.span.kind": "server", entity + "name": "mcp.server"})
        spans.add("bridge_state.tool", tool, above=len(spans.spans) - 1)
    stretched = [
        replace(s, end_time=s.end_time + 20)
        if s.name.endswith(".tool") and s.parent_span_id == f"{1:016x}"
        else s
        for s in spans.spans
        if s.end_time is not None
    ]
    (run,) = find_runs(stretched, DIALECTS)
    told = [(c.name, c.arguments, c.result) for c in run.tool_calls]
    assert told == [("bridge_state", {"bridge": "north"}, "closed")] * 2


def test_gemini_calls_tools_by_itself_and_tells_it_in_its_response() -> None:
    """The calls stand in the history that comes with the last response."""
    call = {"functionCall": {"name": "bridge_state", "args": {"bridge": "north"}}}
    result = {"function_response": {"name": "bridge_state", "response": {"result": "closed"}}}
    history = [
        {"role": "user", "parts": [{"text": ASKED}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
    ]
    reply = {"candidates": [{"content": {"role": "model", "parts": [{"text": SAID}]}}]}
    run = (
        TraceBuilder("openinference.instrumentation.google_genai")
        .add(
            "GenerateContent",
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": ASKED,
                "llm.output_messages.0.message.role": "model",
                "llm.output_messages.0.message.content": SAID,
                "output.value": J({**reply, "automatic_function_calling_history": history}),
            },
        )
        .run
    )
    assert ([m.text for m in run.input_messages], run.output) == ([ASKED], SAID)
    assert the_call(run)[:3] == ("bridge_state", {"bridge": "north"}, "closed")


def test_a_turn_that_is_told_in_two_traces_without_ids_is_one() -> None:
    """LiteLLM's older streams stand alone, and their prompts leave the calls and the ids out."""
    prompt, completion = "gen_ai.prompt.", "gen_ai.completion.0."
    asked = {"llm.request.type": "completion", prompt + "0.role": "user", prompt + "0.content": ASKED}
    first = {
        **asked,
        completion + "role": "assistant",
        completion + "finish_reason": "tool_calls",
        completion + "function_call.name": "bridge_state",
        completion + "function_call.arguments": '{"bridge": "north"}',
    }
    then = {
        **asked,
        prompt + "1.role": "assistant",
        prompt + "2.role": "tool",
        prompt + "2.content": "closed",
        completion + "role": "assistant",
        completion + "content": SAID,
    }
    for extra, runs in (({}, 1), ({prompt + "3.role": "tool", prompt + "3.content": "open"}, 2)):
        one = TraceBuilder("litellm").add("litellm_request", first).spans[0]
        two = TraceBuilder("litellm").add("litellm_request", {**then, **extra}).spans[0]
        two = replace(two, trace_id="c" * 32, start_time=2_000, end_time=3_000)
        found = [run for span in (one, two) for run in find_runs([span], DIALECTS)]
        joined = list(join_split_runs(found))
        assert len(joined) == runs
        if runs == 1:
            assert the_call(joined[0])[:3] == ("bridge_state", {"bridge": "north"}, "closed")
            assert joined[0].output == SAID


def test_a_result_that_is_none_written_as_text_leaves_the_word_to_the_messages() -> None:
    """Agno writes `None` on the span of a tool that failed; the model was told what happened."""
    kind, given, out = "openinference.span.kind", "llm.input_messages.", "llm.output_messages.0.message."
    call = "tool_calls.0.tool_call."
    spans = (
        TraceBuilder("openinference.instrumentation.agno")
        .add("ferryman.run", {kind: "AGENT", "input.value": ASKED, "output.value": SAID})
        .add(
            "Model.invoke",
            {
                kind: "LLM",
                out + "role": "assistant",
                out + call + "id": "c1",
                out + call + "function.name": "bridge_state",
                out + call + "function.arguments": '{"bridge": "north"}',
            },
        )
        .add(
            "bridge_state",
            {
                kind: "TOOL",
                "tool.name": "bridge_state",
                "input.value": '{"bridge": "north"}',
                "output.value": "None",
            },
            status="OK",
        )
        .add(
            "Model.invoke",
            {
                kind: "LLM",
                given + "0.message.role": "user",
                given + "0.message.content": ASKED,
                given + "1.message.role": "tool",
                given + "1.message.tool_call_id": "c1",
                given + "1.message.content": "no such bridge",
                out + "role": "assistant",
                out + "content": SAID,
            },
        )
    )
    assert the_call(spans.run)[:3] == ("bridge_state", {"bridge": "north"}, "no such bridge")


def test_content_left_out_of_events_is_nobodys_word() -> None:
    """ADK writes `<elided>` where content was not wanted."""
    logs = tuple(
        SpanEvent(name=name, body={"content": "<elided>"})
        for name in ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.choice")
    )
    run = TraceBuilder("app").add("chat m", {"gen_ai.operation.name": "chat"}, logs=logs).run
    assert (run.input, run.output, run.system_instructions) == (None, None, None)
    assert run.availability["input"] is run.availability["output"] is Availability.CAPTURED_OFF


def test_arguments_that_are_json_twice_are_the_arguments() -> None:
    """Agno's messages tell a call again with its arguments escaped, and not under its result's id."""
    kind, given, out = "openinference.span.kind", "llm.input_messages.", "llm.output_messages.0"
    arguments = J({"bridge": "north"})
    function = {"name": "bridge_state", "arguments": arguments}
    call = "1.message.tool_calls.0.tool_call."
    spans = (
        TraceBuilder("openinference.instrumentation.agno")
        .add(
            "ferryman.run",
            {
                kind: "AGENT",
                "input.value": ASKED,
                "output.value": SAID,
                "graph.node.id": "f7",
                "agno.agent": "ferryman",
            },
        )
        .add(
            "invoke",
            {kind: "LLM", out: J({"role": "assistant", "tool_calls": [{"id": "f", "function": function}]})},
        )
        .add(
            "invoke",
            {
                kind: "LLM",
                given + "0.message.role": "user",
                given + "0.message.content": ASKED,
                given + "1.message.role": "assistant",
                given + call + "id": "f",
                given + call + "function.name": "bridge_state",
                given + call + "function.arguments": J(arguments),
                given + "2.message.role": "tool",
                given + "2.message.tool_call_id": "c",
                given + "2.message.content": "closed",
            },
        )
        .add(
            "bridge_state", {kind: "TOOL", "tool.name": "bridge_state", "input.value": arguments}, status="OK"
        )
    )
    assert the_call(spans.run)[:2] == ("bridge_state", {"bridge": "north"})
    assert spans.run.agent_name == "ferryman"
