"""An application whose traffic is scored, for tests of parts."""

from __future__ import annotations

from typing import Any

from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from otel_evals import Pipeline
from otel_evals._internal.config.loader import build_config
from otel_evals.testing import InMemoryDestination
from tests.support.agents import SeededIds, agent_run, said
from tests.support.waits import MILLIS

__all__ = ["Live", "SeededIds", "agent_run", "said"]


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
