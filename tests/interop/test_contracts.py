"""The same score, sent by a vendor's official SDK and by our destination to one recording server.

What arrives is compared field by field; a field that differs is listed here with its reason.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals.destinations import iso, items_of
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
    "weave": "/feedback/create",
}
KEY_HEADERS = {
    "arize": "authorization",
    "datadog": "dd-api-key",
    "langfuse": "authorization",
    "langsmith": "x-api-key",
    "mlflow": "authorization",
    "opik": "authorization",
    "weave": "authorization",
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
    if request.path == PATHS["weave"]:
        times = {"created_at": "2026-11-21T00:00:00Z"}
        created = {"id": request.body["id"], **times, "wb_user_id": "u", "payload": {}}
        return Reply(body=json.dumps(created).encode())
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
        scores = [s for body in bodies for s in (body if isinstance(body, list) else [body])]
        bodies = sorted(scores, key=lambda score: str(score["id"]))
    if name == "datadog":
        metrics = [m for body in bodies for m in body["data"]["attributes"]["metrics"]]
        bodies = sorted(metrics, key=lambda metric: str(metric["label"]))
    leaves = {k: v for k, v in flat(bodies).items() if v is not None}
    return {
        k: v.replace("+00:00", "Z").replace(".000", "") if "time" in k and isinstance(v, str) else v
        for k, v in leaves.items()
    }


def run_sdk(name: str, url: str, told: dict[str, Any], folder: Path) -> str:
    """Have the official SDK send it; returns what it said."""
    python = interop_program("python", "-mlflow" if name == "mlflow" else "-sdks")
    if python is None:
        pytest.skip("run tests/interop/setup.sh first: it installs the SDKs")
    prefixes = (
        "LANGFUSE",
        "LANGSMITH",
        "DD_",
        "OPIK",
        "ARIZE",
        "MLFLOW",
        "BRAINTRUST",
        "POSTHOG",
        "WANDB",
        "WEAVE",
    )
    environment = clean_environment(*prefixes)
    environment |= {"MLFLOW_TRACKING_TOKEN": KEY, "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment |= {"HOME": str(folder), "OPIK_SENTRY_ENABLE": "false", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(
        [str(python), str(SENDER), name, url, json.dumps(told)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr[-3000:]


def send_ours(name: str, url: str, scored: ScoredRun) -> None:
    async def send() -> None:
        ours = destination(name, url)
        assert await ours.export([scored]) == []
        await ours.shutdown()

    anyio.run(send)


@pytest.mark.parametrize("name", sorted(PATHS))
def test_the_official_sdk_sends_the_same(name: str, tmp_path: Path) -> None:
    scored = scored_run(0, {"hallucination": JUDGED})
    with recording_server() as server:
        server.reply = reply
        said = run_sdk(name, server.url, facts(scored), tmp_path)
        theirs = posted(server, name)
        assert theirs, f"the SDK sent {[r.path for r in server.requests]}\n{said}"
        server.requests = []
        send_ours(name, server.url, scored)
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


# --- those that take OpenTelemetry data: the official exporters' addresses, headers and records ---


def spans_of(request: RecordedRequest) -> list[dict[str, Any]]:
    """The spans of a request, protobuf or JSON, by what a receiver reads of them."""
    raw = gzip.decompress(request.raw) if request.headers.get("content-encoding") == "gzip" else request.raw
    if "json" in request.headers["content-type"]:
        written = json.loads(raw)
    else:
        written = json_format.MessageToDict(ExportTraceServiceRequest.FromString(raw))
    (resource,) = written["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    service = attributes(resource["resource"])["service.name"]
    as_hex = (lambda text: text) if "json" in request.headers["content-type"] else base64_to_hex
    return [
        {
            "service": service,
            "scope": scope["scope"]["name"],
            **{name: as_hex(span[name]) for name in ("traceId", "spanId", "parentSpanId")},
            **{name: span[name] for name in ("name", "startTimeUnixNano", "endTimeUnixNano")},
            "kind": {1: "SPAN_KIND_INTERNAL"}.get(span["kind"], span["kind"]),
            "attributes": attributes(span),
        }
        for span in scope["spans"]
    ]


def base64_to_hex(text: str) -> str:
    return base64.b64decode(text).hex()


def attributes(written: dict[str, Any]) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values())) for a in written.get("attributes", [])}


def test_braintrust_s_exporter_sends_the_same_score_span(tmp_path: Path) -> None:
    """Address, headers and span; the attributes' names are those of its SDKs in other languages."""
    scored = scored_run(0, {"hallucination": JUDGED})
    told = facts(scored)
    metadata = {**told["metadata"], "label": told["label"]}
    written = {
        "braintrust.scores": json.dumps({"hallucination": 0.25}),
        "braintrust.span_attributes": json.dumps({"type": "score", "name": "hallucination"}),
        "braintrust.metadata": json.dumps(metadata),
        "braintrust.output_json": json.dumps({"explanation": told["explanation"]}),
        "otel_evals.internal": True,
    }
    span_id = hashlib.sha256(told["id"].encode()).hexdigest()[:16]
    score_span = {"name": "hallucination", "span_id": span_id, "attributes": written}
    with recording_server() as server:
        run_sdk("braintrust", server.url, {**told, "score_span": score_span}, tmp_path)
        send_ours("braintrust", server.url, scored)
        theirs, ours = server.requests
    assert ours.path == theirs.path == "/otel/v1/traces"
    for header in ("authorization", "x-bt-parent"):
        assert ours.headers[header] == theirs.headers[header]
    assert spans_of(ours) == spans_of(theirs)


def test_posthog_s_exporter_sends_spans_to_the_same_address_with_the_same_key(tmp_path: Path) -> None:
    with recording_server() as server:
        run_sdk("posthog", server.url, facts(scored_run(0, {"hallucination": JUDGED})), tmp_path)
        send_ours("posthog", server.url, scored_run(0, {"hallucination": JUDGED}))
        theirs, ours = server.requests
        where = destination("posthog", server.url).spans_to()
    assert where is not None
    assert where[0] == server.url + theirs.path
    assert where[1]["authorization"] == ours.headers["authorization"] == theirs.headers["authorization"]
    assert ours.path == f"{theirs.path}/v1/logs"
