"""Opens the store's file: SQLite in WAL mode, readable by its owner only, its schema brought up to date."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from otel_evals._internal.util.private_files import make_private
from otel_evals.errors import StoreError

__all__ = ["MIGRATIONS", "open_database", "transaction"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE owner (
            id TEXT PRIMARY KEY,
            pid INTEGER NOT NULL,
            boot TEXT NOT NULL,     -- boot id of the machine: `seen` is comparable only within one boot
            seen REAL NOT NULL      -- last heartbeat, seconds on the machine's monotonic clock
        ) WITHOUT ROWID
        """,
        """
        CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            trace_id TEXT NOT NULL,
            state TEXT NOT NULL,    -- open, done, dead_letter
            since REAL NOT NULL,    -- when it entered this state, seconds since the Unix epoch
            owner TEXT,             -- the process that holds the lease; NULL when it is free
            due REAL NOT NULL,      -- not to be claimed before, seconds since the Unix epoch
            attempts INTEGER NOT NULL,
            crashes INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            reason TEXT NOT NULL,
            jobs TEXT,              -- what is to be done; NULL before the rules were evaluated
            payload BLOB NOT NULL
        )
        """,
        "CREATE INDEX run_by_trace ON run (trace_id)",
        "CREATE INDEX run_by_state ON run (state, since)",
        "CREATE INDEX run_by_owner ON run (owner) WHERE owner IS NOT NULL",
        "CREATE INDEX run_free ON run (due) WHERE state = 'open' AND owner IS NULL",
    ),
)
"""The statements that migrate each version of the schema to the next; `user_version` counts them."""


def open_database(
    path: str | os.PathLike[str], *, create: bool = True, wait: float = 5.0
) -> sqlite3.Connection:
    """A connection to the store's file, for the calling thread.

    Args:
        path: the file; created with its folder if missing.
        create: False raises an error where the file is missing.
        wait: seconds to wait for a lock that another process holds.

    Raises:
        StoreError: the file is missing, is not a store, was written by a newer version, or cannot be used.
    """
    try:
        if create:
            make_private(Path(path))  # it holds what was said in conversations
        elif not Path(path).is_file():
            raise StoreError(f"{os.fspath(path)}: there is no such file")
        connection = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{os.fspath(path)}: {error}") from error
    try:
        _use_wal(connection, wait)
        _prepare(connection)
    except (sqlite3.Error, StoreError) as error:
        connection.close()
        raise StoreError(f"{os.fspath(path)}: {error}") from error
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction: committed at the end, rolled back on an exception."""
    connection.execute("BEGIN IMMEDIATE")  # takes the write lock now: an upgrade later could fail
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, wait: float) -> None:
    """Switch the file to WAL mode; SQLite does not wait by itself while another process switches it too."""
    deadline = time.monotonic() + wait
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def _prepare(connection: sqlite3.Connection) -> None:
    # With FULL a commit is on the disk before it returns, so it survives a power failure too.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA journal_size_limit = 16777216")
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(MIGRATIONS):
            raise StoreError(f"was written by a newer version (schema {version}); upgrade otel-evals")
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        if version < len(MIGRATIONS):
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
