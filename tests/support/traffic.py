"""Agent traffic for tests: spans as an instrumentation with current GenAI conventions writes them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Span, Tracer

from otel_evals import Pipeline
from otel_evals._internal.config.loader import build_config
from otel_evals.testing import InMemoryDestination
from tests.support.waits import MILLIS


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


class Live:
    """A provider, a pipeline and an in-memory exporter behind the hold; use as a context manager."""

    def __init__(
        self,
        *rules: Any,
        exporter: SpanExporter | None = None,
        batch: bool = False,
        ids: IdGenerator | None = None,
        meters: MeterProvider | None = None,
        **options: Any,
    ) -> None:
        self.scored = InMemoryDestination()
        self.provider = TracerProvider(id_generator=ids)
        self.exported = InMemorySpanExporter()
        options.setdefault("grace", 0.02)
        destinations = options.pop("destinations", [self.scored])
        config = build_config(rules, destinations, **options)
        self.pipeline = Pipeline(config, tracer_provider=self.provider, meter_provider=meters)
        self.provider.add_span_processor(self.pipeline.spans)
        held = self.pipeline.hold(exporter or self.exported)
        processor = BatchSpanProcessor(held, schedule_delay_millis=50) if batch else SimpleSpanProcessor(held)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("tests.app")

    def run(self, **options: Any) -> int:
        """One agent run; returns its trace id."""
        return agent_run(self.tracer, **options)

    def flush(self, timeout_millis: int = MILLIS) -> bool:
        """Score and deliver everything so far."""
        return self.pipeline.force_flush(timeout_millis)

    def span(self, name: str) -> Any:
        """The exported span of that name."""
        return next(s for s in self.exported.get_finished_spans() if s.name == name)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.shutdown()
