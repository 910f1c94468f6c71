"""Mastra's spans, and those of its first versions with the AI SDK."""

from __future__ import annotations

import json

from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps


def test_a_generation_and_a_providers_tool_are_read() -> None:
    kind = "mastra.span.type"
    spans = (
        TraceBuilder("@mastra/otel")
        .add(
            "agent", {kind: "agent_run", "mastra.agent_run.input": J([{"role": "user", "content": "News?"}])}
        )
        .add(
            "generation",
            {
                kind: "model_generation",
                "gen_ai.request.model": "m",
                "mastra.model_generation.output": J({"text": "None."}),
                "gen_ai.usage.input_tokens": 5,
                "gen_ai.usage.output_tokens": 1,
            },
        )
        .add(
            "search",
            {
                kind: "provider_tool_call",
                "gen_ai.tool.name": "search",
                "mastra.provider_tool_call.input": J({"q": "news"}),
                "mastra.provider_tool_call.output": J([]),
            },
        )
    )
    run = spans.run
    assert (run.input, run.output, run.models, run.usage.total_tokens) == ("News?", "None.", ("m",), 6)
    assert the_call(run) == ("search", {"q": "news"}, [], "ok")


def test_streams_of_the_first_versions_are_model_calls() -> None:
    attributes = {
        "aisdk.model.id": "m",
        "aisdk.model.provider": "openai.chat",
        "stream.prompt.messages": J([{"role": "user", "content": [{"type": "text", "text": "Hi."}]}]),
        "stream.response.text": "Hello.",
        "stream.response.toolCalls": "[]",
        "stream.usage.inputTokens": 14,
        "stream.usage.outputTokens": 87,
        "stream.usage.cachedInputTokens": 12,
    }
    run = TraceBuilder("ai").add("mastra.stream", attributes).run
    assert (run.input, run.output, run.models, run.provider) == ("Hi.", "Hello.", ("m",), "openai.chat")
    assert (run.usage.input_tokens, run.usage.output_tokens, run.usage.cache_read_tokens) == (14, 87, 12)
