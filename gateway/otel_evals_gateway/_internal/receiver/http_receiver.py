"""OTLP over HTTP, by aiohttp's server: requests within limits, answers as OTLP's specification says."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import (
    JSON,
    PROTOBUF,
    ExportAnswer,
    RefusedError,
    http_body,
    http_headers,
)
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.request_limits import Limits, Load

__all__ = ["HttpReceiver"]

_logger = logging.getLogger(__name__)
_LARGE = 256 * 1024
"""Bytes of a body from which it is decoded on a thread, so that others are not kept waiting."""
_PATHS: Mapping[str, Signal] = {"/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": "metrics"}

Page = Callable[[], tuple[int, dict[str, Any]]]
_OPEN: Collection[str] = ("/healthz", "/readyz")
"""Paths of pages that need no token: orchestrators ask for them, and they say nothing of the traffic."""


class HttpReceiver:
    """Receives export requests over HTTP.

    Args:
        handle: takes a decoded request and gives the answer.
        signals: which signals are taken.
        limits: of requests.
        load: what is in progress, over all receivers.
        tokens: of senders; None if none is required.
        pages: what GET requests are answered with, as status and JSON, by path; where tokens are required,
            for all but `/healthz` and `/readyz`.
    """

    def __init__(
        self,
        handle: Callable[[ExportRequest], Awaitable[ExportAnswer]],
        signals: Collection[Signal],
        limits: Limits,
        load: Load,
        tokens: BearerTokens | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._handle = handle
        self._signals = frozenset(signals)
        self._limits = limits
        self._load = load
        self._tokens = tokens
        self._pages = pages or {}
        self._silent: set[RequestHandler] = set()
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the address cannot be used.
        """
        server = _Server(self._serve, self._limits.seconds, self._silent)
        self._runner = web.ServerRunner(server, shutdown_timeout=self._limits.seconds)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, host, port, ssl_context=tls)
        await self._site.start()
        return int(self._runner.addresses[0][1])

    async def stop_listening(self) -> None:
        """Accept no new connection; those that are open go on."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    async def stop(self) -> None:
        """Close what is open, once its requests are answered."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        if request.method in ("GET", "HEAD") and request.path in self._pages:
            return self._page(request)
        signal = _PATHS.get(request.path)
        if signal not in self._signals or signal is None:
            return _response(ExportAnswer(404, "there is nothing at this path"), "traces", JSON)
        if request.method != "POST":
            response = _response(ExportAnswer(405, "export requests are POST"), signal, JSON)
            response.headers["Allow"] = "POST"
            return response
        content_type = request.content_type
        answer = await self._export(request, signal, content_type)
        self._load.count(signal, answer)
        return _response(answer, signal, content_type if content_type == JSON else PROTOBUF)

    def _page(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path not in _OPEN and not self._admits(request):
            answer = {"message": "a bearer token is required"}
            return web.json_response(answer, status=401, headers={"WWW-Authenticate": "Bearer"})
        status, body = self._pages[request.path]()
        return web.json_response(body, status=status)

    def _admits(self, request: web.BaseRequest) -> bool:
        return self._tokens is None or self._tokens.accept(request.headers.get("Authorization", ""))

    async def _export(self, request: web.BaseRequest, signal: Signal, content_type: str) -> ExportAnswer:
        try:
            with self._load.enter():
                self._check(request, content_type)
                export = ExportRequest(
                    signal,
                    await self._body(request),
                    content_type,
                    request.headers.get("Content-Encoding", "").strip().lower(),
                )
                with self._load.holds(len(export.body)):
                    await self._decode(export)
                    return await self._handle(export)
        except RefusedError as error:
            return error.answer
        except (ConnectionError, asyncio.IncompleteReadError, web.RequestPayloadError):
            return ExportAnswer(400, "the body ended early")
        except Exception:
            _logger.exception("an export request of %s could not be handled", signal)
            return ExportAnswer(500, "internal error")

    def _check(self, request: web.BaseRequest, content_type: str) -> None:
        if not self._admits(request):
            raise RefusedError(ExportAnswer(401, "a bearer token is required"))
        if content_type not in (PROTOBUF, JSON):
            raise RefusedError(ExportAnswer(415, f"Content-Type must be {PROTOBUF} or {JSON}"))
        if (request.content_length or 0) > self._limits.body:
            raise RefusedError(ExportAnswer(413, f"the body has more than {self._limits.body} bytes"))

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The body, whether its length was announced or not."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for part in request.content.iter_any():
                    size += len(part)
                    if size > self._limits.body:
                        raise RefusedError(
                            ExportAnswer(413, f"the body has more than {self._limits.body} bytes")
                        )
                    parts.append(part)
        except TimeoutError:
            raise RefusedError(
                ExportAnswer(408, f"the body did not arrive in {self._limits.seconds:g} s")
            ) from None
        return b"".join(parts)

    async def _decode(self, export: ExportRequest) -> None:
        if len(export.body) < _LARGE:
            decode(export, self._limits.decompressed)
        else:
            await asyncio.to_thread(decode, export, self._limits.decompressed)


class _Server(web.Server):
    """Closes connections on which no request has arrived in time.

    Args:
        handler: of requests.
        seconds: the time.
        silent: new connections, until a request has arrived on them.
    """

    def __init__(self, handler: Any, seconds: float, silent: set[RequestHandler]) -> None:
        super().__init__(
            handler, access_log=None, auto_decompress=False, lingering_time=1.0, keepalive_timeout=75.0
        )
        self._seconds = seconds
        self._silent = silent

    def __call__(self) -> RequestHandler:
        protocol = super().__call__()
        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(self._seconds, self._check, protocol)
        return protocol

    def _check(self, protocol: RequestHandler) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            if protocol.transport is not None:
                protocol.transport.close()


def _response(answer: ExportAnswer, signal: str, content_type: str) -> web.Response:
    response = web.Response(
        status=answer.status,
        body=http_body(answer, signal, content_type),
        content_type=content_type,
        headers=http_headers(answer),
    )
    if answer.status in (408, 413):
        response.force_close()  # the rest of the body is not read
    return response
