"""The gateway in tap mode: agents send OTLP over HTTP and gRPC to the command, and scores come out of it."""

from __future__ import annotations

import gzip
import http.client
import itertools
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from prometheus_client.parser import text_string_to_metric_families

from otel_evals import sampling
from tests.support.agents import body, recorded
from tests.support.gateway_process import GatewayProcess, post
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.waits import SECONDS, eventually

RULES = ["answered", {"scorer": "tool_error_rate", "sample": "ratio(0.5)"}]
PROTOBUF, JSON = "application/x-protobuf", "application/json"


@pytest.fixture(scope="module")
def backend() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def gateway(backend: OtlpReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    section = {"grpc": "127.0.0.1:0", "quiet": 0.3, "max_body": 100_000, "max_decompressed": 200_000}
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": backend.endpoint, "OTEL_BLRP_SCHEDULE_DELAY": "50"}
    folder = tmp_path_factory.mktemp("gateway")
    options = {"evaluation_spans": "same_trace"}
    with GatewayProcess(folder, RULES, section, environment, **options) as running:
        yield running
        assert running.stop() == 0


def trace_of(spans: list[ReadableSpan]) -> str:
    return f"{spans[0].context.trace_id:032x}"


def record_of(gateway: GatewayProcess, spans: list[ReadableSpan]) -> dict[str, Any]:
    """The record of a run, once it is there; there is one."""
    wanted = trace_of(spans)
    (record,) = eventually(lambda: [r for r in gateway.records() if r["trace_id"] == wanted])
    return record  # type: ignore[no-any-return]


@pytest.mark.parametrize("exporter", ["http", "grpc"])
def test_what_an_sdk_exports_is_scored(gateway: GatewayProcess, exporter: str) -> None:
    spans = recorded(question="Where is my order?")
    if exporter == "http":
        sender: Any = HttpExporter(f"{gateway.endpoint}/v1/traces")
    else:
        sender = GrpcExporter(f"127.0.0.1:{gateway.ports['grpc']}", insecure=True)
    assert sender.export(spans) is SpanExportResult.SUCCESS
    sender.shutdown()
    record = record_of(gateway, spans)
    assert (record["input"], record["output"]) == ("Where is my order?", "It arrives on 2026-11-25.")
    scores = {e["scorer"]: e["value"] for e in record["evaluations"]}
    assert scores["answered"] == 1.0
    assert ("tool_error_rate" in scores) is sampling.is_sampled(0.5, int(trace_of(spans), 16))


def test_scores_leave_by_otlp_with_the_ids_of_the_records(
    gateway: GatewayProcess, backend: OtlpReceiver
) -> None:
    spans = recorded()
    assert post(f"{gateway.endpoint}/v1/traces", body(spans))[0] == 200
    record = record_of(gateway, spans)
    ids = {e["evaluation_id"] for e in record["evaluations"]}

    def mine(found: list[Any]) -> list[Any]:
        return [each for each in found if each.trace_id == trace_of(spans)]

    backend.wait(lambda r: len(mine(r.logs)) == len(ids) == len(mine(r.spans)))
    events, evaluations = mine(backend.logs), mine(backend.spans)
    assert {e.attributes["otel_evals.evaluation.id"] for e in events} == ids
    assert {e.event_name for e in events} == {"gen_ai.evaluation.result"}
    assert {e.span_id for e in events} == {f"{spans[-1].context.span_id:016x}"}
    assert {s.parent_span_id for s in evaluations} == {f"{spans[-1].context.span_id:016x}"}
    backend.wait_for_metric("otel_evals.score")


def test_every_form_of_a_request_is_taken(gateway: GatewayProcess) -> None:
    """Chunked bodies have no Content-Length: Node's exporter sends them so."""
    sent = []
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=SECONDS)
    for as_json, packed, chunked in itertools.product((False, True), repeat=3):
        spans = recorded()
        message = encode_spans(spans)
        data = MessageToJson(message).encode() if as_json else message.SerializeToString()
        headers = {"Content-Type": "application/json; charset=utf-8" if as_json else PROTOBUF}
        if packed:
            data, headers["Content-Encoding"] = gzip.compress(data), "gzip"
        parts = iter([data[:100], data[100:]]) if chunked else data
        connection.request("POST", "/v1/traces", parts, headers, encode_chunked=chunked)
        response = connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        assert response.headers["Content-Type"].partition(";")[0] == (JSON if as_json else PROTOBUF)
        assert answer == (b"{}" if as_json else b""), "nothing was rejected"
        sent.append(spans)
    connection.close()
    for spans in sent:
        assert record_of(gateway, spans)["evaluations"][0]["value"] == 1.0


def test_spans_in_any_order_and_in_many_requests_make_one_run(gateway: GatewayProcess) -> None:
    spans = recorded()
    for span in reversed(spans):
        assert post(f"{gateway.endpoint}/v1/traces", body([span]))[0] == 200
    assert [call["name"] for call in record_of(gateway, spans)["tool_calls"]] == ["lookup_order"]


def counts(gateway: GatewayProcess) -> dict[str, int]:
    """What `/stats` says; a counter is not there before it counted something."""
    stats = gateway.page("/stats")[1]
    received = stats["items"].get("traces", {}).get("received", 0)
    return {"received": received, "scored": stats["rules"].get("answered", {}).get("scored", 0)}


def test_the_pages_tell_what_it_received_and_scored(gateway: GatewayProcess) -> None:
    before = counts(gateway)
    assert post(f"{gateway.endpoint}/v1/traces", body(recorded(5)))[0] == 200
    wanted = {"received": before["received"] + 15, "scored": before["scored"] + 5}
    eventually(lambda: counts(gateway), lambda found: found == wanted)
    assert (gateway.page("/healthz")[0], gateway.page("/readyz")[0]) == (200, 200)
    text = urllib.request.urlopen(f"{gateway.endpoint}/metrics", timeout=SECONDS).read().decode()
    families = text_string_to_metric_families(text)
    samples = {(s.name, s.labels.get("outcome")): s.value for family in families for s in family.samples}
    assert samples["otel_evals_gateway_items_total", "received"] >= 15


@pytest.mark.slow
def test_what_was_received_is_scored_when_it_is_told_to_end(tmp_path: Path) -> None:
    """SIGTERM right after the answer: the trace is not quiet yet, but its root span is there."""
    with GatewayProcess(tmp_path, ["answered"], {"quiet": 30.0, "idle": 60.0}) as gateway:
        assert post(f"{gateway.endpoint}/v1/traces", body(recorded(5)))[0] == 200
        assert gateway.records() == []
        assert gateway.stop() == 0
        assert len(gateway.records()) == 5
