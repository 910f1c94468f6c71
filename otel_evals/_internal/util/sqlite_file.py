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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.threads import OSThread
from otel_evals.errors import StoreError

_HEADER = b"SQLite format 3\x00"
MEMORY = ":memory:"
"""In place of a path: a database that exists in this process only, and starts empty in others."""

_inherited: list[object] = []
"""Connections of the parent process in a forked child: SQLite forbids to use or to close them there."""

_PROOF_SECONDS = 5.0


def open_sqlite(
    path: str | os.PathLike[str], *, create: bool = True, wait: float = 5.0, synchronous: str = "NORMAL"
) -> sqlite3.Connection:
    """Open a file in WAL mode, without implicit transactions; FULL `synchronous` survives power failures."""
    if os.fspath(path) != MEMORY:
        if create:
            make_private(Path(path))
        elif not Path(path).is_file():
            raise OSError("there is no such file")
    check_after_fork(path)
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


class _Closing:
    """Closes connections and descriptors when no fork is under way, on whatever thread garbage is collected.

    A connection that another thread closes during a fork would leave SQLite locked in the child.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        renew_after_fork(self, last=True)

    def close(self, close: Callable[[], None]) -> None:
        self._waiting.append(close)
        # Never blocks: garbage may be collected by the thread that holds the lock.
        while self._waiting and self.lock.acquire(blocking=False):
            try:
                self._close_all()
            finally:
                self.lock.release()

    def _close_all(self) -> None:
        while self._waiting:
            with suppress(sqlite3.Error):
                self._waiting.popleft()()

    def suspend(self) -> Callable[[], None] | None:
        return self._close_all if self._waiting else None

    def renew(self) -> None:
        _inherited.append(self._waiting)
        self.lock, self._waiting = threading.Lock(), deque()


_closing = _Closing()


class _Proof:
    """Finds out in a forked child if SQLite works there.

    SQLite's own locks stay locked in the child if any thread of the parent, also the application's, had one.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.due = False
        self._failed = False
        renew_after_fork(self, last=True)

    def check(self, path: str | os.PathLike[str]) -> None:
        """Raise OSError if SQLite is blocked for good in this forked child, determined at its first use."""
        if self.due:
            with self.lock:
                self._try(path)
        if self._failed:
            raise OSError(
                "another thread used SQLite when this process was forked, which blocks it here; "
                "fix: fork before threads use SQLite, or start processes with spawn"
            )

    def _try(self, path: str | os.PathLike[str]) -> None:
        thread = OSThread(_try_sqlite, (path,), "otel-evals-sqlite")
        if self.due and not self._failed:
            with suppress(RuntimeError):  # no thread can be started while the interpreter ends
                thread.start()
                thread.join(_PROOF_SECONDS)
            self._failed = thread.is_alive()
        self.due = False

    def renew(self) -> None:
        self.lock, self.due = threading.Lock(), True


def _try_sqlite(path: str | os.PathLike[str]) -> None:
    # The empty device takes the locks of files if `path` is in memory.
    for place in (os.devnull, path):
        with suppress(sqlite3.Error):
            db = sqlite3.connect(place, timeout=0, isolation_level=None, check_same_thread=False)
            with suppress(sqlite3.Error):
                db.execute("SELECT random(), count(*) FROM sqlite_master").fetchone()
            db.close()


_proof = _Proof()
check_after_fork = _proof.check


class FileWatch:
    """Notices that a SQLite file was deleted, replaced or overwritten while connections use it.

    Create it before the connections and close it after them. Closing any descriptor of a file releases all
    locks of the process on it, and another process would then delete the log that the connections still
    write. All watches of a file therefore share a descriptor, which the last one closes.
    """

    _shared: ClassVar[dict[tuple[int, int], _Descriptor]] = {}

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        with _closing.lock:
            found = os.stat(path)
            shared = self._shared.get((found.st_dev, found.st_ino)) or _Descriptor(path)
            self._descriptor = self._shared.setdefault(shared.key, shared)
            self._descriptor.users += 1
        release = partial(self._descriptor.release, self._shared)
        self.close = weakref.finalize(self, _closing.close, release)
        self.close.atexit = False  # connections are used until the end

    def in_place(self) -> bool:
        """Return True if the path still leads to the opened file, and that is a database."""
        try:
            found = os.stat(self._path)
            same = (found.st_dev, found.st_ino) == self._descriptor.key
            return same and (os.name == "nt" or os.pread(self._descriptor.number, 16, 0) == _HEADER)
        except OSError:
            return False


class _Descriptor:
    """An open descriptor of a file, and the number of watches that use it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.number = os.open(path, os.O_RDONLY)
        opened = os.fstat(self.number)
        self.key = opened.st_dev, opened.st_ino
        self.users = 0

    def release(self, shared: dict[tuple[int, int], _Descriptor]) -> None:
        self.users -= 1
        if not self.users:
            del shared[self.key]
            os.close(self.number)


def _close_both(db: sqlite3.Connection | None, watch: FileWatch | None) -> None:
    if db is not None:
        with suppress(sqlite3.Error):
            db.close()
    if watch is not None:
        watch.close()


class SQLiteFile:
    """One connection to a SQLite file, for any thread; `schema` may run again. Raises StoreError."""

    def __init__(self, path: str | os.PathLike[str], schema: str, *, wait: float = 5.0) -> None:
        given = os.fspath(path)
        self.path = given if given == MEMORY else os.path.abspath(given)  # also after a later chdir
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
            if self.path != MEMORY:
                make_private(Path(self.path))
                self._watch = FileWatch(self.path)
            self._db = db = open_sqlite(self.path, wait=self._wait)
            self._close = weakref.finalize(self, _closing.close, db.close)
            db.executescript(self._schema)
        except (OSError, sqlite3.Error) as error:
            self._forget()
            raise StoreError(f"{self.path}: {error}") from error
        return db

    def _forget(self) -> None:
        if close := self.suspend():
            close()

    def close(self) -> None:
        """Close the connection until the next use."""
        with self.lock:
            self._forget()

    def suspend(self) -> Callable[[], None] | None:
        """Give up the connection; a forked child would share its locks without having them."""
        db, watch = self._db, self._watch
        # A failed statement says nothing about memory, and its content exists nowhere else.
        if (db is None and watch is None) or (db is not None and self.path == MEMORY):
            return None
        if self._close is not None:
            self._close.detach()
        self._db = self._close = self._watch = None
        return partial(_close_both, db, watch)

    def renew(self) -> None:
        """In a forked child: use a new connection, and leave the parent's untouched."""
        if self._db is not None:
            _inherited.append(self._db)
        if self._close is not None:
            self._close.detach()
        self._db = self._watch = self._close = None
        self.lock = threading.Lock()
