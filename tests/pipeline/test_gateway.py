"""The gateway end to end: agents in other processes send OTLP to it, and scores come out of it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from otel_evals import Rule
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.live.providers import Providers
from otel_evals.model import Evaluation
from otel_evals.scorers import answered, keyword_coverage, tool_error_rate
from otel_evals.testing import InMemoryDestination
from tests.support import PYTHONPATH
from tests.support.agents import body, recorded
from tests.support.gateways import GatewayThread
from tests.support.recordings import send_recording
from tests.support.scored_files import score_files
from tests.support.traffic import Live
from tests.support.waits import SECONDS, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURES = os.environ.get("OTEL_EVALS_CAPTURES", "")

AGENT = """
import sys
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.support.traffic import agent_run
provider = TracerProvider()
exporter = OTLPSpanExporter(sys.argv[1] + "/v1/traces", compression=Compression.Gzip)
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
tracer = provider.get_tracer("tests.app")
for number in range(int(sys.argv[2])):
    with tracer.start_as_current_span("POST /chat"):
        agent_run(tracer, question=f"Where is order {number}?")
provider.shutdown()
"""


def run_agent(endpoint: str, runs: int, program: str = AGENT) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, endpoint, str(runs)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Failed" not in done.stderr, done.stderr


def recorded_below_an_agent() -> list[ReadableSpan]:
    """An agent below another, with a model call."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    tracer, agent = provider.get_tracer("tests.app"), {"gen_ai.operation.name": "invoke_agent"}
    with (
        tracer.start_as_current_span("invoke_agent outer", attributes=agent),
        tracer.start_as_current_span("invoke_agent inner", attributes=agent),
    ):
        tracer.start_span("chat m", attributes={"gen_ai.operation.name": "chat"}).end()
    return list(exported.get_finished_spans())


def server_span(below: ReadableSpan) -> ReadableSpan:
    """A span that no dialect claims."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    parent = trace.set_span_in_context(trace.NonRecordingSpan(below.context))
    provider.get_tracer("tests.http").start_span("GET /", parent).end()
    (span,) = exported.get_finished_spans()
    return span


def outcomes(evaluations: Sequence[Evaluation]) -> dict[str, tuple[str, Any]]:
    """What was judged how, by evaluation id."""
    return {each.evaluation_id: (each.scorer_id, each.outcome) for each in evaluations}


def test_a_run_is_scored_again_with_its_late_spans_if_they_change_it() -> None:
    """A span of another system changes nothing."""
    chat, tool, agent = recorded()
    other = server_span(below=agent)
    rules = [Rule(answered()), Rule(tool_error_rate()), Rule(keyword_coverage(), sample=0.0)]
    with GatewayThread(*rules) as gateway:
        gateway.post("/v1/traces", body([chat, agent]))
        first = gateway.evaluations(2)
        gateway.post("/v1/traces", body([other]))
        gateway.post("/v1/traces", body([tool]))
        both = gateway.evaluations(4)
        stats = gateway.service.scoring.engine.stats()
    again = both[2:]
    assert {e.evaluation_id for e in again} == {e.evaluation_id for e in first}
    assert [e.revision for e in first] == [1, 1]
    assert {e.revision > 1 for e in again} == {True}
    assert [len(each.run.operations) for each in gateway.scored.runs] == [2, 3]
    (evaluation,) = (e for e in again if e.scorer_id == "tool_error_rate")
    assert evaluation.status == "scored", "it has a tool call now"
    assert (stats.seen, stats.losses) == (1, {})
    assert [stats.rules["answered"].sampled, stats.rules["answered"].resumed] == [1, 1]


def test_scores_of_parts_do_not_stand_once_the_whole_run_is_there() -> None:
    """The agent's span comes when its children were judged each by itself."""
    chat, inner, outer = recorded_below_an_agent()
    with GatewayThread(Rule(answered())) as gateway:
        gateway.post("/v1/traces", body([chat, inner]))
        (part,) = gateway.evaluations(1)
        gateway.post("/v1/traces", body([outer]))
        found = gateway.evaluations(3)[1:]
    assert part.span_id == f"{inner.context.span_id:016x}"
    (retracted,) = [e for e in found if e.evaluation_id == part.evaluation_id]
    assert (retracted.reason, retracted.revision > 1) == ("run_truncated", True)
    (whole,) = [e for e in found if e.evaluation_id != part.evaluation_id]
    assert (whole.span_id, whole.revision) == (f"{outer.context.span_id:016x}", 1)
    assert whole.reason != "run_truncated"


def test_agents_that_were_judged_by_themselves_are_not_judged_again_below_a_late_one() -> None:
    chat, inner, outer = recorded_below_an_agent()
    with GatewayThread(Rule(answered(), scope="agent")) as gateway:
        gateway.post("/v1/traces", body([chat, inner]))
        gateway.evaluations(1)
        gateway.post("/v1/traces", body([outer]))
        found = gateway.evaluations(2)
    assert [(e.span_id, e.revision) for e in found] == [
        (f"{each.context.span_id:016x}", 1) for each in (inner, outer)
    ]


