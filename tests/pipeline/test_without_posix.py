"""What Windows has no name for is taken away: nothing may need it to be imported, to score, or to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.support import PYTHONPATH
from tests.support.gateways import GatewayProcess
from tests.support.traffic import agent_run
from tests.support.waits import SECONDS, eventually

WITHOUT = """
import asyncio, concurrent.futures, logging, multiprocessing, os, random, signal, sqlite3, sys, threading
import opentelemetry.sdk._logs, opentelemetry.sdk.trace.export

for name in ("fork", "register_at_fork", "geteuid", "getuid", "sched_getaffinity", "fchmod", "killpg"):
    vars(os).pop(name, None)
os.process_cpu_count = os.cpu_count  # what Python 3.13 has without sched_getaffinity
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "pthread_sigmask", "setitimer"):
    vars(signal).pop(name, None)
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None

def refuse(*_):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refuse
"""

SCORE = """
import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from otel_evals._internal.deliver.memory import InMemoryDestination
from otel_evals.scorers import answered
from tests.support.traffic import agent_run

trace.set_tracer_provider(TracerProvider())
found = InMemoryDestination()
rules = [otel_evals.Rule(answered())]
otel_evals.configure(rules=rules, destinations=[found], **OPTIONS)
for _ in range(3):
    agent_run(trace.get_tracer("tests"))
assert otel_evals.force_flush(100_000)
assert len(found.runs) == 3, found.runs
otel_evals.shutdown()
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PYTHONPATH}"}


@pytest.mark.parametrize("options", ["{}", pytest.param("{'journal': 'journal'}", marks=pytest.mark.slow)])
def test_an_application_is_scored(options: str, environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCORE.replace("OPTIONS", options)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_gateway_scores_and_ends(environment: dict[str, str], tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path, ["answered"], environment=environment)
    gateway.start()
    try:
        provider = TracerProvider()
        exporter = OTLPSpanExporter(f"{gateway.endpoint}/v1/traces")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        agent_run(provider.get_tracer("tests"))
        eventually(lambda: gateway.scores.exists() and gateway.scores.read_text())
    finally:
        gateway.process.send_signal(signal.SIGINT)

    assert gateway.process.wait(SECONDS) == 0, gateway.log.read_text()


@pytest.mark.slow
def test_a_gateway_with_a_journal_says_what_it_lacks(environment: dict[str, str], tmp_path: Path) -> None:
    gateway = GatewayProcess(
        tmp_path, ["answered"], environment=environment, journal=str(tmp_path / "journal")
    )

    with pytest.raises(AssertionError, match=r"journal: .*needs file locks"):
        gateway.start()
