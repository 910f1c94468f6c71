"""Configuring over and over, as notebooks do: every configuration scores, and nothing piles up."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_evals
from otel_evals import ConfigError, Pipeline, Rule, Run, sampling, scorer
from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from tests.support.exporting_programs import run_exporting
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.traffic import agent_run

TIMES = 8


@scorer(version="1", inline=True)
def answered(run: Run) -> bool:
    return bool(run.output)


@scorer(version="1")
def threaded(run: Run) -> float:
    return 1.0


VARIED: list[dict[str, Any]] = [
    {"rules": [answered]},
    {"rules": [Rule(answered, scope="agent"), threaded], "hold": 0.0},
    {"rules": [], "span_attributes": False},
    {"rules": [Rule(answered, sample=sampling.never()), threaded], "evaluation_spans": "same_trace"},
]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    otel_evals.shutdown(1_000)


def standing() -> dict[str, int]:
    """What could pile up."""
    gc.collect()
    alive = [type(each) for each in gc.get_objects()]
    names = [thread.name for thread in threading.enumerate()]
    return {
        "threads": sum(name.startswith("otel-evals") for name in names),
        "pipelines": alive.count(Pipeline),
        "holds": alive.count(ScoringSpanExporter),
    }


@pytest.mark.parametrize("between", ["replaced", "shut down", "failed"])
@pytest.mark.parametrize(
    "processor", [BatchSpanProcessor, pytest.param(SimpleSpanProcessor, marks=pytest.mark.slow)]
)
def test_the_applications_own_provider(processor: Any, between: str) -> None:
    """Whatever was configured before, spans leave once, and carry the scores of the present rules."""
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(processor(exporter))
    loggers, events = LoggerProvider(shutdown_on_exit=False), InMemoryLogRecordExporter()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
    tracer = provider.get_tracer("app")
    seen: list[dict[str, int]] = []
    for number in range(TIMES):
        options = {"grace": 0.0, "metrics": False, **VARIED[number % len(VARIED)]}
        otel_evals.configure(tracer_provider=provider, logger_provider=loggers, **options)
        exporter.clear()
        agent_run(tracer)
        assert otel_evals.force_flush(100_000)
        assert provider.force_flush(100_000)
        spans = [span for span in exporter.get_finished_spans() if not span.name.startswith("evaluate")]
        assert len(spans) == 3
        rules = (
            options["rules"] if options.get("span_attributes", True) and options.get("hold") != 0.0 else []
        )
        names = {str(getattr(rule, "name", None) or rule.id) for rule in rules}
        names -= {"answered"} if len(rules) == 2 else set()  # never sampled there
        (root,) = [span for span in spans if span.name == "invoke_agent support"]
        scored = {key for key in root.attributes or {} if key.count(".") == 2}
        assert {f"otel_evals.score.{name}" for name in names} <= scored
        if between == "shut down":
            otel_evals.shutdown()
        elif between == "failed":
            with pytest.raises(ConfigError):
                otel_evals.configure(rules=[answered], tracer_provider=provider, hold=-1.0)
        if number % len(VARIED) == len(VARIED) - 1:
            seen.append(standing())
    grown = {name: count for name, count in seen[-1].items() if count > seen[0][name]}
    assert grown == {}, "no more than one round of configurations before"
    assert len(provider._active_span_processor._span_processors) <= 2
    assert len(loggers._multi_log_record_processor._log_record_processors) == 2  # type: ignore[attr-defined]
    exporter.clear()
    otel_evals.shutdown()
    agent_run(tracer)
    provider.shutdown()
    assert len(exporter.get_finished_spans()) == 3
    provider.shutdown()


OWN = """
import threading
import otel_evals
from opentelemetry import trace
from otel_evals._internal.live.configure import _made
from otel_evals import Run, scorer
from tests.support.traffic import agent_run

@scorer(version="1")
def answered(run: Run) -> bool:
    return bool(run.output)

standing = []
for number in range(8):
    options = [{}, {"hold": 0.2}, {"evaluation_spans": "off"}, {"grace": 0.0}][number % 4]
    otel_evals.configure(rules=[answered], **options)
    agent_run(trace.get_tracer("app"))
    assert otel_evals.force_flush(100_000)
    if number % 3 == 1:
        otel_evals.shutdown()
        otel_evals.configure(rules=[answered])
    processors = _made.tracers._active_span_processor._span_processors
    standing.append((len(processors), threading.active_count()))
assert max(standing) == standing[0], standing  # fewer where nothing was scored since
"""


@pytest.mark.slow
def test_providers_that_were_made_here() -> None:
    """The second configuration takes the first one's providers for what they are: its own."""
    with OtlpReceiver() as receiver:
        run_exporting(OWN, receiver)
        receiver.wait(lambda r: len([s for s in r.spans if s.name == "invoke_agent support"]) >= 8)
        roots = [s for s in receiver.spans if s.name == "invoke_agent support"]
        assert len(roots) == 8
        assert all("otel_evals.score.answered" in span.attributes for span in roots)


def test_two_providers_by_turns() -> None:
    """As where each cell of a notebook makes a provider of its own."""
    providers = [TracerProvider(shutdown_on_exit=False) for _ in range(2)]
    exporters = [InMemorySpanExporter() for _ in providers]
    for provider, exporter in zip(providers, exporters, strict=True):
        provider.add_span_processor(BatchSpanProcessor(exporter))
    for number in range(6):
        provider, exporter = providers[number % 2], exporters[number % 2]
        otel_evals.configure(rules=[answered], tracer_provider=provider, grace=0.0, metrics=False)
        for each in providers:
            agent_run(each.get_tracer("app"))
        assert otel_evals.force_flush(100_000)
        for each in providers:
            assert each.force_flush(100_000)
        roots = [s for s in exporter.get_finished_spans() if s.name == "invoke_agent support"]
        assert "otel_evals.score.answered" in (roots[-1].attributes or {})
    for exporter in exporters:
        assert len(exporter.get_finished_spans()) == 18
    for each in providers:
        each.shutdown()


def test_a_configuration_that_is_refused_leaves_the_last_one_at_work() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    otel_evals.configure(rules=[answered], tracer_provider=provider, grace=0.0)
    for wrong in ({"tracer_provider": object()}, {"destinations": ["nowhere"]}, {"hold": -1}):
        with pytest.raises(ConfigError):
            otel_evals.configure(**{"rules": [answered], **wrong})
    agent_run(provider.get_tracer("app"))
    assert otel_evals.force_flush()
    assert otel_evals.stats().rules["answered"].scored == 1
