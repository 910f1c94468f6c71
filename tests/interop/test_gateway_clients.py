"""Agents with OpenTelemetry's own SDKs in Go and Java."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from otel_evals import Rule
from otel_evals.scorers import answered, grounded_in_tools, tool_error_rate
from tests.support.components import component
from tests.support.gateways import GatewayThread
from tests.support.servers import clean_environment, free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(280)]


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], env=clean_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("language", ["go", "java"])
def test_an_agent_with_opentelemetry_s_own_sdk_is_judged(language: str) -> None:
    """Go sends compressed requests over HTTP, Java over gRPC: the answer and the tool's result are read."""
    if language == "go":
        command: tuple[str | Path, ...] = (component("bin/goagent"),)
    else:
        command = ("java", "-cp", f"{component('java')}/*:{component('java')}", "Agent")
    rules = Rule(answered()), Rule(tool_error_rate()), Rule(grounded_in_tools())
    (port,) = free_ports(1)
    options = {"quiet": 0.5, "idle": 5.0, "grpc": f"127.0.0.1:{port}"}
    with GatewayThread(*rules, gateway=options) as gateway:
        endpoint = gateway.endpoint if language == "go" else f"http://127.0.0.1:{port}"
        sent = run(*command, endpoint, "5").split()
        evaluations = gateway.evaluations(15)
    assert Counter((e.scorer_id, e.outcome.value) for e in evaluations) == {
        ("answered", 1.0): 5,
        ("tool_error_rate", 0.0): 5,
        ("grounded_in_tools", 1.0): 5,
    }
    assert {e.trace_id for e in evaluations} == set(sent)
