"""Programs that run in a process of their own and export by OTLP to a receiver of the test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from tests.support import PYTHONPATH
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waits import SECONDS

__all__ = ["run_exporting"]


def run_exporting(program: str, receiver: OtlpReceiver, *command: str, **environment: str) -> None:
    """Run a program in a process of its own that exports to the receiver; it must exit by itself."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
    environment = {
        **inherited,
        "PYTHONPATH": PYTHONPATH,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "shop",
        "OTEL_METRIC_EXPORT_INTERVAL": "60000",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "openai_agents,openinference",
        **environment,
    }
    done = subprocess.run(
        [*(command or (sys.executable,)), "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
