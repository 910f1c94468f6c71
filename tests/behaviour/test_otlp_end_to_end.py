"""Over the wire: what a backend receives by OTLP, with one call and with no code at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.exporting_programs import run_exporting
from tests.support.grpc_otlp import grpc_otlp
from tests.support.otlp_receiver import OtlpReceiver

APPLICATION = """
import json, sys
from opentelemetry import trace
from tests.support.agents import agent_run
agent_run(trace.get_tracer("app"), answer="It arrives on 2031-03-07.", result={"eta": "2026-11-24"})
"""

ONE_CALL = """
import otel_evals
from otel_evals import Rule
from otel_evals.scorers import grounded_in_tools
otel_evals.configure(rules=[Rule(grounded_in_tools())], hold=5)
"""


def check_what_arrived(receiver: OtlpReceiver) -> None:
    """The judged span with its score, the event in its context, the metrics."""
    root = next(s for s in receiver.wait_for_spans(3) if s.name == "invoke_agent support")
    assert root.resource["service.name"] == "shop"
    assert root.attributes["otel_evals.score.grounded_in_tools"] == 0.0
    assert root.attributes["otel_evals.score.grounded_in_tools.label"] == "ungrounded"
    assert "2031-03-07" in root.attributes["otel_evals.score.grounded_in_tools.explanation"]

    (event,) = [e for e in receiver.wait_for_logs(1) if e.event_name == "gen_ai.evaluation.result"]
    assert (event.trace_id, event.span_id) == (root.trace_id, root.span_id)
    assert event.trace_flags & 1 == 1
    assert event.attributes["gen_ai.evaluation.name"] == "grounded_in_tools"
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.0
    assert type(event.attributes["gen_ai.evaluation.score.value"]) is float
    assert event.attributes["gen_ai.evaluation.score.label"] == "ungrounded"
    found = root.attributes["otel_evals.score.grounded_in_tools.evaluation_id"]
    assert event.attributes["otel_evals.evaluation.id"] == found

    metrics = receiver.wait_for_metric("otel_evals.score")
    assert metrics[-1].attributes["gen_ai.evaluation.name"] == "grounded_in_tools"
    assert metrics[-1].attributes["gen_ai.agent.name"] == "support"
    assert metrics[-1].count == 1
    counted = receiver.wait_for_metric("otel_evals.evaluations")
    assert any(m.attributes["otel_evals.outcome"] == "scored" and m.value == 1 for m in counted)
    runs = receiver.wait_for_metric("otel_evals.runs")
    assert any(m.attributes["otel_evals.outcome"] == "eligible" and m.value == 1 for m in runs)


ALL = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
EACH = {
    **{f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL": "grpc" for signal in ("TRACES", "LOGS", "METRICS")},
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [ALL, EACH], ids=["all", "each signal"])
def test_all_three_signals_go_by_grpc_where_the_environment_says_so(protocol: dict[str, str]) -> None:
    with OtlpReceiver() as receiver, grpc_otlp(receiver) as endpoint:
        run_exporting(ONE_CALL + APPLICATION, receiver, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **protocol)
        check_what_arrived(receiver)
        assert {path for path, _ in receiver.requests} == {
            f"grpc/v1/{s}" for s in ("traces", "logs", "metrics")
        }


@pytest.mark.slow
def test_signals_may_go_by_different_protocols() -> None:
    with OtlpReceiver() as receiver, grpc_otlp(receiver) as endpoint:
        other = {"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": endpoint}
        run_exporting(ONE_CALL + APPLICATION, receiver, **other)
        check_what_arrived(receiver)
        assert {path for path, _ in receiver.requests} == {"/v1/traces", "grpc/v1/logs", "/v1/metrics"}


def test_one_call_and_an_endpoint_are_enough() -> None:
    """`configure()` with an OTLP endpoint set: the scores arrive in every way, without an explicit flush."""
    with OtlpReceiver() as receiver:
        run_exporting(ONE_CALL + APPLICATION, receiver)
        check_what_arrived(receiver)
        assert len(receiver.spans) == 3, "the application's own"


@pytest.mark.slow
def test_proposed_attributes_come_in_addition_when_asked_for() -> None:
    options = 'hold=5, semconv="proposed", evaluation_spans="same_trace"'
    with OtlpReceiver() as receiver:
        run_exporting(ONE_CALL.replace("hold=5", options) + APPLICATION, receiver)
        (event,) = [e for e in receiver.wait_for_logs(1) if e.event_name == "gen_ai.evaluation.result"]
        span = next(s for s in receiver.wait_for_spans(4) if s.name == "evaluate grounded_in_tools")
    assert span.attributes["gen_ai.operation.name"] == "evaluation"
    for attributes in (event.attributes, span.attributes):
        assert attributes["gen_ai.evaluation.name"] == "grounded_in_tools"
        assert attributes["gen_ai.evaluation.evaluator.id"] == "grounded_in_tools"
        assert attributes["gen_ai.evaluation.evaluator.version"] == attributes["otel_evals.scorer.version"]
        assert attributes["gen_ai.evaluation.evaluator.type"] == "deterministic"
        assert list(attributes["gen_ai.evaluation.score.range"]) == [0.0, 1.0]


@pytest.mark.slow
def test_without_code_under_opentelemetry_instrument(tmp_path: Path) -> None:
    """The application knows nothing of scoring; a YAML file and environment variables do it all."""
    config = tmp_path / "otel-evals.yaml"
    rules = "rules: [grounded_in_tools]\nhold: 5\nevaluation_spans: same_trace\n"
    config.write_text(rules, encoding="utf-8")
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")
    with OtlpReceiver() as receiver:
        run_exporting(
            APPLICATION,
            receiver,
            str(instrument),
            sys.executable,
            OTEL_EVALS_CONFIG=str(config),
            OTEL_TRACES_EXPORTER="otel_evals",
            OTEL_LOGS_EXPORTER="otlp",
            OTEL_METRICS_EXPORTER="otlp",
        )
        check_what_arrived(receiver)
        spans = {s.name: s for s in receiver.wait_for_spans(4)}
        root, evaluation = spans["invoke_agent support"], spans["evaluate grounded_in_tools"]
        assert (evaluation.trace_id, evaluation.parent_span_id) == (root.trace_id, root.span_id)
        assert evaluation.scope_name == "otel_evals"


@pytest.mark.slow
def test_a_wrong_file_is_logged_and_the_application_runs_on(tmp_path: Path) -> None:
    """A broken configuration costs the scores, never the spans."""
    config = tmp_path / "otel-evals.yaml"
    config.write_text("rules: [grounded_in_tolls]\n", encoding="utf-8")
    instrument = Path(sys.executable).with_name("opentelemetry-instrument")
    with OtlpReceiver() as receiver:
        run_exporting(
            APPLICATION,
            receiver,
            str(instrument),
            sys.executable,
            OTEL_EVALS_CONFIG=str(config),
            OTEL_TRACES_EXPORTER="otel_evals",
            OTEL_LOGS_EXPORTER="none",
            OTEL_METRICS_EXPORTER="none",
        )
        names = [s.name for s in receiver.wait_for_spans(3)]
        assert "invoke_agent support" in names


@pytest.mark.slow
@pytest.mark.parametrize("status", [503, 400])
def test_a_backend_that_refuses_costs_the_application_nothing(status: int) -> None:
    """The program ends by itself, within its budget, and without an exception."""
    with OtlpReceiver() as receiver:
        receiver.fail_with = status
        run_exporting(
            ONE_CALL.replace("hold=5", "hold=0.2, shutdown_timeout=2") + APPLICATION,
            receiver,
            OTEL_EXPORTER_OTLP_TIMEOUT="1",
        )
        assert receiver.requests
