"""Database of a results store: a SQLite file or a PostgreSQL server."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, delete, event, insert, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from otel_evals.errors import StoreError
from otel_evals.sdk.util import (
    FileWatch,
    Gate,
    install_hint,
    make_private,
    renew_after_fork,
)
from otel_evals_monitor._internal.store import schema

# Id of the advisory lock of PostgreSQL's writers; any number that no other program uses.
_WRITE_LOCK = 0x6F74656C6576616C

_inherited: list[object] = []
"""Pools of the parent process in a forked child, which must not close their connections."""


def is_url(place: str | os.PathLike[str]) -> bool:
    """Return True for the URL of a database server, False for a file."""
    # A Path has joined the two slashes.
    return re.match(r"[a-z][a-z0-9+.]+:/", str(place), re.IGNORECASE) is not None


def rows_of_query(connection: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(query).mappings()]


def put(connection: Connection, table: Table, key: Mapping[str, Any], **values: Any) -> None:
    """Write a row, in place of one with the same key."""
    same = (table.c[name] == value for name, value in key.items())
    connection.execute(delete(table).where(*same))
    connection.execute(insert(table).values(**key, **values))


class Database:
    """An open results database of the current schema. Thread-safe; raises all its errors as `StoreError`."""

    def __init__(self, place: str | os.PathLike[str], *, create: bool = True) -> None:
        """Open the database, or create its tables; with `create=False`, the store must exist."""
        self.name = _shown(place)
        self.lock = Gate()
        # SQLite allows one writer; threads of this process wait here instead of polling the file's lock.
        self._turn = threading.Lock()
        with self._store_errors():
            self.engine = _engine(place, create)
            self._file: Path | None = None
            self._watch: FileWatch | None = None
            self.sqlite = self.engine.dialect.name == "sqlite"
            renew_after_fork(self)
            try:
                if self.sqlite:
                    self._watch = FileWatch(place)
                self._prepare(create)
                if self.sqlite:
                    self._file = Path(place)
            except BaseException:
                self.close()
                raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection whose queries all see the same moment: sums of different tables must agree."""
        with self.lock.inside():
            self._check_file()
            with self._store_errors(), self.engine.connect() as connection:
                if self.sqlite:
                    # A deferred transaction: SQLite fixes its moment at the first query.
                    connection.exec_driver_sql("BEGIN")
                else:
                    # PostgreSQL's default, READ COMMITTED, shows each query another moment.
                    connection.execution_options(isolation_level="REPEATABLE READ")
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a transaction. One writer at a time keeps rollups consistent with their rows."""
        with self._turn, self.lock.inside():
            self._check_file()
            with self._store_errors(), self.engine.begin() as connection:
                if self.sqlite:
                    # Locks at once: a read that becomes a write fails if another process wrote meanwhile.
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                else:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _WRITE_LOCK})
                yield connection
            self._check_file()  # the rows went into a file that somebody has deleted meanwhile

    def compact(self) -> None:
        """Remove deleted data from a SQLite file and its log."""
        with self.lock.inside(), self._store_errors(), self.engine.connect() as connection:
            # Until the file is rewritten, deleted texts remain readable in its free pages.
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self.engine.dispose()
        self._watch = None

    def _check_file(self) -> None:
        """Raise StoreError if the open SQLite file was deleted, replaced or overwritten."""
        if self._file is None:
            return
        with self._store_errors():
            watch = self._watch = self._watch or FileWatch(self._file)
        if not watch.in_place():
            self.close()  # with another database at the path, the next use may succeed
            raise StoreError(f"{self.name}: was deleted or replaced while it was in use")

    def suspend(self) -> None:
        """Close the connections before a fork: a child must not use or close its parent's."""
        self.engine.dispose()

    def renew(self) -> None:
        """In a forked child: use new connections, also if the parent's were in use during the fork."""
        self.lock, self._turn = Gate(), threading.Lock()
        _inherited.append(self.engine.pool)
        self.engine.dispose(close=False)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        # PostgreSQL's driver refuses a value itself, SQLite's leaves Python's error.
        except (SQLAlchemyError, OSError, OverflowError, UnicodeEncodeError) as error:
            # SQLAlchemy's own text quotes the statement with its values, which may be content.
            problem = str(getattr(error, "orig", None) or error).strip().splitlines() or ["unusable"]
            raise StoreError(f"{self.name}: {problem[0]}") from error

    def _prepare(self, create: bool) -> None:
        with self.reading() as connection:
            version = self._version(connection, create)
        if version not in (0, schema.VERSION):
            age, fix = "an earlier", "load its records into a new file"
            if version > schema.VERSION:
                age, fix = "a newer", "upgrade otel-evals"
            raise StoreError(f"{self.name}: was written by {age} version (schema {version}); {fix}")
        if not version:
            with self.writing() as connection:
                # Read again with the lock: another process may have created the tables meanwhile.
                if not self._version(connection, create):
                    schema.metadata.create_all(connection)
                    put(connection, schema.settings, {"name": "schema"}, value=str(schema.VERSION))

    def _version(self, connection: Connection, create: bool) -> int:
        """Return the version of the schema, 0 for an empty database."""
        tables = inspect(connection).get_table_names()
        if "settings" in tables:
            query = select(schema.settings.c.value).where(schema.settings.c.name == "schema")
            if found := connection.execute(query).scalar():
                return int(found)
        # A server's database may be shared with other programs, a file may not.
        if tables if self.sqlite else {"runs", "evaluations", "rollups"} & set(tables):
            raise StoreError(f"{self.name}: contains other tables; it is not a results store")
        if not create:
            raise StoreError(f"{self.name}: is empty; it is not a results store yet")
        return 0


def _engine(place: str | os.PathLike[str], create: bool) -> Engine:
    if is_url(place):
        return _server(str(place))
    path = Path(place).absolute()  # also after a later chdir
    if path.is_dir():
        raise StoreError(f"{path}: is a folder; name a file in it")
    if not create and not path.is_file():
        raise StoreError(f"{path}: there is no such file")
    if create:
        make_private(path)  # it may contain conversations
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 10.0})  # for another process's lock
    event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _server(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgres", "postgresql"):
            # SQLAlchemy takes psycopg2 unless the URL names a driver.
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() != "postgresql":
            raise StoreError(f"{_shown(url)}: only SQLite files and postgresql:// URLs are supported")
        # A restart of the server leaves dead connections in the pool.
        return create_engine(parsed, pool_pre_ping=True, connect_args={"connect_timeout": 10})
    except (ArgumentError, NoSuchModuleError) as error:
        # SQLAlchemy 2.0 quotes the URL with its password.
        raise StoreError(f"{_shown(url)}: {str(error).replace(url, _shown(url))}") from None
    except ModuleNotFoundError as error:
        raise StoreError(f"{_shown(url)}: needs {error.name}: {install_hint('monitor')}") from error


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # `reading` and `writing` begin, each with its lock
    # With a write-ahead log, readers and the writer do not block each other.
    connection.execute("PRAGMA journal_mode = WAL")
    # With NORMAL, a power failure may lose the last commits, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    # A negative size is in KiB: 64 MiB.
    connection.execute("PRAGMA cache_size = -65536")
    connection.execute("PRAGMA wal_autocheckpoint = 8000")
    # Truncates a log that a large transaction has extended.
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _shown(place: str | os.PathLike[str]) -> str:
    """Return the place without its password."""
    return re.sub(r":(/+)([^:/@]*):[^@]*@", r":\1\2:***@", str(place))
