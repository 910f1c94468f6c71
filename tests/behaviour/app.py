"""An application that is configured to be scored, and all that leaves it: spans, events, metrics, records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span

import otel_evals
from otel_evals import Evaluation, RuleStats
from otel_evals.destinations import InMemoryDestination
from tests.support.agents import agent_run
from tests.support.waits import MILLIS, eventually

ROOT = "invoke_agent support"


class App:
    """Configures scoring for providers of its own; what a test leaves behind is shut down after it.

    Args:
        rules: what is scored.
        exporter: takes the spans; they are kept by default.
        tracing: options of the tracer provider.
        options: options of `configure`; an in-memory destination is the default.
    """

    def __init__(
        self,
        *rules: Any,
        exporter: SpanExporter | None = None,
        tracing: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.exported = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **(tracing or {}))
        self.provider.add_span_processor(SimpleSpanProcessor(exporter or self.exported))
        self.tracer = self.provider.get_tracer("tests.app")
        self._logs = InMemoryLogRecordExporter()
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        self._reader = InMemoryMetricReader()
        self.scored = InMemoryDestination()
        self.pipeline = otel_evals.configure(
            rules=rules,
            tracer_provider=self.provider,
            logger_provider=loggers,
            meter_provider=MeterProvider([self._reader], shutdown_on_exit=False),
            **{"destinations": [self.scored], "grace": 0.02, **options},
        )

    def run(self, **options: Any) -> str:
        """One agent run; returns its trace id."""
        return f"{agent_run(self.tracer, **options):032x}"

    def say(self, conversation: str, question: str = "q", answer: str = "a", **options: Any) -> str:
        """One turn of a conversation; returns its trace id."""

        def mark(span: Span) -> None:
            span.set_attribute("gen_ai.conversation.id", conversation)

        return self.run(question=question, answer=answer, during=mark, **options)

    def settle(self) -> list[Evaluation]:
        """Everything so far scored, delivered and exported, in balance; returns what was delivered."""
        assert self.pipeline.force_flush(MILLIS)
        assert self.pipeline.stats().check() == []
        self.provider.force_flush()
        return list(self.scored.evaluations)

    def rule(self, name: str) -> RuleStats:
        """The counters of a rule."""
        return self.pipeline.stats().rules[name]

    def await_rule(self, name: str, ready: Callable[[RuleStats], object]) -> RuleStats:
        """Wait until the counters of a rule are as wanted."""
        return eventually(lambda: self.rule(name), ready)

    def spans(self, name: str = ROOT) -> list[ReadableSpan]:
        """The exported spans of a name."""
        return [span for span in self.exported.get_finished_spans() if span.name == name]

    def span(self, name: str = ROOT) -> Any:
        """The only exported span of a name."""
        (span,) = self.spans(name)
        return span

    def events(self) -> list[Any]:
        """The evaluation events."""
        records = [log.log_record for log in self._logs.get_finished_logs()]
        return [record for record in records if record.event_name == "gen_ai.evaluation.result"]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric, as they are now."""
        data = self._reader.get_metrics_data()
        scopes = (
            [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        )
        metrics = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in metrics for point in metric.data.data_points]
