"""Runs of the programs of `setups` and `adopted_app`, in the environments of tests/interop/setup.sh."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_evals.model import SpanRecord
from tests.support import PYTHONPATH
from tests.support.azure_ingestion import AzureIngestion, azure_ingestion
from tests.support.otlp_receiver import OtlpReceiver, ReceivedLog
from tests.support.stub_openai import StubOpenAI

SETUPS, PAGES = "tests.support.setups", "tests.support.adopted_app"
SCORE = "otel_evals.score.answered"
EVENT = "gen_ai.evaluation.result"
CALLS = 3
PACKAGES = [
    str(Path(PYTHONPATH, package)) for package in ("instrumentation", "exporters", "gateway", "monitor")
]
"""The environments may have another checkout."""


@dataclass(frozen=True)
class Received:
    """What a program sent, by OTLP and to Azure Monitor, and what it printed."""

    otlp: OtlpReceiver
    azure: AzureIngestion
    printed: str
    warnings: str
    """Of otel-evals."""

    @property
    def application(self) -> Counter[object]:
        """The application's spans by name, without ids in it, service and attribute names, without scores."""
        return Counter(
            (
                re.sub(r"[0-9a-f-]{20,}", "ID", s.name),
                str(s.resource.get("service.name")),
                tuple(sorted(key for key in s.attributes if not key.startswith("otel_evals."))),
            )
            for s in self.otlp.spans
            if s.scope_name != "otel_evals"
        )

    @property
    def scored(self) -> list[SpanRecord]:
        """The application's spans that carry a score."""
        return [s for s in self.otlp.spans if SCORE in s.attributes and s.scope_name != "otel_evals"]

    @property
    def logged(self) -> list[ReceivedLog]:
        """The evaluation events that came by OTLP."""
        return [log for log in self.otlp.logs if log.event_name == EVENT]

    @property
    def events(self) -> set[str]:
        """The traces of evaluation events."""
        sent = self.azure.of_type("Message")
        in_azure = {m["trace_id"] for m in sent if "gen_ai.evaluation.name" in m["properties"]}
        return {log.trace_id for log in self.logged} | in_azure

    @property
    def metrics(self) -> set[str]:
        """The names of metrics."""
        sent = {metric["name"] for item in self.azure.of_type("Metric") for metric in item["metrics"]}
        return sent | {metric.name for metric in self.otlp.metrics}


def run(
    environment: str,
    program: str,
    *arguments: str,
    by: str = "",
    variables: Mapping[str, str] | None = None,
) -> Received:
    """Run a program to its end.

    Args:
        environment: the name of one that setup.sh made, or `here` for that of the tests.
        program: a module.
        arguments: of the program.
        by: a command of the environment that starts Python.
        variables: more environment variables.
    """
    place = os.environ.get("OTEL_EVALS_INTEROP", str(Path(__file__).parents[2] / ".venv-interop"))
    python = Path(sys.executable if environment == "here" else f"{place}-{environment}/bin/python")
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    start = [python.with_name(by)] if by else []
    with (
        tempfile.TemporaryDirectory() as folder,
        OtlpReceiver() as receiver,
        StubOpenAI("It arrives on Monday.") as stub,
        azure_ingestion() as azure,
    ):
        warnings = Path(folder, "warnings")
        warnings.touch()
        done = subprocess.run(
            [*start, python, "-m", program, *arguments],
            env=_variables(receiver, stub, azure) | {"WARNINGS": str(warnings)} | dict(variables or {}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed
        return Received(receiver, azure, printed, warnings.read_text())


def _variables(receiver: OtlpReceiver, stub: StubOpenAI, azure: AzureIngestion) -> dict[str, str]:
    at = receiver.endpoint
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    return own | {
        "PYTHONPATH": os.pathsep.join([PYTHONPATH, *PACKAGES]),
        "CALLS": str(CALLS),
        "OTEL_SERVICE_NAME": "app",
        "OTEL_TRACES_SAMPLER": "always_on",  # Azure Monitor's own is five traces a second
        # What a killed process sent before must not depend on its speed.
        "OTEL_BLRP_SCHEDULE_DELAY": "600000",
        "OTEL_BSP_SCHEDULE_DELAY": "600000",
        "OTEL_EXPORTER_OTLP_ENDPOINT": at,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OPENAI_BASE_URL": stub.url,
        "OPENAI_API_KEY": "k",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LOGFIRE_SEND_TO_LOGFIRE": "false",
        "LOGFIRE_CONSOLE": "false",
        "TRACELOOP_BASE_URL": at,
        "TRACELOOP_TELEMETRY": "false",
        "PHOENIX_COLLECTOR_ENDPOINT": at,
        "LANGFUSE_BASE_URL": at,
        "LANGFUSE_HOST": at,
        "LANGFUSE_PUBLIC_KEY": "pk",
        "LANGFUSE_SECRET_KEY": "sk",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "APPLICATIONINSIGHTS_CONNECTION_STRING": azure.connection_string,
        "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
        "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "true",
    }
