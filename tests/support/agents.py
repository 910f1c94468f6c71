"""Agent runs as an instrumentation with current GenAI conventions writes them: public interfaces only."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, Tracer

__all__ = ["SeededIds", "agent_run", "body", "recorded", "said"]


def said(role: str, text: str) -> str:
    """A GenAI message list of one text, as JSON."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def agent_run(
    tracer: Tracer,
    question: str = "Where is order A-1001?",
    answer: str = "It arrives on 2026-11-25.",
    *,
    agent: str = "support",
    tool: str = "lookup_order",
    result: Any = None,
    during: Callable[[Span], object] = lambda _: None,
) -> int:
    """One run: agent, inference, tool; returns its trace id. `during` is called inside the agent span."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    with tracer.start_as_current_span(f"invoke_agent {agent}", attributes=attributes) as root:
        root.set_attribute("gen_ai.input.messages", said("user", question))
        with tracer.start_as_current_span("chat m", attributes={"gen_ai.operation.name": "chat"}) as chat:
            chat.set_attribute("gen_ai.request.model", "m")
            chat.set_attribute("gen_ai.input.messages", said("user", question))
            chat.set_attribute("gen_ai.output.messages", said("assistant", answer))
        called = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": "c1",
        }
        with tracer.start_as_current_span(f"execute_tool {tool}", attributes=called) as span:
            span.set_attribute("gen_ai.tool.call.arguments", '{"order_id": "A-1001"}')
            span.set_attribute("gen_ai.tool.call.result", json.dumps(result or {"eta": "2026-11-25"}))
        during(root)
        root.set_attribute("gen_ai.output.messages", said("assistant", answer))
    return root.get_span_context().trace_id


class SeededIds(RandomIdGenerator):
    """The same ids in every session."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def generate_span_id(self) -> int:
        return self._rng.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self._rng.getrandbits(128) or 1


def recorded(count: int = 1, **options: Any) -> list[ReadableSpan]:
    """The spans of so many agent runs."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for _ in range(count):
        agent_run(provider.get_tracer("tests.app"), **options)
    return list(exported.get_finished_spans())


def body(spans: Sequence[ReadableSpan]) -> bytes:
    """An export request of these spans."""
    return bytes(encode_spans(spans).SerializeToString())