def test_live_gateway_and_file_score_the_same_traffic_alike(tmp_path: Path) -> None:
    """The same spans, scored in the process they ended in, by a gateway, and from a file."""
    rules = [Rule(answered()), Rule(tool_error_rate()), Rule(keyword_coverage(), sample=0.5)]
    exported = InMemorySpanExporter()
    with Live(*rules) as live:
        live.provider.add_span_processor(SimpleSpanProcessor(exported))
        for number in range(60):
            live.run(question=f"Where is order {number}?", answer=f"Order {number} is on its way.")
        assert live.flush()
        in_process = outcomes(live.scored.evaluations)
    spans = [s for s in exported.get_finished_spans() if s.instrumentation_scope.name != "otel_evals"]  # type: ignore[union-attr]
    with GatewayThread(*rules) as gateway:
        for start in range(0, len(spans), 7):
            assert gateway.post("/v1/traces", body(spans[start : start + 7]))[0] == 200
        by_gateway = outcomes(gateway.evaluations(len(in_process)))
    file = tmp_path / "spans.pb"
    file.write_bytes(body(spans))
    kept = InMemoryDestination()
    score_files([str(file)], build_config(rules, [kept]))
    assert by_gateway == in_process
    assert outcomes(kept.evaluations) == in_process
    assert 120 < len(in_process) < 180  # the third rule sampled some


@pytest.mark.slow
@pytest.mark.skipif(not CAPTURES, reason="OTEL_EVALS_CAPTURES names no folder of captures")
def test_captures_replayed_to_the_gateway_score_as_the_files_do() -> None:
    """Every capture of a real framework, traces and logs, posted as JSON."""
    rules = [Rule(answered()), Rule(tool_error_rate()), Rule(keyword_coverage())]
    files = sorted(p for p in Path(CAPTURES).glob("*.otlp.json") if not p.name.endswith(".logs.otlp.json"))
    differing = []
    with GatewayThread(*rules) as gateway:
        for path in files:
            logs = path.with_name(path.name.replace(".otlp.json", ".logs.otlp.json"))
            kept = InMemoryDestination()
            score_files([str(p) for p in (logs, path) if p.exists()], build_config(rules, [kept]))
            gateway.scored.clear()
            for signal, each in (("logs", logs), ("traces", path)):
                if each.exists():
                    send_recording(each, f"{gateway.endpoint}/v1/{signal}")
            gateway.service.scoring.engine.flush(SECONDS)  # some traces are not complete yet
            eventually(lambda: not gateway.service.scoring.gatherer.usage[0])
            assert gateway.service.scoring.engine.flush(SECONDS)
            if outcomes(gateway.scored.evaluations) != outcomes(kept.evaluations):
                differing.append((path.name, gateway.service.scoring.engine.losses()))
    assert len(files) > 40
    assert differing == []




def test_a_full_intake_asks_the_sender_to_send_again_and_loses_nothing() -> None:
    """While the engine's thread is busy, the answer is 429 with Retry-After, never a silent loss."""
    blocked, go_on = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go_on.wait(20)

    with GatewayThread(Rule(answered())) as gateway:
        scoring = gateway.service.scoring
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        gateway.evaluations(1)
        scoring.engine.thread.call(block)
        assert blocked.wait(20)
        scoring.engine.thread.backlog.capacity = 2
        try:
            assert not asyncio.run(scoring.put([None] * 3, 0.05))
            request = body(recorded())
            first = gateway.post("/v1/traces", body(recorded()[:2]))
            status, _, headers = gateway.post("/v1/traces", request)
        finally:
            go_on.set()
        assert (first[0], status) == (200, 429)
        assert int(headers["Retry-After"]) >= 1
        scoring.engine.thread.backlog.capacity = 50_000
        assert gateway.post("/v1/traces", request)[0] == 200
        eventually(lambda: any(len(s.run.operations) == 3 for s in gateway.scored.runs[1:]))
        assert gateway.service.scoring.engine.stats().losses == {}


def test_its_metrics_are_there_for_prometheus_with_all_that_the_examples_ask_for() -> None:
    providers = Providers(meters=MeterProvider())
    with GatewayThread(Rule(answered()), providers=providers) as gateway:
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        gateway.evaluations(1)
        text = urllib.request.urlopen(gateway.endpoint + "/metrics", timeout=30).read().decode()
    families = list(text_string_to_metric_families(text))
    samples = {(s.name, s.labels.get("outcome")): s.value for family in families for s in family.samples}
    assert samples["otel_evals_gateway_items_total", "received"] == 3
    assert samples["process_resident_memory_bytes", None] > 0
    asked = {
        name
        for file in ("prometheus/otel-evals-gateway.rules.yml", "grafana/gateway.json")
        for name in re.findall(r"\b(?:otel_evals|process)_[a-z_]+", (EXAMPLES / file).read_text())
    }
    labels = {key for family in families for sample in family.samples for key in sample.labels}
    kafka = {name for name in asked if "_kafka_" in name}
    assert asked - labels - kafka - {"otel_evals_destination", "otel_evals_reason"} <= {
        name for name, _ in samples
    } | {f"{family.name}" for family in families}
