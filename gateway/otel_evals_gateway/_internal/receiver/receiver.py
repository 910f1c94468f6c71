"""The part of a receiver that does not depend on the protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import (
    DecodedSize,
    ExportRequest,
    Signal,
    decode,
    decode_plain,
    decompress,
)
from otel_evals_gateway._internal.receiver.request_limits import RequestLimits, Reservation

_logger = logging.getLogger(__name__)
LARGE = 1024 * 1024
"""Decoded bytes of a request from which a thread decodes it, so other requests need not wait."""
_SMALL = {PROTOBUF: 64 * 1024, JSON: 16 * 1024}
"""Uncompressed bytes of a body that may be decoded without a thread."""
_TINY = 1024
"""Bytes of an uncompressed body that may be decoded in the same iteration of the event loop as others."""
Handle = Callable[[ExportRequest], Awaitable[ExportAnswer]]


class Receiver:
    """Decodes requests within limits that all receivers share, and has `handle` answer them."""

    def __init__(
        self,
        handle: Handle,
        signals: Collection[Signal],
        limits: RequestLimits,
        tokens: BearerTokens | None = None,
    ) -> None:
        self._handle = handle
        self._signals = frozenset(signals)
        self._limits = limits
        self._options = limits.options
        self._tokens = tokens

    def _admits(self, authorization: str) -> bool:
        return self._tokens is None or self._tokens.accept(authorization)

    async def _answer(
        self, signal: Signal, authorization: str, read: Callable[[Reservation], Awaitable[ExportRequest]]
    ) -> ExportAnswer:
        """Read, decode and handle a request, and count its answer."""
        try:
            with self._limits.enter() as reservation:
                if not self._admits(authorization):
                    raise RefusedError(ExportAnswer(401, "a bearer token is required"))
                request = await read(reservation)
                request.reservation = reservation
                if not await self._decoded_at_once(request):
                    async with self._limits.decoding:
                        await asyncio.to_thread(decode, request, self._options.max_decompressed)
                answer = await self._handle(request)
        except RefusedError as error:
            answer = error.answer
        except Exception:
            _logger.exception("an export request of %s could not be handled", signal)
            answer = ExportAnswer(500, "internal error")
        self._limits.answers[signal, answer.status] += 1
        return answer

    async def _decoded_at_once(self, request: ExportRequest) -> bool:
        """Decode a small request; return False if it needs a thread."""
        most = min(_SMALL[request.content_type], self._options.max_decompressed)
        if len(request.body) > most:
            return False
        if len(request.body) <= _TINY and not request.encoding:
            return self._decoded_here(request, most)
        async with self._limits.turn:
            await asyncio.sleep(0)  # with the lock: all others that wait for it get one iteration each
            return self._decoded_here(request, most)

    def _decoded_here(self, request: ExportRequest, most: int) -> bool:
        try:
            data = decompress(request.body, request.encoding, most)
        except RefusedError as refused:
            if refused.answer.status == 413:
                return False
            raise
        size = DecodedSize(request).add(data)
        if size > LARGE:
            return False
        request.reserve(size)
        decode_plain(request, data)
        return True
