"""A process is killed while its scores go out; the next one sends all of them again. Each stands once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import httpx
import pytest

from tests.support import PYTHONPATH
from tests.support.servers import clean_environment
from tests.support.waits import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
RUNS = 12
HEADERS = {"mlflow": {"x-mlflow-experiment-id": "0"}, "phoenix": {}}

PROGRAM = """
import asyncio, json, sqlite3, sys, time
import otel_evals
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otel_evals._internal.scorers.kit.scorer import scorer
from tests.support.traffic import agent_run

store, backend, url, headers, value, runs = sys.argv[1:]

@scorer(version="1")
async def slow(run) -> float:
    await asyncio.sleep(0.2)
    return float(value)

provider = TracerProvider(resource=Resource({"openinference.project.name": "killed"}), shutdown_on_exit=False)
exporter = OTLPSpanExporter(f"{url}/v1/traces", headers=json.loads(headers))
provider.add_span_processor(SimpleSpanProcessor(exporter))
pipeline = otel_evals.configure(
    rules=[otel_evals.Rule(slow, concurrency=2)], tracer_provider=provider, span_attributes=False,
    destinations=[{backend: {"url": url}}],
    store=store, store_lease=0.6,
)
if int(runs):
    pipeline.engine._store._settle = lambda run: None  # what the kill would cut off: all are sent again
    for _ in range(int(runs)):
        print(f"{agent_run(provider.get_tracer('app')):032x}", flush=True)
    time.sleep(300)  # until it is killed
connection, end = sqlite3.connect(store), time.monotonic() + 120
while connection.execute("SELECT count(*) FROM run WHERE state = 'open'").fetchone()[0]:
    assert time.monotonic() < end, otel_evals.stats()
    time.sleep(0.1)
assert otel_evals.force_flush(100_000)
print(pipeline.destination_stats()[backend].exported)
otel_evals.shutdown()
"""


def in_mlflow(url: str, trace: str) -> list[float]:
    answer = httpx.get(f"{url}/api/3.0/mlflow/traces/tr-{trace}", timeout=60).raise_for_status()
    assessments = answer.json()["trace"]["trace_info"].get("assessments", [])
    return [each["feedback"]["value"] for each in assessments]


def in_phoenix(url: str, trace: str) -> list[float]:
    address = f"{url}/v1/projects/killed/trace_annotations"
    answer = httpx.get(address, params={"trace_ids": trace}, timeout=60)
    return [each["result"]["score"] for each in answer.json()["data"]] if answer.is_success else []


@pytest.mark.parametrize(("backend", "values"), [("mlflow", in_mlflow), ("phoenix", in_phoenix)])
def test_after_a_kill_and_a_replay_each_score_stands_once(
    backend: str, values: Callable[[str, str], list[float]], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue(backend)
    environment = clean_environment("MLFLOW_", "PHOENIX_") | {"PYTHONPATH": PYTHONPATH}
    store, headers = str(tmp_path / "runs.db"), json.dumps(HEADERS[backend])
    command = [sys.executable, "-c", PROGRAM, store, backend, url, headers]
    first = [*command, "0.25", str(RUNS)]
    with subprocess.Popen(first, env=environment, stdout=subprocess.PIPE, text=True) as killed:
        try:
            assert killed.stdout is not None
            # No line more than there are: it goes on without another word.
            traces = [line.strip() for line in islice(killed.stdout, RUNS)]
            eventually(lambda: values(url, traces[0]) == [0.25])
        finally:
            killed.send_signal(signal.SIGKILL)
    assert (killed.returncode, len(set(traces))) == (-signal.SIGKILL, RUNS)
    done = subprocess.run(
        [*command, "0.75", "0"], env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == RUNS, "those that stood there already were sent once more"
    eventually(lambda: all(values(url, trace) == [0.75] for trace in traces))
