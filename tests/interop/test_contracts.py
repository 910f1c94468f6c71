"""The same score, sent by a vendor's official SDK and by our destination to one recording server.

What arrives is compared field by field; a field that differs is listed here with its reason.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from otel_evals.export.items import iso, items_of
from otel_evals.model import ScoredRun
from otel_evals_exporters.opik import opik_id
from tests.support.destinations import KEY, PROJECT_ID, accept, destination
from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server
from tests.support.scored import JUDGED, TRACE, scored_run
from tests.support.servers import clean_environment, interop_program

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
SENDER = Path(__file__).with_name("sdk_sender.py")
PATHS = {
    "arize": "/v2/spans/annotate",
    "datadog": "/api/intake/llm-obs/v2/eval-metric",
    "langfuse": "/api/public/scores",
    "langsmith": "/api/v1/feedback",
    "mlflow": f"/api/3.0/mlflow/traces/tr-{TRACE}/assessments",
    "opik": "/v1/private/traces/feedback-scores",
}
KEY_HEADERS = {
    "arize": "authorization",
    "datadog": "dd-api-key",
    "langfuse": "authorization",
    "langsmith": "x-api-key",
    "mlflow": "authorization",
    "opik": "authorization",
}
DIFFER: dict[str, dict[str, str]] = {
    "langsmith": {"created_at": "the time of sending; ours is the run's end", "modified_at": "the same"},
    "datadog": {"tags": "theirs has the SDK's own tags besides"},
    "mlflow": {
        "assessment_id": "the server's own; ours makes it from the evaluation's, so that it stands once",
        "_time": "the time of sending; ours is the run's end",
        "trace_id": "again, beside the path",
        "valid": "true, as the server assumes",
    },
}


def reply(request: RecordedRequest) -> Reply:
    if request.path.endswith("/info"):
        return Reply(body=b'{"version": "0.9.0", "endpoints": ["/evp_proxy/v2/", "/evp_proxy/v4/"]}')
    if request.method == "PUT":
        return Reply(204, b"")
    if request.path == PATHS["arize"]:
        return Reply(202, b"")
    if request.path == PATHS["mlflow"]:  # what was created
        assessment = {"assessment_id": "a-1", **request.body["assessment"]}
        return Reply(body=json.dumps({"assessment": assessment}).encode())
    return accept(request)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Every leaf of a JSON value by its path."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() for k, v in flat(item, f"{path}.{key}").items()}
    if isinstance(value, list):
        return {k: v for n, item in enumerate(value) for k, v in flat(item, f"{path}[{n}]").items()}
    return {path: value}


def facts(scored: ScoredRun) -> dict[str, Any]:
    (item,) = items_of([scored], content=True, errors=False)
    run = scored.run
    return {
        "key": KEY,
        "id": item.id,
        "uuid": item.uuid,
        "name": item.name,
        "value": item.value,
        "label": item.label,
        "explanation": item.explanation,
        "metadata": item.metadata,
        "time": item.time,
        "timestamp": item.timestamp,
        "start_time": iso(run.start_time),
        "service": "shop",
        "trace_id": run.trace_id,
        "span_id": run.root_span_id,
        "trace_id_decimal": str(int(run.trace_id, 16)),
        "span_id_decimal": str(int(run.root_span_id, 16)),
        "project_id": PROJECT_ID,
        "opik_trace": str(opik_id(run.trace_id, run.start_time // 1_000_000)),
    }


def posted(server: RecordingServer, name: str) -> list[RecordedRequest]:
    return [request for request in server.requests if request.path.endswith(PATHS[name])]


def normal(name: str, requests: list[RecordedRequest]) -> dict[str, Any]:
    """What was sent as leaves by path; batches joined, times as seconds, empty fields left out."""
    bodies: list[Any] = [request.body for request in requests]
    if name == "langfuse":
        bodies = sorted((s for body in bodies for s in body), key=lambda score: str(score["id"]))
    if name == "datadog":
        metrics = [m for body in bodies for m in body["data"]["attributes"]["metrics"]]
        bodies = sorted(metrics, key=lambda metric: str(metric["label"]))
    leaves = {k: v for k, v in flat(bodies).items() if v is not None}
    return {
        k: v.replace("+00:00", "Z").replace(".000", "") if "time" in k and isinstance(v, str) else v
        for k, v in leaves.items()
    }


@pytest.mark.parametrize("name", sorted(PATHS))
def test_the_official_sdk_sends_the_same(name: str, tmp_path: Path) -> None:
    python = interop_program("python", "-mlflow" if name == "mlflow" else "-sdks")
    if python is None:
        pytest.skip("run tests/interop/setup.sh first: it installs the SDKs")
    scored = scored_run(0, {"hallucination": JUDGED})
    with recording_server() as server:
        server.reply = reply
        environment = clean_environment("LANGFUSE", "LANGSMITH", "DD_", "OPIK", "ARIZE", "MLFLOW")
        environment |= {"MLFLOW_TRACKING_TOKEN": KEY, "MLFLOW_DISABLE_TELEMETRY": "true"}
        environment |= {"HOME": str(tmp_path), "OPIK_SENTRY_ENABLE": "false", "NO_PROXY": "127.0.0.1"}
        command = [str(python), str(SENDER), name, server.url, json.dumps(facts(scored))]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, done.stderr[-3000:]
        theirs = posted(server, name)
        assert theirs, f"the SDK sent {[r.path for r in server.requests]}\n{done.stderr[-3000:]}"
        server.requests = []

        async def send() -> None:
            ours = destination(name, server.url)
            assert await ours.export([scored]) == []
            await ours.shutdown()

        anyio.run(send)
        ours = posted(server, name)
    assert [r.method for r in ours][:1] == [r.method for r in theirs][:1]
    header = KEY_HEADERS[name]
    if header in theirs[0].headers:
        assert ours[0].headers[header] == theirs[0].headers[header]
    expected, found = normal(name, theirs), normal(name, ours)
    excused = DIFFER.get(name, {})
    different = {
        path: (found.get(path, "(absent)"), expected.get(path, "(absent)"))
        for path in {*expected, *found}
        if found.get(path) != expected.get(path) and not any(part in path for part in excused)
    }
    assert different == {}, "path: (ours, theirs)"
