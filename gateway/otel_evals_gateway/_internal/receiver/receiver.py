"""The part of a receiver that does not depend on the protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import (
    ExportRequest,
    Signal,
    decode_plain,
    decoded_size,
    decompress,
)
from otel_evals_gateway._internal.receiver.request_limits import RequestLimits

_logger = logging.getLogger(__name__)
LARGE = 1024 * 1024
"""Decoded bytes of a request from which a thread decodes it, so other requests need not wait."""
_SMALL = 64 * 1024
"""Uncompressed bytes of a body that is decompressed without a thread."""
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
        self, signal: Signal, authorization: str, read: Callable[[], Awaitable[ExportRequest]]
    ) -> ExportAnswer:
        """Read, decode and handle a request, and count its answer."""
        try:
            with self._limits.enter():
                if not self._admits(authorization):
                    raise RefusedError(ExportAnswer(401, "a bearer token is required"))
                request = await read()
                with self._limits.reserve(len(request.body)) as reservation:
                    data = await self._decompressed(request)
                    size = decoded_size(request, data)
                    reservation.resize(size)
                    if size < LARGE:
                        decode_plain(request, data)
                    else:
                        await asyncio.to_thread(decode_plain, request, data)
                    request.reservation = reservation
                    answer = await self._handle(request)
        except RefusedError as error:
            answer = error.answer
        except Exception:
            _logger.exception("an export request of %s could not be handled", signal)
            answer = ExportAnswer(500, "internal error")
        self._limits.answers[signal, answer.status] += 1
        return answer

    async def _decompressed(self, request: ExportRequest) -> bytes:
        """Return the uncompressed body; large ones are decompressed on a thread, one at a time."""
        most = self._options.max_decompressed
        try:
            return decompress(request.body, request.encoding, min(_SMALL, most))
        except RefusedError as refused:
            if refused.answer.status != 413 or most <= _SMALL:
                raise
        async with self._limits.decompressing:
            return await asyncio.to_thread(decompress, request.body, request.encoding, most)
