"""Private SQLite files: one way to open them, and a connection that survives forks and replaced files.

Budgets, caches and queues contain prompts and answers. A file is created with mode 0600. A file that others
may read is narrowed to that mode; a symbolic link or a file of another user is refused.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import StoreError

_HEADER = b"SQLite format 3\x00"
MEMORY = ":memory:"
"""In place of a path: a database that exists in this process only, and starts empty in others."""

_inherited: list[sqlite3.Connection] = []
"""Connections of the parent process in a forked child: SQLite forbids to use or to close them there."""


def open_sqlite(
    path: str | os.PathLike[str], *, create: bool = True, wait: float = 5.0, synchronous: str = "NORMAL"
) -> sqlite3.Connection:
    """Open a file in WAL mode, without implicit transactions; FULL `synchronous` survives power failures."""
    if os.fspath(path) != MEMORY:
        if create:
            make_private(Path(path))
        elif not Path(path).is_file():
            raise OSError("there is no such file")
    db = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(db, time.monotonic() + wait)
        db.execute(f"PRAGMA synchronous = {synchronous}")
    except sqlite3.Error:
        db.close()
        raise
    return db


def make_private(path: Path) -> None:
    """Create a file with mode 0600, or remove the permissions of others from an existing one.

    Raises:
        OSError: it is a symbolic link, not a regular file, or belongs to another user.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Do not open an existing file: closing it would release the locks of this process's connections.
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("is a symbolic link, or no plain file") from None
        if hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            raise OSError("belongs to another user") from None
        if os.name == "posix" and found.st_mode & 0o077:
            os.chmod(path, stat.S_IMODE(found.st_mode) & 0o700)


def _use_wal(db: sqlite3.Connection, deadline: float) -> None:
    """Switch the file to WAL mode; SQLite itself does not wait while another process switches it."""
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run one transaction: committed at the end, rolled back on an exception."""
    db.execute("BEGIN IMMEDIATE")  # takes the write lock now: an upgrade later could fail
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class FileWatch:
    """Notices that a SQLite file was deleted, replaced or overwritten while connections use it.

    Close it after the connections: closing any descriptor of a file releases all locks of the process on it,
    and another process would then delete the log that the connections still write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        self.close.atexit = False  # connections are used until the end

    def in_place(self) -> bool:
        """Return True if the path still leads to the opened file, and that is a database."""
        try:
            found, opened = os.stat(self._path), os.fstat(self._descriptor)
            same = (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
            return same and (os.name == "nt" or os.pread(self._descriptor, 16, 0) == _HEADER)
        except OSError:
            return False


class SQLiteFile:
    """One connection to a SQLite file, for any thread; `schema` may run again. Raises StoreError."""

    def __init__(self, path: str | os.PathLike[str], schema: str, *, wait: float = 5.0) -> None:
        self.path = os.fspath(path)
        self._schema = schema
        self._wait = wait
        self._db: sqlite3.Connection | None = None
        self._watch: FileWatch | None = None
        self._close: weakref.finalize[..., SQLiteFile] | None = None
        self.lock = threading.Lock()
        renew_after_fork(self)
        with self.lock:
            self._connection()

    def __reduce__(self) -> tuple[type[SQLiteFile], tuple[str, str]]:
        return type(self), (self.path, self._schema)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self.lock:
            try:
                db = self._connection()
                with transaction(db):
                    yield db
            except (OSError, sqlite3.Error) as error:
                self._forget()
                raise StoreError(f"{self.path}: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        """Return the open connection, or a new one if the file was deleted or replaced."""
        if self._db is not None and (self._watch is None or self._watch.in_place()):
            return self._db
        self._forget()
        try:
            self._db = db = open_sqlite(self.path, wait=self._wait)
            self._close = weakref.finalize(self, db.close)
            db.executescript(self._schema)
            self._watch = None if self.path == MEMORY else FileWatch(self.path)
        except (OSError, sqlite3.Error) as error:
            self._forget()
            raise StoreError(f"{self.path}: {error}") from error
        return db

    def _forget(self) -> None:
        if self._db is not None and self.path == MEMORY:
            return  # a failed statement says nothing about memory, and its content exists nowhere else
        if self._close is not None:
            with suppress(sqlite3.Error):
                self._close()
        if self._watch is not None:
            self._watch.close()
        self._db = self._close = self._watch = None

    def close(self) -> None:
        """Close the connection until the next use."""
        with self.lock:
            self._forget()

    def renew(self) -> None:
        """In a forked child: use a new connection, and leave the parent's untouched."""
        if self._db is not None:
            _inherited.append(self._db)
        if self._close is not None:
            self._close.detach()
        self._db = self._watch = self._close = None
        self.lock = threading.Lock()
