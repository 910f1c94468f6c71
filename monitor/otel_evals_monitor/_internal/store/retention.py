"""Retention and deletion: what is too old, too much, or to be forgotten leaves the results store."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select, text

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.writer import change_rollups

_NANO = 1_000_000_000
_AT_ONCE = 1_000
_SELDOM = 60.0


def holds(database: Database, evaluation_ids: Collection[str], revision: int) -> bool:
    """Whether all of these evaluations are there, in this revision or a later one."""
    table, wanted = schema.evaluations.c, list(evaluation_ids)
    found = 0
    with database.reading() as connection:
        for start in range(0, len(wanted), _AT_ONCE):
            some = table.evaluation_id.in_(wanted[start : start + _AT_ONCE])
            query = (
                select(func.count()).select_from(schema.evaluations).where(some, table.revision >= revision)
            )
            found += connection.execute(query).scalar_one()
    return found == len(set(wanted))


_checked: dict[int, float] = {}


def keep_within(
    database: Database, max_age: float | None, max_bytes: int | None, *, seldom: float = _SELDOM
) -> int:
    """Delete the oldest runs beyond these limits, with their evaluations. Rollups stay.

    Args:
        database: the store.
        max_age: seconds since the scores of a run were known; None for no limit.
        max_bytes: size of a SQLite file; None for no limit.
        seldom: seconds within which a second call for the same store does nothing.

    Returns:
        How many runs were deleted.
    """
    if max_age is None and max_bytes is None:
        return 0
    now = time.monotonic()
    if now - _checked.get(id(database), float("-inf")) < seldom:
        return 0
    _checked[id(database)] = now
    deleted = 0
    if max_age is not None:
        deleted += _delete_older(database, int((time.time() - max_age) * _NANO))
    while max_bytes is not None and database.sqlite and _used(database) > max_bytes:
        if not (some := _delete_oldest(database)):
            break
        deleted += some
    return deleted


def forget(
    database: Database, *, trace_ids: Sequence[str] = (), user_ids: Sequence[str] = ()
) -> tuple[int, int]:
    """Delete everything about traces or users: runs, evaluations, labels, feedback, their share of rollups.

    Returns:
        How many runs and how many evaluations were deleted.
    """
    runs = schema.runs.c
    wanted = runs.trace_id.in_(list(trace_ids)) | runs.user_id.in_(list(user_ids))
    with database.writing() as connection:
        keys = connection.execute(select(runs.key, runs.trace_id).where(wanted)).all()
        evaluations = 0
        for start in range(0, len(keys), _AT_ONCE):
            evaluations += _remove(
                connection, [key for key, _ in keys[start : start + _AT_ONCE]], rollups=True
            )
        traces = {trace for _, trace in keys} | set(trace_ids)
        for each in traces:
            connection.execute(delete(schema.feedback).where(schema.feedback.c.trace_id == each))
    if database.sqlite:
        _overwrite(database)
    return len(keys), evaluations


def _remove(connection: Connection, keys: Sequence[int], *, rollups: bool) -> int:
    """Delete runs by key, with what hangs on them; returns the number of evaluations."""
    table = schema.evaluations
    rows = [
        dict(row) for row in connection.execute(select(table).where(table.c.run_key.in_(keys))).mappings()
    ]
    if rollups:
        change_rollups(connection, [], rows)
    ids = [row["evaluation_id"] for row in rows]
    connection.execute(delete(schema.labels).where(schema.labels.c.evaluation_id.in_(ids)))
    connection.execute(delete(table).where(table.c.run_key.in_(keys)))
    connection.execute(delete(schema.runs).where(schema.runs.c.key.in_(keys)))
    return len(rows)


def _delete_older(database: Database, before: int) -> int:
    return _delete(database, schema.runs.c.recorded < before)


def _delete_oldest(database: Database) -> int:
    return _delete(database, True, _AT_ONCE)


def _delete(database: Database, condition: Any, most: int | None = None) -> int:
    """Delete runs, oldest first, in short transactions."""
    deleted, runs = 0, schema.runs.c
    while most is None or deleted < most:
        query = select(runs.key).order_by(runs.recorded).limit(_AT_ONCE)
        if condition is not True:
            query = query.where(condition)
        with database.writing() as connection:
            keys = list(connection.execute(query).scalars())
            if not keys:
                break
            _remove(connection, keys, rollups=False)
        deleted += len(keys)
    return deleted


def _used(database: Database) -> int:
    """Bytes in use in a SQLite file; freed pages are used again and do not count."""
    with database.reading() as connection:
        pages, free, size = (
            connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def _overwrite(database: Database) -> None:
    """Have what was deleted leave the file, and its log, too."""
    with database.reading() as connection:
        connection.exec_driver_sql("VACUUM")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
