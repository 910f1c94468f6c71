"""OTLP over HTTP, by aiohttp's server: requests within limits, answers as OTLP's specification says."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from ipaddress import ip_address
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from otel_evals_gateway._internal.receiver.answers import (
    JSON,
    PROTOBUF,
    ExportAnswer,
    RefusedError,
    http_body,
    http_headers,
)
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal
from otel_evals_gateway._internal.receiver.receiver import Receiver, Reservation, max_connections

_PATHS: Mapping[str, Signal] = {"/v1/traces": "traces", "/v1/logs": "logs", "/v1/metrics": "metrics"}
_IDLE_SECONDS = 75.0
"""Seconds after which a connection without a request is closed."""
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_NEARBY = re.compile(r"(?i)([^.]*|[0-9.]+|\[.*\]|.*\.(internal|localhost))\.?(:[0-9]*)?")
"""Values of `Host` that no web site has: it could point its own name at this machine (DNS rebinding)."""
_OPEN: Collection[str] = ("/healthz", "/readyz")
"""Paths of pages without a token: orchestrators request them, and they reveal nothing about the traffic."""


_logger = logging.getLogger(__name__)
_logger.addFilter(
    lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
)
"""Senders of garbage get status 400; a traceback for each would fill the disk."""


class HttpReceiver(Receiver):
    """Receives export requests over HTTP, and answers GET requests with pages: status and JSON, by path."""

    _checks_host = True
    _web: _Server | None = None
    _server: asyncio.Server | None = None

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port. OSError if the address cannot be used."""
        seconds = self._options.request_timeout
        self._web = _Server(self._serve, seconds, handshakes=tls is not None)
        # Not by aiohttp's site, which has no timeout for the handshake.
        timeout = None if tls is None else seconds
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._web, host, port, ssl=tls, ssl_handshake_timeout=timeout)
        address, used = self._server.sockets[0].getsockname()[:2]
        # With TLS, a web site has no certificate for its name here.
        self._checks_host = self._tokens is None and tls is None and ip_address(address).is_loopback
        return int(used)

    async def stop_listening(self) -> None:
        """Accept no new connection; open ones continue."""
        if self._server is not None:
            self._server.close()

    async def stop(self, seconds: float) -> None:
        """Close open connections once their requests are answered, or after this time."""
        if self._web is not None:
            self._web.pre_shutdown()
            await self._web.shutdown(max(0.1, seconds))  # 0 would be no bound

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._checks_host and not _NEARBY.fullmatch(request.headers.get("Host", "")):
            answer = ExportAnswer(403, "Host must be localhost or an address; other names need tokens or TLS")
            return _response(answer, "traces", JSON)
        authorization = request.headers.get("Authorization", "")
        page = self._pages.get(request.path)
        if page is not None and request.method in ("GET", "HEAD"):
            if request.path not in _OPEN and not self._admits(authorization):
                return _response(ExportAnswer(401, "a bearer token is required"), "traces", JSON)
            status, content = page()
            if isinstance(content, str):
                return web.Response(text=content, status=status, headers={"Content-Type": _PROMETHEUS})
            return web.json_response(content, status=status)
        signal = _PATHS.get(request.path)
        answered_in = PROTOBUF if request.content_type == PROTOBUF else JSON
        if signal is None or signal not in self._signals:
            return _response(ExportAnswer(404, "unknown path"), "traces", answered_in)
        if request.method != "POST":
            return _response(ExportAnswer(405, "export requests are POST"), signal, answered_in)

        async def read(reservation: Reservation) -> ExportRequest:
            return await self._read(request, signal, reservation)

        answered = await self._answer(signal, authorization, read)
        return _response(answered, signal, answered_in)

    async def _read(
        self, request: web.BaseRequest, signal: Signal, reservation: Reservation
    ) -> ExportRequest:
        if request.content_type not in (PROTOBUF, JSON):
            raise RefusedError(ExportAnswer(415, f"Content-Type must be {PROTOBUF} or {JSON}"))
        encoding = request.headers.get("Content-Encoding", "").strip().lower()
        try:
            # Before it is asked for: a refusal saves the sender its body.
            self._refuse_large(request)
            if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await self._body(request, reservation)
        except (ConnectionError, asyncio.IncompleteReadError, web.RequestPayloadError):
            raise RefusedError(ExportAnswer(400, "the body ended early")) from None
        return ExportRequest(signal, body, request.content_type, encoding)

    def _refuse_large(self, request: web.BaseRequest, size: int = 0) -> None:
        """Refuse a body that has, or will have, too many bytes."""
        most = self._options.max_body
        if max(size, request.content_length or 0) > most:
            raise RefusedError(ExportAnswer(413, f"the body has more than {most} bytes"))

    async def _body(self, request: web.BaseRequest, reservation: Reservation) -> bytes:
        """Read the body, with an announced length or without, and reserve memory for it twice."""
        seconds = self._options.request_timeout
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(seconds):
                async for part in request.content.iter_any():
                    size += len(part)
                    self._refuse_large(request, size)
                    reservation.resize(2 * size)  # it is joined at the end
                    parts.append(part)
        except TimeoutError:
            raise RefusedError(ExportAnswer(408, f"the body did not arrive in {seconds:g} s")) from None
        return b"".join(parts)


class _Server(web.Server):
    """Closes connections without a first request within `seconds`, and idle ones to make way for others."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        seconds: float,
        *,
        handshakes: bool,
    ) -> None:
        super().__init__(
            self._serve,
            access_log=None,
            logger=_logger,
            auto_decompress=False,
            lingering_time=1.0,
            keepalive_timeout=_IDLE_SECONDS,
        )
        self._answer = handler
        self._seconds = seconds
        self._handshakes = handshakes
        self._most = max_connections()
        self._opening: set[RequestHandler] = set()
        """Connections whose TLS handshake has not ended."""
        self._idle: dict[RequestHandler, None] = {}
        """Open connections without a request in progress, the longest idle one first."""
        self._busy = 0

    def __call__(self) -> RequestHandler:
        if len(self._opening) >= self._most:
            raise ConnectionRefusedError("too many connections are being opened")
        protocol = _Connection(self, loop=self._loop, **self._kwargs)
        if self._handshakes:
            self._opening.add(protocol)
        asyncio.get_running_loop().call_later(self._seconds, self._check, protocol)
        return protocol

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._opening.discard(handler)
        self._idle[handler] = None
        if len(self._idle) + self._busy > self._most:
            # The new connection is among them, so there is one.
            longest_idle = next(iter(self._idle))
            del self._idle[longest_idle]
            _close(longest_idle)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._idle.pop(handler, None)
        super().connection_lost(handler, exc)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        protocol: Any = request.protocol
        protocol.is_used = True
        self._idle.pop(protocol, None)
        self._busy += 1
        try:
            return await self._answer(request)
        finally:
            self._busy -= 1
            # It may have been closed while the request was answered.
            if protocol.transport is not None:
                self._idle[protocol] = None

    def _check(self, protocol: _Connection) -> None:
        self._opening.discard(protocol)
        if not protocol.is_used:
            _close(protocol)


class _Connection(RequestHandler):
    """Answers malformed requests without repeating what they contain, such as a token."""

    is_used = False
    """True once it has brought a request."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if isinstance(exc, HttpProcessingError):
            message = "this is not a valid HTTP request"
        return super().handle_error(request, status, exc, message)


def _close(protocol: RequestHandler) -> None:
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
        response.force_close()  # the rest of the body stays unread
    return response
