"""What belongs to an agent, to a model's call or to nobody: tokens, guards, servers and lost spans."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from tests.support.facts import Case, case, missed, span
from tests.support.trace_builder import KNOWN_CONVENTIONS

ASKED, SAID = "Is the lift working?", "It runs again since noon."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
KIND = "openinference.span.kind"
LANGFUSE = "langfuse.observation."
AGENT = {KIND: "AGENT", "agent.name": "clerk", "input.value": ASKED, "output.value": SAID}
SILENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"}
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m1",
    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": ASKED}]}],
    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": SAID}]}],
}
LLM = {
    KIND: "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": ASKED,
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": SAID,
}


def _counts(given: int, said: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": said}


OWN = {"gen_ai.request.model": "m1", "gen_ai.provider.name": "mistral_ai"}
LIBRARY = {"llm.request.type": "chat", "gen_ai.request.model": "m1", "gen_ai.response.id": "r1"}
TOKENS = [
    case(
        "Mistral: the SDK's span during the library's, next to it",
        span("app", {}),
        span("chat", {**LIBRARY, **_counts(90, 30)}, start_time=10, end_time=40),
        span("sdk", {**OWN, **_counts(90, 30)}, scope="mistralai_sdk_tracer", start_time=20, end_time=30),
        scope="opentelemetry.instrumentation.mistralai",
        usage=(90, 30),
    ),
    case(
        "OpenInference: the same inside an agent",
        span("agent", AGENT),
        span("llm", {**LLM, "llm.token_count.prompt": 90, "llm.token_count.completion": 30}, end_time=40),
        span("sdk", {**OWN, **_counts(90, 30)}, scope="com.anthropic.sdk.python", start_time=20, end_time=30),
        scope="openinference.instrumentation.anthropic",
        usage=(90, 30),
        **TOLD,
    ),
    case(
        "calls with other counts, in parallel, are two",
        span("agent", AGENT),
        span("llm", {**LLM, "llm.token_count.prompt": 90, "llm.token_count.completion": 30}, end_time=40),
        span("sdk", {**OWN, **_counts(10, 3)}, scope="com.anthropic.sdk.python", start_time=20, end_time=30),
        scope="openinference.instrumentation.anthropic",
        usage=(100, 33),
        **TOLD,
    ),
    case(
        "Mistral: calls without content, of which the first asked for tools, are one run",
        span("app", {}),
        span(
            "chat",
            {**LIBRARY, "gen_ai.prompt.0.role": "user", "gen_ai.completion.0.finish_reason": "tool_calls"},
        ),
        span("sdk", OWN, scope="mistralai_sdk_tracer", start_time=12, end_time=13),
        span(
            "chat",
            {
                **LIBRARY,
                "gen_ai.response.id": "r2",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.completion.0.content": SAID,
            },
        ),
        scope="opentelemetry.instrumentation.mistralai",
        output=SAID,
    ),
    case(
        "OpenTelemetry and OpenInference: tokens that were written to a cache",
        span("agent", AGENT),
        span("llm", {**LLM, "llm.token_count.prompt": 9, "llm.token_count.prompt_details.cache_write": 5}),
        span("chat", {**CHAT, **_counts(9, 1), "gen_ai.usage.cache_write.input_tokens": 2}, scope="x"),
        written=7,
        **TOLD,
    ),
]

VERDICT = '{"flagged": false}'
GUARDS = [
    case(
        "OpenInference: the model of a guardrail neither asks nor answers",
        span("agent", {KIND: "AGENT", "agent.name": "clerk"}),
        span("guard", {KIND: "GUARDRAIL"}),
        span("judge", {KIND: "LLM", "input.value": "Is this rude?", "output.value": "no"}, 1),
        span("llm", LLM),
        span("guard", {KIND: "GUARDRAIL"}),
        span("judge", {KIND: "LLM", "input.value": "Is this safe?", "output.value": VERDICT}, 4),
        **TOLD,
    ),
    case(
        "OpenInference: a model below a guardrail next to an agent is no run",
        span("app", {}),
        span("agent", AGENT),
        span("guard", {KIND: "GUARDRAIL"}),
        span("judge", {**LLM, "llm.output_messages.0.message.content": "no"}, 2),
        **TOLD,
    ),
    case(
        "Langfuse: the same",
        span("app", {}),
        span("agent", {LANGFUSE + "type": "agent", LANGFUSE + "input": ASKED, LANGFUSE + "output": SAID}),
        span("guard", {LANGFUSE + "type": "guardrail"}),
        span(
            "judge",
            {LANGFUSE + "type": "generation", LANGFUSE + "input": ASKED, LANGFUSE + "output": "no"},
            2,
        ),
        **TOLD,
    ),
    case(
        "a lone call with an id, whose parent was lost, is no run",
        span("execute_tool look", {"gen_ai.tool.name": "look", "gen_ai.tool.call.id": "c"}),
        runs=0,
    ),
    case(
        "MCP: a server's call in a trace of its own",
        span("tools/call look", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "look"}, kind="SERVER"),
        scope="mcp-python-sdk",
        runs=0,
    ),
    case(
        "OpenTelemetry: the same",
        span(
            "tools/call look",
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"},
            kind="SERVER",
        ),
        runs=0,
    ),
    case(
        "FastMCP: a server's call that retrieves something",
        span("tools/call look", {"mcp.method.name": "tools/call", "gen_ai.tool.name": "look"}, kind="SERVER"),
        span("search", {KIND: "RETRIEVER", "input.value": ASKED}, scope="openinference.instrumentation.x"),
        scope="fastmcp",
        runs=0,
    ),
    case(
        "OpenTelemetry: a call that comes in by a queue",
        span("look", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}, kind="CONSUMER"),
        runs=0,
    ),
    case(
        "Vercel: a streamed tool that lost its parent",
        span(
            "ai.toolCall",
            {
                "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "look",
                "ai.toolCall.id": "c1",
                "ai.toolCall.args": '{"lift": 2}',
                "ai.toolCall.result": '"up"',
            },
        ),
        scope="ai",
        runs=0,
    ),
    case(
        "OpenInference: the same",
        span("look", {KIND: "TOOL", "tool.name": "look", "tool_call.id": "c1", "output.value": "up"}),
        runs=0,
    ),
    case(
        "Traceloop: a tool without an id was called by an application, and is judged",
        span("look.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}),
    ),
]

ORPHANS = [
    case(
        "OpenInference: calls below a span that was lost are the agent's",
        span("agent", AGENT),
        span("look", {KIND: "TOOL", "tool.name": "look", "input.value": "2", "output.value": "up"}, 70),
        span("llm", LLM, 70),
        agent="clerk",
        tools=[("look", "2", "up", "ok")],
        **TOLD,
    ),
    case(
        "OpenTelemetry: so is an agent below such a span",
        span("agent", {**SILENT, **{k: v for k, v in CHAT.items() if k.endswith("messages")}}),
        span("member", {**SILENT, "gen_ai.agent.name": "mechanic"}, 70),
        agent="clerk",
        **TOLD,
    ),
    case(
        "OpenTelemetry: a model call next to an agent that asked no model",
        span("app", {}),
        span("agent", SILENT, end_time=500),
        span("chat", CHAT),
        agent="clerk",
        **TOLD,
    ),
    case(
        "OpenLLMetry: the same",
        span("app", {}),
        span("clerk.agent", {"traceloop.span.kind": "agent", "gen_ai.agent.name": "clerk"}, end_time=500),
        span(
            "openai.chat", {**LIBRARY, "gen_ai.prompt.0.content": ASKED, "gen_ai.completion.0.content": SAID}
        ),
        agent="clerk",
        **TOLD,
    ),
    case(
        "a model call after the agent's end is a run of its own",
        span("app", {}),
        span("agent", AGENT, end_time=15),
        span("chat", CHAT),
        runs=2,
    ),
]

EVERY = [*TOKENS, *GUARDS, *ORPHANS]


@pytest.mark.parametrize("told", EVERY, ids=lambda told: told.name)
def test_it_belongs(told: Case) -> None:
    assert [fact for fact in missed(told) if fact[0] != "written"] == []
    if "written" in told.facts:
        (run,) = find_runs(told.spans, KNOWN_CONVENTIONS)
        assert run.usage.cache_write_tokens == told.facts["written"]


def test_one_call_is_counted_once_however_many_others_there_are() -> None:
    """Calls one after the other are never taken for one, though they used as many tokens."""
    calls = [span(f"chat {n}", {**CHAT, **_counts(9, 3)}, scope=f"lib{n % 2}") for n in range(50)]
    told = case("many", span("agent", AGENT), *calls)
    (run,) = find_runs(told.spans, KNOWN_CONVENTIONS)
    assert (run.usage.input_tokens, run.usage.output_tokens) == (450, 150)
