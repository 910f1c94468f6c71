"""The queue's file as the writer uses it: opening, heartbeats, eviction, and running without it."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
import uuid
from collections import Counter
from pathlib import Path

from otel_evals._internal.config.options import Config
from otel_evals._internal.durable_queue.database import open_database
from otel_evals._internal.durable_queue.table import RunTable
from otel_evals._internal.util.sqlite_file import FileWatch, make_private
from otel_evals.errors import StoreError

_logger = logging.getLogger(__name__)
_REOPEN_SECONDS = 5.0
_UPKEEP_SECONDS = 5.0


class QueueFile:
    """The file and its bounds; counts evicted runs by reason. Writer's thread only."""

    def __init__(self, config: Config, evicted: Counter[str]) -> None:
        self._path = str(config.store)
        self._config = config
        self._evicted = evicted
        self._owner = uuid.uuid4().hex
        self._table: RunTable | None = None
        self._in_trouble = False
        self._size = 0
        self._reopen_at = self._upkeep_at = self._beat_at = 0.0
        self._watch: FileWatch | None = None
        self.connection: sqlite3.Connection | None = None
        self._lost = 0

    def opened(self) -> RunTable | None:
        """Return the table, opened if necessary; None while the file cannot be used."""
        try:
            self.check()
        except OSError as error:
            self.trouble(str(error))
        if self._table is not None or time.monotonic() < self._reopen_at:
            return self._table
        try:
            make_private(Path(self._path))
            self._watch = FileWatch(self._path)
            self.connection = open_database(self._path)
            self._table = RunTable(self.connection, self._owner, self._config.store_lease, self._lost)
            self._table.limit(self._config.store_max_bytes)
            self._beat_at = self._upkeep_at = 0.0
        except (StoreError, OSError, sqlite3.Error) as error:
            self.trouble(str(error))
            self.close()
        return self._table

    def check(self) -> None:
        """Raise OSError if the open file was deleted, replaced or overwritten; the next use opens another."""
        if self._watch is not None and not self._watch.in_place():
            self.close(0.0)
            self._lost += 1
            raise OSError("it was deleted or replaced while it was in use, with the runs in it")

    def upkeep(self, table: RunTable) -> None:
        """Send the heartbeat, free expired leases and evict, as far as due; at the start of a transaction."""
        now = time.monotonic()
        self._size = table.size
        if now >= self._beat_at:
            table.beat()
            table.expire()
            self._beat_at = now + self._config.store_lease / 3
        if now >= self._upkeep_at:
            self._evict(table, self._config.store_max_bytes)
            self._upkeep_at = now + _UPKEEP_SECONDS

    def upkeep_due(self) -> bool:
        return time.monotonic() >= min(self._beat_at, self._upkeep_at)

    def has_room(self, table: RunTable, size: int) -> bool:
        """Reserve bytes, evicting the oldest free runs if necessary; False if they do not fit."""
        most = self._config.store_max_bytes
        if size > most // 2:
            return False
        if self._size + size > most:
            self._evict(table, most * 9 // 10)
            self._size = table.size
        self._size += size
        return self._size <= most

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

    def close(self, reopen_seconds: float = _REOPEN_SECONDS) -> None:
        """Close the connection; it is reopened after these seconds at the earliest."""
        if self.connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        if self._watch is not None:
            self._watch.close()
        self.connection = self._table = self._watch = None
        self._reopen_at = time.monotonic() + reopen_seconds

    def _evict(self, table: RunTable, max_bytes: int) -> None:
        config = self._config
        lost = table.evict(max_bytes=max_bytes, max_age=config.store_max_age, keep=config.store_keep)
        for reason, count in lost.items():
            self._evicted[f"evicted_{reason}"] += count
