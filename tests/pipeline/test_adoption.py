"""Configuring where tracing is set up already: in either order, once or often, and no span is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_evals
from otel_evals import Run, scorer
from otel_evals.errors import ConfigError
from tests.support.exporting_programs import run_exporting
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.traffic import agent_run

RUNS = 5
SCORE = "otel_evals.score.answered"


@scorer(version="1", inline=True)
def answered(run: Run) -> bool:
    return bool(run.output)


class Nested(SpanProcessor):
    """A processor around another one, as wrappers that filter or redact are."""

    def __init__(self, processor: SpanProcessor) -> None:
        self.processor = processor

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.processor.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        self.processor.on_end(span)

    def shutdown(self) -> None:
        self.processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.processor.force_flush(timeout_millis)


class Wrapping(Nested):
    """As `Nested`, with fields of its own that hold the processor."""

    def __init__(self, inner: SpanProcessor, keep: Callable[[Any], Any]) -> None:
        self.kept = keep(inner)

    @property
    def processor(self) -> Any:  # type: ignore[override]
        kept = self.kept
        while not isinstance(kept, SpanProcessor):
            kept = kept[0]
        return kept


class Keeping(Nested):
    """Keeps its exporter next to the processor that uses it, as Braintrust's does."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter
        super().__init__(BatchSpanProcessor(exporter))


class Tagging(SpanProcessor):
    """Exports nothing: it receives no ended spans."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attribute("tagged", True)


class Measuring(SpanProcessor):
    """Exports nothing, as far as can be seen."""

    def on_end(self, span: ReadableSpan) -> None:
        pass


class Sending(SpanProcessor):
    """Exports by itself."""

    def __init__(self, exporters: Any) -> None:
        self._to = exporters

    def on_end(self, span: ReadableSpan) -> None:
        for each in self._to:
            each.export([span])


PROCESSORS: dict[str, Callable[[Any], SpanProcessor]] = {
    "simple": SimpleSpanProcessor,
    "batch": BatchSpanProcessor,
    "nested": lambda exporter: Nested(Nested(BatchSpanProcessor(exporter))),
    "wrapped in a list": lambda exporter: Wrapping(SimpleSpanProcessor(exporter), lambda p: [p]),
    "next to its exporter": Keeping,
    "a tuple of exporters": lambda exporter: Sending((exporter,)),
}


def configure(provider: TracerProvider, **options: Any) -> None:
    otel_evals.configure(
        rules=[answered],
        tracer_provider=provider,
        **{"grace": 0.02, "metrics": False, **options},
    )


def issue(provider: TracerProvider) -> None:
    for _ in range(RUNS):
        agent_run(provider.get_tracer("app"))
    assert otel_evals.force_flush(100_000)
    provider.force_flush(100_000)  # older SDKs return False if a processor does not define it


def shapes(spans: Sequence[ReadableSpan]) -> list[Any]:
    """All that an application's spans tell, but for ids, times and scores."""

    def attributes(span: ReadableSpan) -> dict[str, Any]:
        return {k: v for k, v in (span.attributes or {}).items() if not k.startswith("otel_evals.score.")}

    return sorted((s.name, repr(attributes(s)), s.status.status_code.name, s.kind.name) for s in spans)


def scored(spans: Sequence[ReadableSpan]) -> int:
    return sum(SCORE in (span.attributes or {}) for span in spans)


def without_scoring() -> list[Any]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    issue(provider)
    return shapes(exporter.get_finished_spans())


