"""The gateway and senders that mean it no good: the right answer, bounded memory, and the next is served."""

from __future__ import annotations

import contextlib
import gzip
import os
import socket
import ssl
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_evals import Rule
from otel_evals.scorers import answered
from tests.pipeline.test_gateway import body, recorded
from tests.support.bombs import BOMBS, PROTOBUF
from tests.support.certificates import certificates, needs_openssl
from tests.support.gateways import GatewayProcess, GatewayThread, post
from tests.support.waits import eventually

GRPC_REFUSALS = ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNAVAILABLE")


MIB = 1024 * 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_requests_stay_within_the_memory_that_all_may_take(tmp_path: Path) -> None:
    """Four times `max_decompressed` and the margin of a heap: bombs, and bodies that never arrive whole."""
    section = {"grpc": "127.0.0.1:0", "max_body": 4 * MIB, "max_decompressed": 4 * MIB, "request_timeout": 60}
    with GatewayProcess(tmp_path, ["answered"], section) as gateway, contextlib.ExitStack() as opened:

        def largest() -> int:
            status = Path(f"/proc/{gateway.process.pid}/status").read_text()
            return 1024 * int(status.split("VmHWM:")[1].split()[0])

        before = largest()
        channel = opened.enter_context(grpc.insecure_channel(f"127.0.0.1:{gateway.ports['grpc']}"))
        export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        senders = opened.enter_context(ThreadPoolExecutor(8))
        for signal, kind, build in BOMBS.values():
            path, data = f"{gateway.endpoint}/v1/{signal}", build(MIB // 32)
            packed = gzip.compress(data, 1)
            for sent in [senders.submit(post, path, packed, kind, Content_Encoding="gzip") for _ in range(6)]:
                assert sent.result()[0] in (200, 400, 413, 503)
            if (signal, kind) == ("traces", PROTOBUF):
                for call in [export.future(data, timeout=60) for _ in range(6)]:
                    assert call.exception() is None or call.code().name in GRPC_REFUSALS
        head = b"POST /v1/traces HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\n"
        head += b"Content-Length: %d\r\n\r\n" % (4 * MIB)
        for _ in range(60):
            sender = opened.enter_context(socket.create_connection(("127.0.0.1", gateway.ports["http"])))
            with contextlib.suppress(OSError):
                sender.sendall(head + bytes(4 * MIB - 1))
        assert largest() - before < 16 * MIB + 64 * MIB


def test_one_trace_of_far_too_many_spans_is_bounded_and_counted() -> None:
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.scope.name = "app"
    trace = os.urandom(16)
    for number in range(1, 30_001):
        span = scoped.spans.add(trace_id=trace, span_id=number.to_bytes(8), name="chat m")
        span.parent_span_id = b"" if number == 1 else (1).to_bytes(8)
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    with GatewayThread(Rule(answered()), gateway={"quiet": 1.0, "idle": 2.0}) as gateway:
        assert gateway.post("/v1/traces", request.SerializeToString())[0] == 200
        scoring = gateway.service.scoring
        losses = eventually(lambda: not scoring.gatherer.usage[0] and scoring.engine.stats().losses)
        assert losses["span_limit_per_trace"] == 28_000
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        eventually(lambda: any(e.scorer_id == "answered" for e in gateway.scored.evaluations))


def test_odd_values_and_times_are_judged_or_rejected_with_a_count() -> None:
    request = ExportTraceServiceRequest.FromString(body(recorded()))
    spans = request.resource_spans[0].scope_spans[0].spans
    for value in (float("nan"), float("inf"), -float("inf")):
        spans[0].attributes.add(key=str(value)).value.double_value = value
    spans[0].start_time_unix_nano, spans[0].end_time_unix_nano = 2**64 - 1, 0
    spans[1].start_time_unix_nano = 0
    twice = spans.add()
    twice.CopyFrom(spans[0])
    bad = spans.add(trace_id=b"short", name="secret name")
    bad.span_id = b"\x01" * 8
    with GatewayThread(Rule(answered()), gateway={"max_attributes": 50}) as gateway:
        status, answer, _ = gateway.post("/v1/traces", request.SerializeToString())
        partial = ExportTraceServiceResponse.FromString(answer).partial_success
        assert (status, partial.rejected_spans) == (200, 1)
        assert partial.error_message == "1 with no valid trace id"
        assert len(gateway.evaluations(1)) == 1


NUMBERS = ["1e999", "-1e999", "NaN", "Infinity", "1e-999", "9" * 400, '"1e999"', '"nan"', "[1e999]", "{}"]
PLACES = [
    '"startTimeUnixNano": {}', '"endTimeUnixNano": {}', '"kind": {}', '"flags": {}',
    '"droppedEventsCount": {}', '"status": {{"code": {}}}',
    '"attributes": [{{"key": "k", "value": {{"intValue": {}}}}}]',
    '"attributes": [{{"key": "k", "value": {{"doubleValue": {}}}}}]', '"events": [{{"timeUnixNano": {}}}]',
]  # fmt: skip


def test_numbers_beyond_all_bounds_in_json_are_read_or_refused() -> None:
    """As no encoder writes them: no request ends the gateway, or costs it an answer."""
    span = f'"traceId": "{"a" * 32}", "spanId": "{"b" * 16}", "name": "n"'
    form = '{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{{}, {}}}]}}]}}]}}'
    with GatewayThread(Rule(answered())) as gateway:
        for place in PLACES:
            for number in NUMBERS:
                request = form.format(span, place.format(number)).encode()
                status, _, _ = gateway.post("/v1/traces", request, "application/json")
                assert status in (200, 400), (place, number)
        assert gateway.post("/v1/traces", body(recorded()))[0] == 200
        eventually(lambda: gateway.scored.evaluations)


def takes(gateway: GatewayThread, context: ssl.SSLContext) -> bool:
    headers = {"Content-Type": "application/x-protobuf", "Host": "any.example"}
    request = urllib.request.Request(gateway.endpoint + "/v1/traces", body(recorded()), headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, ConnectionError, ssl.SSLError):
        return False


@needs_openssl
def test_tls_is_spoken_and_its_certificate_may_be_replaced(tmp_path: Path) -> None:
    certificate, key = certificates(tmp_path)
    section = {"tls": {"certificate": str(certificate), "key": str(key)}, "grpc": "127.0.0.1:0"}
    with GatewayThread(Rule(answered()), gateway=section) as gateway:
        assert takes(gateway, ssl.create_default_context(cafile=certificate))
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(f"127.0.0.1:{gateway.service.ports['grpc']}", credentials) as channel:
            path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
            assert channel.unary_unary(path)(body(recorded()), timeout=30) == b""
        new, new_key = certificates(tmp_path, "new")
        new_key.replace(key)
        new.replace(certificate)
        context = ssl.create_default_context(cafile=certificate)
        assert eventually(lambda: takes(gateway, context))
        assert len(gateway.evaluations(3)) >= 3


def in_session(gateway: GatewayThread, context: ssl.SSLContext, session: Any = None) -> Any:
    """The session of a connection that was answered; None if it was not."""
    with socket.create_connection(("127.0.0.1", gateway.service.ports["http"])) as plain:
        try:
            connection = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
            connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            return connection.session if connection.recv(99) else None
        except OSError:
            return None


@needs_openssl
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_with_a_client_authority_only_its_clients_may_send(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The authority may be replaced, too; sessions of its clients end with it."""
    certificate, key = certificates(tmp_path)
    client, client_key = certificates(tmp_path, "client")
    other, other_key = certificates(tmp_path, "other")
    tls = {"certificate": str(certificate), "key": str(key), "client_ca": str(client)}
    with GatewayThread(Rule(answered()), gateway={"tls": tls}) as gateway:
        context = ssl.create_default_context(cafile=certificate)
        assert not takes(gateway, context)
        context.load_cert_chain(client, client_key)
        assert takes(gateway, context)
        others = ssl.create_default_context(cafile=certificate)
        others.load_cert_chain(other, other_key)
        assert not takes(gateway, others)
        context.maximum_version = version
        session = in_session(gateway, context)
        assert session
        other.replace(client)
        eventually(lambda: takes(gateway, others))
        assert not takes(gateway, context)
        assert not in_session(gateway, context, session)


def test_it_does_not_listen_beyond_loopback_unless_it_is_told_to() -> None:
    from otel_evals_gateway import GatewayOptions

    assert GatewayOptions().http == "127.0.0.1:4318"
    assert GatewayOptions().grpc is None
