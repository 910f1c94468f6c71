"""`otel-evals demo --to` every backend, each a server on loopback: scores go to all, spans to the first."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals._internal.cli.backends import backends
from tests.support.destinations import KEY, accept
from tests.support.recording_server import RecordingServer, recording_server
from tests.support.servers import clean_environment

RUNS = 12
PROGRAM = "from otel_evals._internal.cli import main; main()"
SDKS = ("ARIZE", "BRAINTRUST", "DD_", "DT_", "LANGFUSE", "LANGSMITH", "LOGFIRE", "MLFLOW", "OPIK", "POSTHOG")
CREDENTIALS = (*SDKS, "WANDB_", "WF_")


def keys() -> dict[str, str]:
    """Every variable that a backend needs, besides addresses."""
    needed = {name for each in backends().values() for name in each.needs}
    addresses = {"DT_ENV_URL", "MLFLOW_TRACKING_URI", "PHOENIX_COLLECTOR_ENDPOINT"}
    return dict.fromkeys(needed - addresses, KEY)


def scores_at(server: RecordingServer, scorer: str) -> int:
    """How often a scorer's name stands in JSON requests, as a whole string."""
    whole = f'"{scorer}"'.encode()
    return sum(r.raw.count(whole) for r in server.requests if "json" in r.headers.get("content-type", ""))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", ["langfuse", "logfire", "phoenix"])
def test_the_demo_sends_to_every_backend(first: str, tmp_path: Path) -> None:
    names = sorted(backends(), key=lambda name: (name != first, name))
    with ExitStack() as stack:
        servers = {name: stack.enter_context(recording_server()) for name in names}
        for server in servers.values():
            server.reply = accept
        to = [word for name, server in servers.items() for word in ("--to", f"{name}={server.url}")]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "demo", "--runs", str(RUNS), "--out", str(tmp_path), *to],
            env=clean_environment(*CREDENTIALS) | keys() | {"NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    assert "accepted" not in done.stdout, "the report tells who did not accept all"
    lines = (tmp_path / "scores.jsonl").read_text().splitlines()
    wanted = Counter(
        e["scorer"] for line in lines for e in json.loads(line)["evaluations"] if e["status"] == "scored"
    )
    assert wanted["grounded_in_tools"] > 0
    for name, each in backends().items():
        if hasattr(each, "send"):
            # To the trace as well; as the id of what was evaluated too.
            times = 2 if name in ("phoenix", "dynatrace") else 1
            found = {scorer: scores_at(servers[name], scorer) for scorer in wanted}
            assert found == {scorer: count * times for scorer, count in wanted.items()}, name
    for name, path in (("phoenix", "/redirects/traces/"), ("mlflow", "/#/experiments/0/traces?")):
        assert f"One of the worst runs in {name}: {servers[name].url}{path}" in done.stdout
    spans = [r for r in servers[first].requests if r.path.endswith("/v1/traces")]
    assert spans
    assert ExportTraceServiceRequest.FromString(unpacked(spans[0].raw, spans[0].headers)).resource_spans
    assert KEY not in done.stdout


def unpacked(raw: bytes, headers: dict[str, str]) -> bytes:

    return gzip.decompress(raw) if headers.get("content-encoding") == "gzip" else raw
