"""A SQLite file of ours: private to its owner, one connection per process, renewed after a fork.

Budgets and caches hold what models were asked and answered. The file is made with mode 0600; a file that
others may read is narrowed to that, and one that belongs to somebody else, or is a symbolic link, is refused.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.private_files import make_private
from otel_evals.errors import StoreError

__all__ = ["MEMORY", "SQLiteFile"]

MEMORY = ":memory:"
"""In place of a path: a database that lives in this process only, and starts empty in others."""

_inherited: list[sqlite3.Connection] = []
"""Connections of the parent process in a forked child: SQLite forbids to use or to close them there."""


class SQLiteFile:
    """One connection to a SQLite file, opened when it is first needed; to be used from any thread.

    Args:
        path: of the file, or MEMORY.
        schema: statements that make what is missing, each of which may run again.
        wait: seconds to wait where another process writes.

    Raises:
        StoreError: the file is not ours, is a symbolic link, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], schema: str, *, wait: float = 5.0) -> None:
        self.path = os.fspath(path)
        self._schema = schema
        self._wait = wait
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._close: weakref.finalize[..., SQLiteFile] | None = None
        self.lock = threading.Lock()
        renew_after_fork(self)
        with self.lock:
            self._connection()

    def __reduce__(self) -> tuple[type[SQLiteFile], tuple[str, str]]:
        """In another process: the same file, or an empty database in memory."""
        return type(self), (self.path, self._schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing; the right to write is had from the beginning.

        Raises:
            StoreError: the file cannot be used, now or at all.
        """
        with self.lock:
            try:
                db = self._connection()
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except (OSError, sqlite3.Error) as error:
                self._forget()
                raise StoreError(f"{self.path}: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        """The open connection; a new one where the file was deleted or replaced."""
        if self._db is not None and self._identity == self._found():
            return self._db
        self._forget()
        try:
            if self.path != MEMORY:
                make_private(Path(self.path))
            self._db = self._opened()
            self._identity = self._found()
        except (OSError, sqlite3.Error) as error:
            self._forget()
            raise StoreError(f"{self.path}: {error}") from error
        return self._db

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=self._wait, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(self._schema)
        except sqlite3.Error:
            db.close()
            raise
        self._close = weakref.finalize(self, db.close)
        return db

    def _found(self) -> tuple[int, int] | None:
        """Which file stands at the path; None for a database in memory, and where there is none."""
        if self.path == MEMORY:
            return 0, 0
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _forget(self) -> None:
        if self._db is not None and self.path == MEMORY:
            return  # there is no file to blame, and nothing else holds what it knows
        if self._close is not None:
            with suppress(sqlite3.Error):
                self._close()
        self._db = self._close = self._identity = None

    def close(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        with self.lock:
            self._forget()

    def renew(self) -> None:
        """In a forked child: a connection of its own, when it is needed; the parent's is not touched."""
        if self._db is not None:
            _inherited.append(self._db)
        if self._close is not None:
            self._close.detach()
        self._db = self._identity = self._close = None
        self.lock = threading.Lock()
