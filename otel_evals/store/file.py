"""The store's file as the writer uses it: opened when it can be, looked after, and done without when not."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
import uuid
from collections import Counter
from dataclasses import dataclass

from otel_evals.config import Config
from otel_evals.errors import StoreError
from otel_evals.store.database import open_database
from otel_evals.store.spool import Spool

__all__ = ["Limits", "StoreFile", "limits_of"]

_logger = logging.getLogger(__name__)
_REOPEN_SECONDS = 5.0
_UPKEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the store; see Config for their meaning."""

    max_bytes: int = 1024 * 1024 * 1024
    max_age: float = 86_400.0
    keep: float = 600.0
    lease: float = 15.0


def limits_of(config: Config) -> Limits:
    """The store's bounds, as configured."""
    return Limits(
        max_bytes=config.store_max_bytes,
        max_age=config.store_max_age,
        keep=config.store_keep,
        lease=config.store_lease,
    )


class StoreFile:
    """One file, used on one thread.

    Args:
        path: where it is.
        limits: its bounds.
        counts: where losses are counted, as `evicted.*`.
    """

    def __init__(self, path: str, limits: Limits, counts: Counter[str]) -> None:
        self._path = path
        self._limits = limits
        self._counts = counts
        self._owner = uuid.uuid4().hex
        self._spool: Spool | None = None
        self._in_trouble = False
        self._size = 0
        self._reopen_at = self._upkeep_at = self._beat_at = 0.0
        self.connection: sqlite3.Connection | None = None

    def opened(self) -> Spool | None:
        """The spool, opened if need be; None while that cannot be done."""
        if self._spool is not None or time.monotonic() < self._reopen_at:
            return self._spool
        try:
            self.connection = open_database(self._path)
            self._spool = Spool(self.connection, self._owner, self._limits.lease)
            self._spool.limit(self._limits.max_bytes)
            self._beat_at = self._upkeep_at = 0.0
        except (StoreError, sqlite3.Error) as error:
            self.trouble(str(error))
            self.close()
        return self._spool

    def upkeep(self, spool: Spool) -> None:
        """At the start of each transaction: signs of life, ended processes, what is too old, when due."""
        now = time.monotonic()
        self._size = spool.size
        if now >= self._beat_at:
            spool.beat()
            spool.expire()
            self._beat_at = now + self._limits.lease / 3
        if now >= self._upkeep_at:
            self._evict(spool, self._limits.max_bytes)
            self._upkeep_at = now + _UPKEEP_SECONDS

    def upkeep_due(self) -> bool:
        """Whether it is time for it."""
        return time.monotonic() >= min(self._beat_at, self._upkeep_at)

    def has_room(self, spool: Spool, size: int) -> bool:
        """Whether there is room for more bytes, if need be by evicting the oldest free runs."""
        if size > self._limits.max_bytes // 2:
            return False
        if self._size + size > self._limits.max_bytes:
            self._evict(spool, self._limits.max_bytes * 9 // 10)
            self._size = spool.size
        self._size += size
        return self._size <= self._limits.max_bytes

    def trouble(self, why: str) -> None:
        """It cannot be used at the moment; said once."""
        if not self._in_trouble:
            _logger.warning("the store %s cannot be used: %s; scoring goes on without it", self._path, why)
        self._in_trouble = True

    def failed(self, error: Exception) -> None:
        """A transaction failed; a file that is broken is opened anew later."""
        self.trouble(str(error))
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self.close()

    def fine(self) -> None:
        """All that was to be written is in the file."""
        if self._in_trouble:
            _logger.warning("the store %s is in use again", self._path)
        self._in_trouble = False

    def close(self) -> None:
        """Close the connection; it is not opened again at once."""
        if self.connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        self.connection = self._spool = None
        self._reopen_at = time.monotonic() + _REOPEN_SECONDS

    def pause(self) -> None:
        """Close the connection, from any thread while its own does not use it; opened again when needed."""
        self.close()
        self._reopen_at = 0.0

    def _evict(self, spool: Spool, max_bytes: int) -> None:
        limits = self._limits
        lost = spool.evict(max_bytes=max_bytes, max_age=limits.max_age, keep=limits.keep)
        for reason, count in lost.items():
            self._counts[f"evicted.{reason}"] += count
