"""OTLP over gRPC: the same requests and answers as over HTTP, by grpcio's server on the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc import aio

from otel_evals_gateway._internal.options import TlsOptions
from otel_evals_gateway._internal.receiver.answers import (
    ExportAnswer,
    RefusedError,
    grpc_code,
    grpc_trailers,
    partial_success,
)
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal
from otel_evals_gateway._internal.receiver.receiver import Receiver, Reservation, max_connections

_SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}
_STREAMS_PER_CONNECTION = 100


class GrpcReceiver(Receiver):
    """Receives export requests over gRPC.

    grpcio decompresses bodies itself, so `max_body` limits their decompressed size here.
    """

    _server: Any = None
    _reading: asyncio.Semaphore
    """Limits the number of messages received at once, since grpcio does not report their progress."""

    async def start(self, host: str, port: int, credentials: Any = None) -> int:
        """Listen; return the port. OSError if the address cannot be used."""
        most = min(self._options.max_body, self._options.max_decompressed)
        milliseconds = int(self._options.request_timeout * 1000)
        # Together they have as much as all requests in progress may take.
        self._reading = asyncio.Semaphore(max(1, self._limits.most_bytes // most))
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", most),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
                # A second gateway on the same port must fail, not share its traffic.
                ("grpc.so_reuseport", 0),
                ("grpc.max_allowed_incoming_connections", max_connections()),
                # Idle connections cannot make way for others, as they do over HTTP: they end early.
                ("grpc.max_connection_idle_ms", milliseconds),
                ("grpc.server_handshake_timeout_ms", milliseconds),
            ]
        )
        self._server.add_generic_rpc_handlers([self._handlers(signal) for signal in self._signals])
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(str(error)) from error
        await self._server.start()
        return int(bound)

    async def stop(self, seconds: float) -> None:
        """Accept no new request; give those in progress this time."""
        if self._server is not None:
            await self._server.stop(max(0.0, seconds))

    def _handlers(self, signal: Signal) -> Any:
        async def export(messages: AsyncIterator[bytes], context: Any) -> bytes:
            async def read(reservation: Reservation) -> ExportRequest:
                seconds = self._options.request_timeout
                try:
                    async with asyncio.timeout(seconds), self._reading:
                        body = await anext(messages, None)
                except TimeoutError:
                    problem = f"the message did not arrive in {seconds:g} s"
                    raise RefusedError(ExportAnswer(408, problem)) from None
                if body is None:  # grpcio has answered already; this is counted
                    raise RefusedError(ExportAnswer(413, "the message is too large, or did not arrive whole"))
                # grpcio has the message in memory already.
                reservation.resize(len(body))
                return ExportRequest(signal, body)

            given = dict(context.invocation_metadata() or ()).get("authorization", "")
            answering = self._answer(signal, given, read)
            # A sender that leaves does not cancel it: a request is taken whole or not at all.
            answer = await asyncio.shield(asyncio.ensure_future(answering))
            if answer.ok:
                return bytes(partial_success(answer, signal).SerializeToString())
            await context.abort(grpc_code(answer), answer.message, grpc_trailers(answer))
            return b""

        # As a stream, so that the message is read after the sender's token; without a deserializer.
        method = grpc.stream_unary_rpc_method_handler(export)
        return grpc.method_handlers_generic_handler(_SERVICES[signal], {"Export": method})


def grpc_credentials(tls: TlsOptions) -> Any:
    """Return a gRPC server's TLS; a new connection gets the certificate that the files have then."""

    def fetch() -> Any:
        try:
            return grpc.ssl_server_certificate_configuration(
                [(tls.key.read_bytes(), tls.certificate.read_bytes())],
                root_certificates=None if tls.client_ca is None else tls.client_ca.read_bytes(),
            )
        except OSError:
            return None  # keeps the one in use

    return grpc.dynamic_ssl_server_credentials(
        fetch(), fetch, require_client_authentication=tls.client_ca is not None
    )
