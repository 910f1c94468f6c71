"""The part of a receiver that does not depend on the protocol: limits of requests, decoding and answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from otel_evals_gateway._internal.options import GatewayOptions
from otel_evals_gateway._internal.receiver.access import BearerTokens
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode

_logger = logging.getLogger(__name__)
_SMALL = {PROTOBUF: 64 * 1024, JSON: 16 * 1024}
"""Uncompressed bytes of a body that may be decoded without a thread."""
_BODIES_IN_PROGRESS = 4
"""All requests in progress may take this many times the limit of one uncompressed body, once decoded."""

_CONNECTIONS = 1_000
Handle = Callable[[ExportRequest], Awaitable[ExportAnswer]]
Page = Callable[[], tuple[int, dict[str, Any] | str]]
"""Returns the status, and JSON or text in the format of Prometheus."""


def max_connections() -> int:
    """Return how many connections a receiver accepts: 1,000, or a quarter of the allowed open files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return _CONNECTIONS
    return min(_CONNECTIONS, max(1, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4))


class RequestLimits:
    """Admits requests, and counts them by answer."""

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self.most_bytes = _BODIES_IN_PROGRESS * options.max_decompressed
        self.bytes = 0
        self.lock = threading.Lock()
        """Protects `bytes`, which the thread that decodes changes too."""
        self.decoding = asyncio.Lock()
        """Held while a thread decodes: one request at a time, since each keeps the interpreter busy."""
        self.turn = asyncio.Lock()
        """Held for one iteration of the event loop by each request that is decoded in it."""
        self.in_progress = 0
        self.closed: str | None = None
        """Why all requests are refused: the service starts or shuts down."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.answers: Counter[tuple[str, int]] = Counter()
        """Requests by signal and status."""

    async def idle(self, seconds: float) -> None:
        """Wait until no request is in progress, for so long at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), max(0.0, seconds))

    @contextmanager
    def enter(self) -> Iterator[Reservation]:
        """Count a request as in progress; RefusedError if too many are, or the service shuts down.

        Yields its memory.
        """
        if self.closed is not None:
            raise RefusedError(ExportAnswer(503, self.closed, retry_after=1.0))
        most = self.options.max_requests
        if self.in_progress >= most:
            raise RefusedError(ExportAnswer(503, f"{most} requests are in progress", retry_after=1.0))
        self.in_progress += 1
        self._idle.clear()
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            reservation.resize(0)
            self.in_progress -= 1
            if not self.in_progress:
                self._idle.set()


class Reservation:
    """Memory that one request takes of the bytes that all requests may take. Thread-safe."""

    def __init__(self, limits: RequestLimits) -> None:
        self._limits = limits
        self.size = 0

    def resize(self, size: int) -> None:
        """Change the size; RefusedError if it is too large, alone or with the other requests."""
        limits, most = self._limits, self._limits.most_bytes
        if size > most:
            problem = f"the body takes more than {most} bytes once decoded: send smaller requests"
            raise RefusedError(ExportAnswer(413, problem))
        with limits.lock:
            # Shrinking is always allowed, also when others have filled the rest.
            if size > self.size and limits.bytes - self.size + size > most:
                problem = "the requests in progress are too large together"
                raise RefusedError(ExportAnswer(503, problem, retry_after=1.0))
            limits.bytes += size - self.size
            self.size = size


class Receiver:
    """Decodes requests within limits that all receivers share, and has `handle` answer them."""

    def __init__(
        self,
        handle: Handle,
        signals: Collection[Signal],
        limits: RequestLimits,
        tokens: BearerTokens | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._handle = handle
        self._signals = frozenset(signals)
        self._limits = limits
        self._options = limits.options
        self._tokens = tokens
        self._pages = pages or {}

    def _admits(self, authorization: str) -> bool:
        return self._tokens is None or self._tokens.accept(authorization)

    async def _answer(
        self, signal: Signal, authorization: str, read: Callable[[Reservation], Awaitable[ExportRequest]]
    ) -> ExportAnswer:
        """Read, decode and handle a request, and count its answer."""
        try:
            with self._limits.enter() as reservation:
                # Before the body is read: a stranger should cost as little as possible.
                if not self._admits(authorization):
                    raise RefusedError(ExportAnswer(401, "a bearer token is required"))
                request = await read(reservation)
                request.reserve = reservation.resize
                await self._decode(request)
                answer = await self._handle(request)
        except RefusedError as error:
            answer = error.answer
        except Exception:
            _logger.exception("an export request of %s could not be handled", signal)
            answer = ExportAnswer(500, "internal error")
        self._limits.answers[signal, answer.status] += 1
        return answer

    async def _decode(self, request: ExportRequest) -> None:
        """Decode a request, a large one on a thread, so that others need not wait."""
        most = min(_SMALL[request.content_type], self._options.max_decompressed)
        if len(request.body) <= most:
            async with self._limits.turn:
                await asyncio.sleep(0)  # with the lock: all others that wait for it get one iteration each
                try:
                    decode(request, most)
                    return
                except RefusedError as refused:
                    if refused.answer.status != 413:
                        raise
        async with self._limits.decoding:
            await asyncio.to_thread(decode, request, self._options.max_decompressed)
