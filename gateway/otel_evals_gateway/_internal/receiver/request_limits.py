"""What requests may hold, and how much may be in progress at once, over all receivers of a process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from otel_evals_gateway._internal.receiver.answers import ExportAnswer, RefusedError

__all__ = ["Limits", "Load"]

_BODIES_IN_PROGRESS = 4
"""How many times the limit of one request all requests in progress may hold together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one request."""

    body: int
    """Bytes as it comes."""
    decompressed: int
    """Bytes without its compression."""
    seconds: float
    """In which it must have arrived."""


class Load:
    """What is in progress, and what was answered.

    Args:
        most: requests in progress at once.
        limits: of one request.
    """

    def __init__(self, most: int, limits: Limits) -> None:
        self._most = most
        self._most_bytes = _BODIES_IN_PROGRESS * limits.decompressed
        self._bytes = 0
        self.in_progress = 0
        self.closed = False
        """Whether requests are refused since the service ends."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.answers: Counter[tuple[str, int]] = Counter()
        """Requests by signal and status."""

    def count(self, signal: str, answer: ExportAnswer) -> None:
        """Note the answer to a request."""
        self.answers[signal, answer.status] += 1

    async def idle(self, seconds: float) -> bool:
        """Wait until no request is in progress; whether that was so within these seconds."""
        try:
            await asyncio.wait_for(self._idle.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        return True

    @contextmanager
    def enter(self) -> Iterator[None]:
        """A request is in progress.

        Raises:
            RefusedError: too many are, or the service ends.
        """
        if self.closed:
            raise RefusedError(ExportAnswer(503, "the service is shutting down", retry_after=1.0))
        if self.in_progress >= self._most:
            raise RefusedError(ExportAnswer(503, f"{self._most} requests are in progress", retry_after=1.0))
        self.in_progress += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.in_progress -= 1
            if not self.in_progress:
                self._idle.set()

    @contextmanager
    def holds(self, size: int) -> Iterator[None]:
        """A request holds so many bytes.

        Raises:
            RefusedError: all requests together hold too many.
        """
        if self._bytes and self._bytes + size > self._most_bytes:
            raise RefusedError(
                ExportAnswer(503, "the requests in progress are too large together", retry_after=1.0)
            )
        self._bytes += size
        try:
            yield
        finally:
            self._bytes -= size
