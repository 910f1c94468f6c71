"""The gateway end to end: agents in other processes send OTLP to it, and scores come out of it."""

from __future__ import annotations

import asyncio
import json
import logging
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
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client.parser import text_string_to_metric_families

from otel_evals import Rule
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.engine.journal import segments
from otel_evals._internal.live.providers import Providers
from otel_evals.model import Evaluation
from otel_evals.scorers import answered, keyword_coverage, tool_error_rate
from otel_evals.testing import InMemoryDestination
from tests.support import PYTHONPATH
from tests.support.agents import body, recorded
from tests.support.captures import FOLDERS
from tests.support.gateways import GatewayThread, post
from tests.support.scored_files import score_files
from tests.support.waits import SECONDS, eventually

EXAMPLES = Path(__file__).parents[2] / "examples"

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


def send_recording(path: Path, url: str) -> None:
    """Post every export request of a file of OTLP/JSON, one text or one per line; each must be accepted."""
    text = path.read_text()
    try:
        json.loads(text)
        requests = [text]
    except ValueError:
        requests = [line for line in text.splitlines() if line.strip()]
    for request in requests:
        status, answer, _ = post(url, request.encode(), "application/json")
        assert status == 200, answer


def no_space(*_: Any) -> None:
    raise OSError("no space left")


def outcomes(evaluations: Sequence[Evaluation]) -> dict[str, tuple[str, Any]]:
    """What was judged how, by evaluation id."""
    return {each.evaluation_id: (each.scorer_id, each.outcome) for each in evaluations}


def test_late_spans_are_counted_and_repeated_ones_are_no_loss() -> None:
    """Neither changes a score; a sender that repeats a request loses nothing."""
    chat, tool, agent = recorded()
    with GatewayThread(Rule(answered()), Rule(tool_error_rate())) as gateway:
        gateway.post("/v1/traces", body([chat, agent]))
        first = gateway.evaluations(2)
        gateway.post("/v1/traces", body([chat, agent]))
        gateway.post("/v1/traces", body([tool]))
        stats = eventually(gateway.service.scoring.engine.stats, lambda found: found.losses)
        page = json.load(urllib.request.urlopen(gateway.endpoint + "/stats", timeout=30))
        assert gateway.service.scoring.engine.flush(SECONDS)
        assert list(gateway.scored.evaluations) == first
    assert (stats.losses, stats.repeated) == ({"span_late": 1}, 2)
    assert (page["losses"], page["repeated_spans"]) == ({"spans or log records (span_late)": 1}, 2)


@pytest.mark.slow
@pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")
def test_captures_replayed_to_the_gateway_score_as_the_files_do() -> None:
    """Every capture of a real framework, traces and logs, posted as JSON."""
    rules = [Rule(answered()), Rule(tool_error_rate()), Rule(keyword_coverage())]
    every = sorted(path for folder in FOLDERS for path in folder.glob("*.otlp.json"))
    files = [path for path in every if not path.name.endswith(".logs.otlp.json")]
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


def test_what_waits_to_be_gathered_stays_in_the_journal(tmp_path: Path) -> None:
    """Although an earlier run of its trace is done meanwhile."""
    go_on = threading.Event()
    with GatewayThread(Rule(answered()), journal=tmp_path) as gateway:
        gateway.service.scoring.engine.thread.call(lambda: go_on.wait(SECONDS))
        spans = recorded()
        assert gateway.post("/v1/traces", body(spans))[0] == 200
        assert not gateway.service._journal.done(f"{spans[0].context.trace_id:032x}")
        assert [*tmp_path.rglob("*.log")]
        go_on.set()
        eventually(lambda: not [*tmp_path.rglob("*.log")])


def test_a_request_that_the_journal_cannot_keep_does_not_keep_the_others_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = recorded()
    with GatewayThread(Rule(answered()), journal=tmp_path) as gateway:
        assert gateway.post("/v1/traces", body([first]))[0] == 200
        with monkeypatch.context() as full:
            full.setattr(segments.Segment, "write", no_space)
            assert gateway.post("/v1/traces", body(others))[0] == 503
        eventually(lambda: not [*tmp_path.rglob("*.log")])


@pytest.mark.parametrize("meters", [None, MeterProvider()], ids=["without OTLP", "with a provider"])
def test_its_metrics_are_there_for_prometheus_with_all_that_the_examples_ask_for(meters: Any) -> None:
    providers = Providers(meters=meters)
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


def test_one_line_at_startup_says_what_runs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "otel_evals_gateway"), GatewayThread(Rule(answered())):
        pass
    (line,) = [each for each in caplog.messages if each.startswith("scoring by")]
    assert line == "scoring by answered; scores go to memory; no journal; nothing is forwarded"
