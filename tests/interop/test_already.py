"""Beside each tracing library that is there already, in either order: all scores, and no span of the
application lost or doubled. Each page of docs/already is run as it stands, with the real library.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from azure_ingestion import AzureIngestion
from otlp_receiver import OtlpReceiver
from stub_openai import StubOpenAI

from otel_evals.model import SpanRecord

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "adopted_app.py"
PLACE = os.environ.get("OTEL_EVALS_INTEROP", str(ROOT / ".venv-interop"))
PAGES = sorted(path.stem for path in (ROOT / "docs" / "already").glob("*.md") if path.stem != "index")
CALLS = 6
SCORE = "otel_evals.score.answered"


@dataclass(frozen=True)
class Received:
    """What a program sent, by OTLP and to Azure Monitor."""

    otlp: OtlpReceiver
    azure: AzureIngestion
    seconds: float
    """From the program's start until its first scored span was here; 0 if there was none."""

    @property
    def application(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """The application's spans by name and attribute names, but for the scores."""
        return Counter(
            (s.name, tuple(sorted(key for key in s.attributes if not key.startswith("otel_evals."))))
            for s in self.otlp.spans
            if s.scope_name != "otel_evals"
        )

    @property
    def events(self) -> set[str]:
        """The traces of evaluation events."""
        logs = {log.trace_id for log in self.otlp.logs if log.event_name == "gen_ai.evaluation.result"}
        sent = self.azure.of_type("Message")
        return logs | {m["trace_id"] for m in sent if "gen_ai.evaluation.name" in m["properties"]}

    @property
    def metrics(self) -> set[str]:
        """The names of metrics."""
        sent = {metric["name"] for item in self.azure.of_type("Metric") for metric in item["metrics"]}
        return sent | {metric.name for metric in self.otlp.metrics}


def environment(receiver: OtlpReceiver, stub: StubOpenAI, azure: AzureIngestion) -> dict[str, str]:
    at = receiver.endpoint
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    return own | {
        "CALLS": str(CALLS),
        "OTEL_SERVICE_NAME": "app",
        "OTEL_TRACES_SAMPLER": "always_on",  # Azure Monitor's own is five traces a second
        "OTEL_EXPORTER_OTLP_ENDPOINT": at,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OPENAI_BASE_URL": stub.url,
        "LOGFIRE_SEND_TO_LOGFIRE": "false",
        "LOGFIRE_CONSOLE": "false",
        "TRACELOOP_BASE_URL": at,
        "TRACELOOP_TELEMETRY": "false",
        "PHOENIX_COLLECTOR_ENDPOINT": at,
        "LANGFUSE_BASE_URL": at,
        "LANGFUSE_HOST": at,
        "LANGFUSE_PUBLIC_KEY": "pk",
        "LANGFUSE_SECRET_KEY": "sk",
        "MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "APPLICATIONINSIGHTS_CONNECTION_STRING": azure.connection_string,
        "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
        "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "true",
    }


def scored(receiver: OtlpReceiver) -> list[SpanRecord]:
    """The application's spans that carry a score."""
    return [s for s in receiver.spans if SCORE in s.attributes and s.scope_name != "otel_evals"]


def run(page: str, order: str) -> Received:
    python = Path(f"{PLACE}-already-{page}", "bin", "python")
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    with OtlpReceiver() as receiver, StubOpenAI("It arrives on Monday.") as stub, AzureIngestion() as azure:
        began, seconds = time.monotonic(), 0.0
        with (
            subprocess.Popen(
                [python, PROGRAM, page, order],
                env=environment(receiver, stub, azure),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            ) as program,
            ThreadPoolExecutor(1) as reading,
        ):
            said = reading.submit(program.communicate)
            while program.poll() is None and time.monotonic() < began + 200:
                seconds = seconds or (time.monotonic() - began if scored(receiver) else 0.0)
                time.sleep(0.02)
            program.kill()
            assert program.wait() == 0, said.result()[1]
        return Received(receiver, azure, seconds)


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_all_scores_arrive_and_nothing_else_changes(
    page: str, record_property: Callable[[str, object], None]
) -> None:
    without = run(page, "without").application
    assert sum(without.values()) >= CALLS
    for order in ("after", "before"):
        received = run(page, order)
        assert received.application == without, order
        assert len({s.trace_id for s in scored(received.otlp)}) == CALLS, order
        evaluations = [s for s in received.otlp.spans if s.name == "evaluate answered"]
        assert len(evaluations) == CALLS, order
        assert len(received.events) == CALLS, order
        assert "otel_evals.score" in received.metrics, order
        if page == "azure":
            sent = received.azure.of_type("RemoteDependency")
            assert len({s["trace_id"] for s in sent if SCORE in s["properties"]}) == CALLS, order
        record_property(f"seconds_to_first_score[{page}, {order}]", round(received.seconds, 1))
