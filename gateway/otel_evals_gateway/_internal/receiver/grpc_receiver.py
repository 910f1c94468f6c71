"""OTLP over gRPC: the same requests and answers as over HTTP, by grpcio's server on the same event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import (
    ExportAnswer,
    RefusedError,
    grpc_code,
    grpc_trailers,
    partial_success,
)
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.request_limits import Limits, Load

__all__ = ["GrpcReceiver", "grpc_credentials"]

_logger = logging.getLogger(__name__)
_SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}
_LARGE = 256 * 1024
_STREAMS_PER_CONNECTION = 100


class GrpcReceiver:
    """Receives export requests over gRPC.

    The limit of a body holds for it without compression here, since grpcio decompresses it first.

    Args:
        handle: takes a decoded request and gives the answer.
        signals: which signals are taken.
        limits: of requests.
        load: what is in progress, over all receivers.
        tokens: of senders; None if none is required.
    """

    def __init__(
        self,
        handle: Callable[[ExportRequest], Awaitable[ExportAnswer]],
        signals: Collection[Signal],
        limits: Limits,
        load: Load,
        tokens: BearerTokens | None = None,
    ) -> None:
        self._handle = handle
        self._signals = tuple(signals)
        self._limits = limits
        self._load = load
        self._tokens = tokens
        self._server: Any = None

    async def start(self, host: str, port: int, credentials: Any = None) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the address cannot be used.
        """
        most = min(self._limits.body, self._limits.decompressed)
        self._server = aio.server(
            options=[
                ("grpc.max_receive_message_length", most),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
                ("grpc.so_reuseport", 0),
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
        """Accept no new request; those in progress have so long."""
        if self._server is not None:
            await self._server.stop(max(0.0, seconds))

    def _handlers(self, signal: Signal) -> Any:
        async def export(body: bytes, context: Any) -> bytes:
            return await self._export(signal, body, context)

        method = grpc.unary_unary_rpc_method_handler(export)  # without a deserializer: the bytes are kept
        return grpc.method_handlers_generic_handler(_SERVICES[signal], {"Export": method})

    async def _export(self, signal: Signal, body: bytes, context: Any) -> bytes:
        answer = await self._answer(signal, body, context)
        self._load.count(signal, answer)
        if answer.ok:
            return bytes(partial_success(answer, signal).SerializeToString())
        await context.abort(grpc_code(answer), answer.message, grpc_trailers(answer))
        return b""

    async def _answer(self, signal: Signal, body: bytes, context: Any) -> ExportAnswer:
        try:
            with self._load.enter(), self._load.holds(len(body)):
                self._check(context)
                request = ExportRequest(signal, body)
                if len(body) < _LARGE:
                    decode(request, self._limits.decompressed)
                else:
                    await asyncio.to_thread(decode, request, self._limits.decompressed)
                return await self._handle(request)
        except RefusedError as error:
            return error.answer
        except Exception:
            _logger.exception("an export request of %s could not be handled", signal)
            return ExportAnswer(500, "internal error")

    def _check(self, context: Any) -> None:
        if self._tokens is None:
            return
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        if not self._tokens.accept(given if isinstance(given, str) else ""):
            raise RefusedError(ExportAnswer(401, "a bearer token is required"))


def grpc_credentials(certificate: Path, key: Path, client_ca: Path | None) -> Any:
    """TLS of a gRPC server; the certificate is read again for a new connection if it changed."""

    def current() -> Any:
        return grpc.ssl_server_certificate_configuration(
            [(key.read_bytes(), certificate.read_bytes())],
            root_certificates=None if client_ca is None else client_ca.read_bytes(),
        )

    def fetch() -> Any:
        try:
            return current()
        except OSError:
            return None  # the one that is in use stays

    return grpc.dynamic_ssl_server_credentials(
        current(), fetch, require_client_authentication=client_ca is not None
    )
