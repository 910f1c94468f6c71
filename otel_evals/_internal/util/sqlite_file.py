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
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import StoreError

_HEADER = b"SQLite format 3\x00"
MEMORY = ":memory:"
"""In place of a path: a database that exists in this process only, and starts empty in others."""

_inherited: list[object] = []
"""Connections of the parent process in a forked child: SQLite forbids to use or to close them there."""


class _Opening:
    """Opens connections, and closes those that were dropped, while no fork is under way.

    SQLite's own locks stay locked in a child that is forked while a thread of the parent has one of them.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._dropped: deque[sqlite3.Connection] = deque()
        renew_after_fork(self, last=True)

    def open(self, path: str, wait: float) -> sqlite3.Connection:
        with self.lock:
            self.suspend()
            return open_sqlite(path, wait=wait)

    def drop(self, db: sqlite3.Connection) -> None:
        """Leave a connection to the next opening: garbage is collected on any thread, also during a fork."""
        self._dropped.append(db)

    def suspend(self) -> None:
        """Close dropped connections. Called with the lock held."""
        while self._dropped:
            with suppress(sqlite3.Error):
                self._dropped.popleft().close()

    def renew(self) -> None:
        _inherited.append(self._dropped)
        self.lock, self._dropped = threading.Lock(), deque()


_opening = _Opening()


def open_sqlite(path: str, *, wait: float) -> sqlite3.Connection:
    """Open a file, which is created if necessary, in WAL mode, without implicit transactions."""
    if path != MEMORY:
        make_private(Path(path))
    db = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        _use_wal(db, time.monotonic() + wait)
        # Safe in WAL mode: only a power cut may lose the last commits.
        db.execute("PRAGMA synchronous = NORMAL")
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
            raise OSError("is a symbolic link, or not a regular file") from None
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
            # The low byte is the primary code, of which SQLite has extended forms.
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
    """Notices that a SQLite file was deleted, replaced or overwritten while connections use it."""

    # Never closed: closing any descriptor of a file releases all locks of the process on it, and another
    # process would then delete the log that the connections still write.
    _descriptors: ClassVar[dict[tuple[int, int], int]] = {}

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._file = _identity(path)
        if self._file not in self._descriptors:
            self._descriptors[self._file] = os.open(path, os.O_RDONLY)

    def in_place(self) -> bool:
        """Return True if the path still leads to the opened file, and that is a database."""
        try:
            if _identity(self._path) != self._file:
                return False
            return os.name == "nt" or os.pread(self._descriptors[self._file], 16, 0) == _HEADER
        except OSError:
            return False


def _identity(path: str | os.PathLike[str]) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


class SQLiteFile:
    """One connection to a SQLite file, for any thread; `schema` may run again. Raises StoreError."""

    def __init__(self, path: str | os.PathLike[str], schema: str, *, wait: float = 5.0) -> None:
        given = os.fspath(path)
        self.path = given if given == MEMORY else os.path.abspath(given)  # also after a later chdir
        self._schema = schema
        self._wait = wait
        self._db: sqlite3.Connection | None = None
        self._watch: FileWatch | None = None
        self._drop: weakref.finalize[..., SQLiteFile] | None = None
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
                self.suspend()
                raise StoreError(f"{self.path}: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        """Return the open connection, or a new one if the file was deleted or replaced."""
        if self._db is not None and (self._watch is None or self._watch.in_place()):
            return self._db
        self.suspend()
        try:
            self._db = _opening.open(self.path, self._wait)
            self._drop = weakref.finalize(self, _opening.drop, self._db)
            if self.path != MEMORY:
                self._watch = FileWatch(self.path)
            self._db.executescript(self._schema)
        except (OSError, sqlite3.Error) as error:
            self.suspend()
            raise StoreError(f"{self.path}: {error}") from error
        return self._db

    def close(self) -> None:
        """Close the connection until the next use."""
        with self.lock:
            self.suspend()

    def suspend(self) -> None:
        """Close the connection; a forked child would share its locks without having them."""
        # A failed statement says nothing about memory, and its content exists nowhere else.
        if self._db is None or self.path == MEMORY:
            return
        with suppress(sqlite3.Error):
            self._db.close()
        self._forget()

    def renew(self) -> None:
        """In a forked child: use a new connection, and leave the parent's untouched."""
        if self._db is not None:
            _inherited.append(self._db)
        self._forget()
        self.lock = threading.Lock()

    def _forget(self) -> None:
        if self._drop is not None:
            self._drop.detach()
        self._db = self._watch = self._drop = None
