"""LiteLLM's real proxy in front of the judge's model, recording each request: its spans are not judged."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from otel_evals import Rule
from otel_evals.judges import LiteLLMJudge, OpenAICompatibleJudge
from otel_evals.scorers import classifier
from tests.support.agents import agent_run
from tests.support.gateways import GatewayThread
from tests.support.recording_server import RecordingServer, recording_server
from tests.support.servers import free_ports, interop_program
from tests.support.stub_openai import StubOpenAI
from tests.support.waits import eventually

PROGRAM = interop_program("litellm", "-litellm")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(400),
    pytest.mark.skipif(PROGRAM is None, reason="LiteLLM's proxy is not installed"),
]
KEY = "sk-" + "0123456789abcdef" * 3


@pytest.fixture(scope="module")
def model() -> Iterator[StubOpenAI]:
    with StubOpenAI({"label": "good", "reason": "so"}) as stub:
        yield stub


@pytest.fixture(scope="module")
def collector() -> Iterator[RecordingServer]:
    with recording_server() as server:
        yield server


@pytest.fixture(scope="module")
def proxy(
    model: StubOpenAI, collector: RecordingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Address of the proxy, which exports its spans to the collector."""
    folder, port = tmp_path_factory.mktemp("proxy"), free_ports(1)[0]
    upstream = {"model": "openai/stub", "api_base": model.url, "api_key": "x"}
    config = {
        "model_list": [{"model_name": "stub", "litellm_params": upstream}],
        "litellm_settings": {"callbacks": ["otel"]},
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    environment = {
        **os.environ,
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": f"{collector.url}/v1/traces",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": KEY,
    }
    command = [
        str(PROGRAM),
        "--config",
        str(folder / "config.yaml"),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            urllib.request.urlopen(f"{address}/health/liveliness", timeout=2).close()
        except (urllib.error.URLError, OSError):
            return False
        return True

    try:
        eventually(answers, seconds=200)
        yield address
    finally:
        process.terminate()
        process.wait(30)


JUDGES: dict[str, Any] = {
    "litellm": lambda url: LiteLLMJudge("openai/stub", api_base=url, api_key=KEY),
    "openai-compatible": lambda url: OpenAICompatibleJudge("stub", api_base=url, api_key=KEY),
}


@pytest.mark.parametrize("make", JUDGES.values(), ids=JUDGES)
def test_a_gateway_that_taps_the_proxy_does_not_judge_its_calls(
    make: Any, proxy: str, model: StubOpenAI, collector: RecordingServer
) -> None:
    asked, recorded = len(model.requests), len(collector.requests)
    question = classifier(make(proxy), question="How is the answer?", classes={"good": 1.0, "bad": 0.0})
    with GatewayThread(Rule(question, timeout=60)) as gateway:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{gateway.endpoint}/v1/traces")))
        agent_run(provider.get_tracer("app"))
        assert len(gateway.evaluations(1)) == 1
        spans = eventually(lambda: [each.raw for each in collector.requests[recorded:]])
        time.sleep(6)  # the proxy exports every five seconds
        spans = [each.raw for each in collector.requests[recorded:]]
        assert b"stub" in b"".join(spans), "the proxy recorded the judge's call"
        for body in spans:
            assert gateway.post("/v1/traces", body)[0] == 200
        time.sleep(3)
        assert len(model.requests) == asked + 1
        provider.shutdown()
    assert len(gateway.scored.evaluations) == 1
