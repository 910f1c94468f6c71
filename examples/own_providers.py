"""A pipeline with providers of the application: python examples/own_providers.py

Nothing global is set or read. `pipeline.spans` sees the spans that end, `pipeline.log_records` the log
records of conventions that keep content there. `pipeline.hold` wraps the exporter: judged
spans leave with their scores on them.
"""

from __future__ import annotations

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Config, Pipeline, Rule, Run, sampling, scorer
from otel_evals_instrumentation import agent


@scorer
def says_hello(run: Run) -> bool:
    """Return True if the answer greets."""
    return "hello" in (run.output or "").lower()


def main() -> None:
    tracers, loggers = TracerProvider(), LoggerProvider()
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    exporter = InMemorySpanExporter()  # stands for the OTLP exporter of your backend

    config = Config(rules=[Rule(says_hello, sample=sampling.always())], hold=5.0)
    pipeline = Pipeline(config, tracer_provider=tracers, logger_provider=loggers, meter_provider=meters)
    tracers.add_span_processor(pipeline.spans)
    loggers.add_log_record_processor(pipeline.log_records)
    tracers.add_span_processor(BatchSpanProcessor(pipeline.hold(exporter)))

    @agent("greeter", capture_content=True, tracer_provider=tracers)
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    greet("Ada")
    pipeline.force_flush()
    tracers.shutdown()
    for span in exporter.get_finished_spans():
        scores = {key: value for key, value in (span.attributes or {}).items() if "otel_evals.score." in key}
        print(span.name, scores)
    meters.shutdown()


if __name__ == "__main__":
    main()
