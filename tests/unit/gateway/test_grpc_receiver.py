"""The gRPC receiver: OpenTelemetry's own exporter, and the status codes of OTLP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_evals_gateway import GatewayOptions
from otel_evals_gateway._internal.receiver import grpc_receiver
from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.grpc_receiver import GrpcReceiver
from otel_evals_gateway._internal.receiver.receiver import RequestLimits
from tests.support.waits import SECONDS, eventually

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


class Served:
    """A receiver in a thread, and a channel to it."""

    def __init__(self, answer: ExportAnswer | None = None, seconds: float = 20.0, **options: Any) -> None:
        self.answer = answer or ExportAnswer()
        self.taken: list[ExportRequest] = []
        self.arrived, self.wait = False, 0.0
        self._options, self._seconds = options, seconds
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _handle(self, request: ExportRequest) -> ExportAnswer:
        self.arrived = True
        await asyncio.sleep(self.wait)
        self.taken.append(request)
        if self.answer.status == 500:
            raise RuntimeError("secret words")
        return self.answer

    async def _run(self) -> None:
        self._stop, self._loop = asyncio.Event(), asyncio.get_running_loop()
        options = GatewayOptions(max_body=10_000, max_decompressed=20_000, request_timeout=self._seconds)
        self.limits = limits = RequestLimits(options)
        receiver = GrpcReceiver(self._handle, ("traces", "logs"), limits, **self._options)
        self.port = await receiver.start("127.0.0.1", 0)
        self._ready.set()
        await self._stop.wait()
        await receiver.stop(1.0)

    def call(self, path: str, body: bytes, **metadata: str) -> bytes:
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            return bytes(channel.unary_unary(path)(body, timeout=20, metadata=tuple(metadata.items())))

    def refusal(self, path: str, body: bytes, **metadata: str) -> Any:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(path, body, **metadata)
        return caught.value

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as each:
        yield each


def test_a_success_is_the_response_of_its_signal(served: Served) -> None:
    assert served.call(TRACES, b"") == b""
    served.answer = ExportAnswer(rejected=2, message="why")
    assert ExportTraceServiceResponse.FromString(served.call(TRACES, b"")).partial_success.rejected_spans == 2
    logs = ExportLogsServiceResponse.FromString(served.call(LOGS, b""))
    assert (logs.partial_success.rejected_log_records, logs.partial_success.error_message) == (2, "why")


def test_what_is_to_be_sent_again_has_a_time(served: Served) -> None:
    served.answer = ExportAnswer(429, "no capacity", retry_after=1.5)
    error = served.refusal(TRACES, b"")
    assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "no capacity")
    details = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = RetryInfo()
    assert details.details[0].Unpack(info)
    assert info.retry_delay.ToMilliseconds() == 1_500
    served.answer = ExportAnswer(503, "away", retry_after=1.0)
    assert served.refusal(TRACES, b"").code() is grpc.StatusCode.UNAVAILABLE


def test_what_cannot_be_taken_has_its_code_and_the_next_is_served(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    assert served.refusal(TRACES, b"\xff" * 9).code() is grpc.StatusCode.INVALID_ARGUMENT
    too_large = served.refusal(TRACES, bytes(20_000))
    assert too_large.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(too_large.trailing_metadata())
    eventually(lambda: served.limits.answers == {("traces", 400): 1, ("traces", 413): 1})
    metrics = TRACES.replace("trace", "metrics").replace("Trace", "Metrics")
    assert served.refusal(metrics, b"").code() is grpc.StatusCode.UNIMPLEMENTED
    served.answer = ExportAnswer(500)
    inside = served.refusal(TRACES, b"")
    assert (inside.code(), inside.details()) == (grpc.StatusCode.INTERNAL, "internal error")
    assert "could not be handled" in caplog.text
    served.answer = ExportAnswer()
    assert served.call(TRACES, b"") == b""


def test_a_sender_without_a_token_is_refused_before_its_message_arrives(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("right")
    never = threading.Event()

    def messages() -> Iterator[bytes]:
        never.wait(20)
        yield b""

    with Served(tokens=BearerTokens(tmp_path / "tokens")) as served:
        with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.stream_unary(TRACES)(messages(), timeout=15)
            never.set()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        wrong = served.refusal(TRACES, b"", authorization="Bearer wrong")
        assert (wrong.code(), served.taken) == (grpc.StatusCode.UNAUTHENTICATED, [])
        assert served.call(TRACES, b"", authorization="Bearer right") == b""


def test_a_message_that_does_not_arrive_in_time_is_refused() -> None:
    never = threading.Event()

    def messages() -> Iterator[bytes]:
        never.wait(20)
        yield b""

    with Served(seconds=0.2) as served, grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.stream_unary(TRACES)(messages(), timeout=15)
        never.set()
        assert caught.value.details() == "the message did not arrive in 0.2 s"


def test_a_request_whose_sender_leaves_is_still_taken_whole() -> None:
    with Served() as served, grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        served.wait = 0.5
        call = channel.unary_unary(TRACES).future(b"", timeout=15)
        eventually(lambda: served.arrived)
        call.cancel()
        eventually(lambda: served.taken)


@pytest.mark.parametrize("sent", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"])
def test_a_connection_without_a_call_is_closed(sent: bytes) -> None:
    """It would keep others out: one that sends nothing, and one that only begins with HTTP/2."""
    with Served(seconds=0.5) as served, socket.create_connection(("127.0.0.1", served.port), 20) as silent:
        silent.sendall(sent)
        while silent.recv(1_000):
            pass


def test_connections_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_receiver, "max_connections", lambda: 3)
    with Served() as served, contextlib.ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20))
        assert served.refusal(TRACES, b"").code() is grpc.StatusCode.UNAVAILABLE
        opened.close()
        eventually(lambda: _served(served))


def _served(served: Served) -> bool:
    try:
        return served.call(TRACES, b"") == b""
    except grpc.RpcError:
        return False