@pytest.mark.parametrize("kind", PROCESSORS)
@pytest.mark.parametrize("order", ["before", "after"])
def test_scores_stand_on_the_spans_of_a_provider_that_exists(kind: str, order: str) -> None:
    """With no line more than `configure`, whichever comes first; the spans are otherwise those without us."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    if order == "before":
        provider.add_span_processor(PROCESSORS[kind](exporter))
    for _ in range(3):
        configure(provider)
    if order == "after":
        provider.add_span_processor(PROCESSORS[kind](exporter))
    issue(provider)
    spans = exporter.get_finished_spans()
    assert scored(spans) == RUNS
    assert shapes(spans) == without_scoring()
    assert len(provider._active_span_processor._span_processors) == 2  # nothing piles up
    provider.shutdown()


def test_a_wrapped_exporter_answers_for_itself() -> None:
    """Other code reads the exporter's own fields through the processor."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    configure(provider)
    issue(provider)
    wrapped: Any = processor.span_exporter
    assert wrapped.get_finished_spans() == exporter.get_finished_spans()
    provider.shutdown()


def test_exporters_wrapped_by_hand_are_not_wrapped_again() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    pipeline = otel_evals.configure(rules=[answered], tracer_provider=provider)
    provider.add_span_processor(BatchSpanProcessor(pipeline.hold(exporter)))
    issue(provider)
    assert scored(exporter.get_finished_spans()) == RUNS
    assert shapes(exporter.get_finished_spans()) == without_scoring()
    provider.shutdown()


