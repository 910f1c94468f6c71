"""Limits of requests: sizes, time, and how many are in progress at once over all receivers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from otel_evals_gateway._internal.options import GatewayOptions
from otel_evals_gateway._internal.receiver.answers import ExportAnswer, RefusedError

_BODIES_IN_PROGRESS = 4
"""The bodies of all requests in progress may have this many times the limit of one request."""


class RequestLimits:
    """Admits requests, and counts them by answer."""

    def __init__(self, options: GatewayOptions) -> None:
        self.options = options
        self._most_bytes = _BODIES_IN_PROGRESS * options.max_decompressed
        self._bytes = 0
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
    def enter(self) -> Iterator[None]:
        """Count a request as in progress; RefusedError if too many are, or the service shuts down."""
        if self.closed:
            raise RefusedError(ExportAnswer(503, "the service is shutting down", retry_after=1.0))
        most = self.options.max_requests
        if self.in_progress >= most:
            raise RefusedError(ExportAnswer(503, f"{most} requests are in progress", retry_after=1.0))
        self.in_progress += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.in_progress -= 1
            if not self.in_progress:
                self._idle.set()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Reserve memory for a body; RefusedError if all bodies are too large together."""
        if self._bytes and self._bytes + size > self._most_bytes:
            raise RefusedError(
                ExportAnswer(503, "the requests in progress are too large together", retry_after=1.0)
            )
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size
