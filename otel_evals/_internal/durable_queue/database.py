"""The schema of the durable queue's file, and its migrations."""

from __future__ import annotations

import os
import sqlite3

from otel_evals._internal.util.sqlite_file import open_sqlite, transaction
from otel_evals.errors import StoreError

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
            owner TEXT,             -- the process with the lease; NULL if it is free
            due REAL NOT NULL,      -- not to be claimed before, seconds since the Unix epoch
            attempts INTEGER NOT NULL,
            crashes INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            reason TEXT NOT NULL,
            jobs TEXT,              -- evaluations to make; NULL before the rules were evaluated
            payload BLOB NOT NULL
        )
        """,
        "CREATE INDEX run_by_trace ON run (trace_id)",
        "CREATE INDEX run_by_state ON run (state, since)",
        "CREATE INDEX run_by_owner ON run (owner) WHERE owner IS NOT NULL",
        "CREATE INDEX run_free ON run (due) WHERE state = 'open' AND owner IS NULL",
    ),
)
"""Statements that migrate each version of the schema to the next; `user_version` counts them."""


def open_database(
    path: str | os.PathLike[str], *, create: bool = True, wait: float = 5.0
) -> sqlite3.Connection:
    """Open the queue's file, with its schema brought up to date; StoreError if it cannot be used."""
    connection = None
    try:
        connection = open_sqlite(path, create=create, wait=wait, synchronous="FULL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        with transaction(connection):
            _migrate(connection)
    except (OSError, sqlite3.Error, StoreError) as error:
        if connection is not None:
            connection.close()
        raise StoreError(f"{os.fspath(path)}: {error}") from error
    return connection


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(f"was written by a newer version (schema {version}); upgrade otel-evals")
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    if version < len(MIGRATIONS):
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
