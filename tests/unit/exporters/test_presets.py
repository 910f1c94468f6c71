"""The presets that add what a backend reads to the events that are emitted anyway."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import NotScored, Pipeline, Run, Score, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import ConfigError


@scorer(version="7")
def tone(run: Run) -> Score | NotScored:
    return Score(value=0.5, label="dry")


def event(*destinations: Any) -> tuple[Mapping[str, Any], Pipeline]:
    """The attributes of the event of one score, and the pipeline."""
    events = InMemoryLogRecordExporter()
    logs = LoggerProvider()
    logs.add_log_record_processor(SimpleLogRecordProcessor(events))
    pipeline = Pipeline(build_config([tone], destinations, grace=0.0), logger_provider=logs)
    provider = TracerProvider()
    provider.add_span_processor(pipeline.spans)
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    with provider.get_tracer("shop").start_as_current_span("invoke_agent support", attributes=attributes):
        pass
    assert pipeline.force_flush(100_000)
    pipeline.shutdown()
    ((record,)) = events.get_finished_logs()
    return dict(record.log_record.attributes or {}), pipeline


def test_without_a_preset_the_event_has_none_of_it() -> None:
    attributes, _ = event()
    theirs = ("microsoft.custom_event.name", "internal_properties", "gen_ai.evaluation.target")
    assert not set(theirs) & set(attributes)


def test_logfire_groups_by_the_agent_and_filters_by_the_version() -> None:
    attributes, _ = event("logfire")
    assert attributes["gen_ai.evaluation.target"] == "support"
    assert attributes["gen_ai.evaluation.evaluator_version"] == attributes["otel_evals.scorer.version"]
    assert attributes["gen_ai.evaluation.score.value"] == 0.5


def test_azure_makes_a_custom_event_of_it() -> None:
    attributes, _ = event("azure")
    assert attributes["microsoft.custom_event.name"] == "gen_ai.evaluation.result"
    assert attributes["gen_ai.agent.name"] == "support"
    assert json.loads(attributes["internal_properties"])["gen_ai.evaluator.name"] == "tone"


def test_presets_go_together_and_are_counted_nowhere() -> None:
    attributes, pipeline = event("azure", "logfire")
    assert {"microsoft.custom_event.name", "gen_ai.evaluation.target"} <= set(attributes)
    assert pipeline.destination_stats() == {}, "nothing is sent by them"


def test_a_preset_without_events_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"destinations\[0\]: logfire reads evaluation events"):
        build_config([tone], ["logfire"], evaluation_events=False)