@pytest.mark.parametrize(
    ("others", "warned"),
    [
        ([Tagging, SimpleSpanProcessor], ""),
        ([Measuring, SimpleSpanProcessor], ""),
        ([Tagging], ""),
        ([Measuring], "Measuring"),
    ],
)
def test_a_processor_is_only_named_if_it_may_be_the_one_that_exports(
    others: list[Any], warned: str, caplog: pytest.LogCaptureFixture
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    for kind in others:
        provider.add_span_processor(kind(exporter) if kind is SimpleSpanProcessor else kind())
    with caplog.at_level(logging.WARNING, "otel_evals"):
        configure(provider)
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [f"no exporter was found in {warned}"][
        : bool(warned)
    ]
    if warned:
        assert "provider.add_span_processor(BatchSpanProcessor(pipeline.hold(exporter)))" in caplog.text
    issue(provider)
    assert scored(exporter.get_finished_spans()) == (RUNS if SimpleSpanProcessor in others else 0)
    provider.shutdown()


def test_one_line_at_startup_says_what_runs(caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    with caplog.at_level(logging.INFO, "otel_evals"):
        configure(provider)
    (line,) = caplog.messages
    scored = "scoring by answered; scores go to no destination; no journal"
    assert line == f"{scored}; scores are added to the spans of InMemorySpanExporter"
    provider.shutdown()


def test_a_provider_that_takes_no_processors_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """As that of ddtrace: with its line in either order."""

    class Theirs(trace.TracerProvider):
        def get_tracer(self, *args: Any, **options: Any) -> Any:
            return trace.NoOpTracer()

    with pytest.raises(ConfigError, match=r"Theirs takes no span processors.*pass it as tracer_provider="):
        otel_evals.configure(rules=[answered], tracer_provider=Theirs())  # type: ignore[arg-type]


def test_the_end_scores_spans_behind_a_processor_that_does_not_flush() -> None:
    class Silent(Nested):
        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return True

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(Silent(BatchSpanProcessor(exporter, schedule_delay_millis=3_600_000)))
    configure(provider)
    for _ in range(RUNS):
        agent_run(provider.get_tracer("app"))
    otel_evals.shutdown()
    provider.shutdown()
    assert scored(exporter.get_finished_spans()) == RUNS


def test_wrapping_can_be_switched_off() -> None:
    """Spans that are held then leave with their scores."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    configure(provider, grace=60.0)
    agent_run(provider.get_tracer("app"))
    configure(provider, wrap_exporters=False)
    issue(provider)
    assert scored(exporter.get_finished_spans()) == 1
    assert otel_evals.stats().rules["answered"].scored == RUNS
    provider.shutdown()


def test_after_shutdown_spans_go_on_as_if_there_were_no_scoring() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    configure(provider)
    otel_evals.shutdown()
    issue(provider)
    assert scored(exporter.get_finished_spans()) == 0
    assert shapes(exporter.get_finished_spans()) == without_scoring()
    configure(provider)
    exporter.clear()
    issue(provider)
    assert scored(exporter.get_finished_spans()) == RUNS
    provider.shutdown()


AGAIN = """
import otel_evals
from opentelemetry import trace
from otel_evals import Run, scorer
from tests.support.traffic import agent_run

@scorer(version="1")
def answered(run: Run) -> bool:
    return bool(run.output)

for _ in range(3):
    otel_evals.configure(rules=[answered])
    agent_run(trace.get_tracer("app"))
    {between}
"""


@pytest.mark.parametrize(
    "between",
    [
        pytest.param("pass", id="replaced", marks=pytest.mark.slow),
        pytest.param("otel_evals.shutdown()", id="shut down"),
    ],
)
def test_configuring_again_goes_on_exporting(between: str) -> None:
    """As in a notebook whose cell is run again: providers that we made serve every configuration."""
    with OtlpReceiver() as receiver:
        run_exporting(AGAIN.format(between=between), receiver)
        spans = [s for s in receiver.wait_for_spans(9) if s.name == "invoke_agent support"]
        assert len(spans) == 3
        assert all(SCORE in span.attributes for span in spans)
        assert len(receiver.wait_for_logs(3)) == 3


LATER = """
from opentelemetry import _logs, metrics, trace
earliest = trace.get_tracer("earliest")
import otel_evals
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from otel_evals import Run, scorer
from tests.support.traffic import agent_run

@scorer(version="1", inline=True)
def answered(run: Run) -> bool:
    return bool(run.output)

otel_evals.configure(rules=[answered], evaluation_spans="same_trace")
early = trace.get_tracer("early")
agent_run(earliest)
agent_run(early)
assert otel_evals.force_flush(100_000)
assert otel_evals.stats().rules["answered"].scored == 2
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
assert isinstance(early._tracer, trace.NoOpTracer), "as LangSmith looks for one"
assert type(_logs.get_logger_provider()).__name__ == "ProxyLoggerProvider"
assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
library = TracerProvider(resource=Resource({"service.name": "own"}))
loggers, meters = LoggerProvider(), MeterProvider()
library.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
SET
_logs.set_logger_provider(loggers)
metrics.set_meter_provider(meters)
assert trace.get_tracer_provider() is library
assert _logs.get_logger_provider() is loggers
assert metrics.get_meter_provider() is meters
for tracer in (earliest, early, trace.get_tracer("app"), library.get_tracer("own")):
    agent_run(tracer)
"""


@pytest.mark.slow
@pytest.mark.parametrize("asked", [True, False], ids=["with our exporter", "without an exporter of ours"])
@pytest.mark.parametrize("by", ["trace.set_tracer_provider(library)", "trace._TRACER_PROVIDER = library"])
def test_a_library_that_looks_for_a_provider_first_finds_none_and_sets_its_own(by: str, asked: bool) -> None:
    """Its resource and exporter serve all tracers, earlier ones too; each span arrives once, scored."""
    with OtlpReceiver() as receiver:
        run_exporting(
            LATER.replace("SET", by), receiver, **({} if asked else {"OTEL_TRACES_EXPORTER": "none"})
        )
        receiver.wait(lambda r: len(roots(r, "own")) >= 4)
        assert len(roots(receiver, "own")) == 4
        assert len(roots(receiver, "shop")) == (2 if asked else 0), "before the library came"
        assert all(SCORE in span.attributes for span in roots(receiver))
        assert sum(s.name == "evaluate answered" for s in receiver.spans) == (6 if asked else 4)
        assert len(receiver.wait_for_logs(6)) == 6


def roots(receiver: OtlpReceiver, service: str = "") -> list[Any]:
    found = [s for s in receiver.spans if s.name == "invoke_agent support"]
    return [s for s in found if service in ("", s.resource["service.name"])]
