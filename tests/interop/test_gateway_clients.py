"""Agents that are not written in Python: the Vercel AI SDK in Node, and agents in Go and Java."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from otel_evals import Rule
from otel_evals.scorers import answered, grounded_in_tools, tool_error_rate
from tests.support.components import component
from tests.support.gateways import GatewayThread
from tests.support.servers import clean_environment, free_ports
from tests.support.stub_openai import CallTool, StubOpenAI

pytestmark = [pytest.mark.interop, pytest.mark.timeout(280)]
ANSWER = "It arrives on 2026-11-25."


def model(body: dict[str, Any]) -> Any:
    """Looks the order up, then answers."""
    looked_up = any(message["role"] == "tool" for message in body["messages"])
    return ANSWER if looked_up else CallTool("lookup_order", {"order_id": "A-1001"})


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], env=clean_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_agent_in_javascript_is_judged_from_its_chunked_requests() -> None:
    """The Vercel AI SDK with a tool: its answer, and the tool's result, reach the scorers."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    program = component("node/agent.mjs")
    rules = Rule(answered()), Rule(tool_error_rate()), Rule(grounded_in_tools())
    with StubOpenAI(model) as llm, GatewayThread(*rules, gateway={"quiet": 0.5, "idle": 5.0}) as gateway:
        assert run("node", program, gateway.endpoint, llm.url, "5").splitlines() == [ANSWER] * 5
        evaluations = gateway.evaluations(15)
        received = gateway.service._stats()[1]["items"]["traces"]
    assert received["received"] == received["to_judge"]
    assert Counter((e.scorer_id, e.outcome.value) for e in evaluations) == {
        ("answered", 1.0): 5,
        ("tool_error_rate", 0.0): 5,
        ("grounded_in_tools", 1.0): 5,
    }
    assert len({e.trace_id for e in evaluations}) == 5


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
