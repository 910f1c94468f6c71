"""The store's file, as the writer uses it: opening, heartbeats, eviction, and running without it."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
import uuid
from collections import Counter
from dataclasses import dataclass

from otel_evals._internal.config.options import Config
from otel_evals._internal.durable_queue.database import open_database
from otel_evals._internal.durable_queue.table import RunTable
from otel_evals.errors import StoreError

__all__ = ["StoreFile", "StoreLimits", "store_limits"]

_logger = logging.getLogger(__name__)
_REOPEN_SECONDS = 5.0
_UPKEEP_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLimits:
    """Bounds of the store; see Config for their meaning."""

    max_bytes: int = 1024 * 1024 * 1024
    max_age: float = 86_400.0
    keep: float = 600.0
    lease: float = 15.0


def store_limits(config: Config) -> StoreLimits:
    """The store's bounds, as configured."""
    return StoreLimits(
        max_bytes=config.store_max_bytes,
        max_age=config.store_max_age,
        keep=config.store_keep,
        lease=config.store_lease,
    )


class StoreFile:
    """The file and its bounds. Used on the writer's thread.

    Args:
        path: of the file.
        limits: its bounds.
        evicted: where evicted runs are counted, by reason.
    """

    def __init__(self, path: str, limits: StoreLimits, evicted: Counter[str]) -> None:
        self._path = path
        self._limits = limits
        self._evicted = evicted
        self._owner = uuid.uuid4().hex
        self._table: RunTable | None = None
        self._in_trouble = False
        self._size = 0
        self._reopen_at = self._upkeep_at = self._beat_at = 0.0
        self.connection: sqlite3.Connection | None = None

    def opened(self) -> RunTable | None:
        """The table, opened if necessary; None while the file cannot be used."""
        if self._table is not None or time.monotonic() < self._reopen_at:
            return self._table
        try:
            self.connection = open_database(self._path)
            self._table = RunTable(self.connection, self._owner, self._limits.lease)
            self._table.limit(self._limits.max_bytes)
            self._beat_at = self._upkeep_at = 0.0
        except (StoreError, sqlite3.Error) as error:
            self.trouble(str(error))
            self.close()
        return self._table

    def upkeep(self, table: RunTable) -> None:
        """Heartbeat, expired leases and eviction, as far as they are due; at the start of a transaction."""
        now = time.monotonic()
        self._size = table.size
        if now >= self._beat_at:
            table.beat()
            table.expire()
            self._beat_at = now + self._limits.lease / 3
        if now >= self._upkeep_at:
            self._evict(table, self._limits.max_bytes)
            self._upkeep_at = now + _UPKEEP_SECONDS

    def upkeep_due(self) -> bool:
        """Whether `upkeep` has anything to do."""
        return time.monotonic() >= min(self._beat_at, self._upkeep_at)

    def has_room(self, table: RunTable, size: int) -> bool:
        """Whether so many more bytes fit, evicting the oldest free runs if necessary."""
        if size > self._limits.max_bytes // 2:
            return False
        if self._size + size > self._limits.max_bytes:
            self._evict(table, self._limits.max_bytes * 9 // 10)
            self._size = table.size
        self._size += size
        return self._size <= self._limits.max_bytes

    def trouble(self, why: str) -> None:
        """Log that the file cannot be used: once, until `fine`."""
        if not self._in_trouble:
            _logger.warning("the store %s cannot be used: %s; scoring continues without it", self._path, why)
        self._in_trouble = True

    def failed(self, error: Exception) -> None:
        """Handle a failed transaction: a corrupt file is closed and opened again later."""
        self.trouble(str(error))
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self.close()

    def fine(self) -> None:
        """Log that the file can be used again, after `trouble`."""
        if self._in_trouble:
            _logger.warning("the store %s is in use again", self._path)
        self._in_trouble = False

    def close(self) -> None:
        """Close the connection; it is reopened after some seconds at the earliest."""
        if self.connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        self.connection = self._table = None
        self._reopen_at = time.monotonic() + _REOPEN_SECONDS

    def pause(self) -> None:
        """Close the connection until it is needed again."""
        self.close()
        self._reopen_at = 0.0

    def _evict(self, table: RunTable, max_bytes: int) -> None:
        limits = self._limits
        lost = table.evict(max_bytes=max_bytes, max_age=limits.max_age, keep=limits.keep)
        for reason, count in lost.items():
            self._evicted[f"evicted_{reason}"] += count
