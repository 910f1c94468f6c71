"""Limits of requests: sizes, time, and how many are in progress at once over all receivers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from otel_evals_gateway._internal.options import GatewayOptions
from otel_evals_gateway._internal.receiver.answers import ExportAnswer, RefusedError

_BODIES_IN_PROGRESS = 4
"""All requests in progress may take this many times the limit of one uncompressed body, once decoded."""

_CONNECTIONS = 1_000


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
        self.closed = False
        """True once the service shuts down, which refuses all requests."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.answers: Counter[tuple[str, int]] = Counter()
        """Requests by signal and status."""

    async def idle(self, seconds: float) -> bool:
        """Wait until no request is in progress; False after these seconds."""
        try:
            await asyncio.wait_for(self._idle.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        return True

    @contextmanager
    def enter(self) -> Iterator[Reservation]:
        """Count a request as in progress; RefusedError if too many are, or the service shuts down.

        Yields its memory.
        """
        if self.closed:
            raise RefusedError(ExportAnswer(503, "the service is shutting down", retry_after=1.0))
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
            if size > self.size and limits.bytes - self.size + size > most:
                problem = "the requests in progress are too large together"
                raise RefusedError(ExportAnswer(503, problem, retry_after=1.0))
            limits.bytes += size - self.size
            self.size = size
