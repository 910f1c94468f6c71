"""Retention limits of the results store, and deletion of traces and users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, text

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query
from otel_evals_monitor._internal.store.writer import change_rollups

_AT_ONCE = 1_000


def keep_within(database: Database, max_age: float | None, max_bytes: int | None) -> int:
    """Delete the oldest runs beyond these limits, with all about them, and return their number.

    `max_age` is in seconds, `max_bytes` the size of a SQLite file, None no limit. Rollups stay.
    """
    deleted = 0
    if max_age is not None:
        deleted += _delete(database, schema.runs.c.recorded < int((time.time() - max_age) * schema.NANO))
    while max_bytes is not None and database.sqlite and _used(database) > max_bytes:
        if not (some := _delete(database, most=_AT_ONCE)):
            break
        deleted += some
    return deleted


def forget(
    database: Database, *, trace_ids: Sequence[str] = (), user_ids: Sequence[str] = ()
) -> tuple[int, int]:
    """Delete all data of traces or users, also from rollups; return the number of runs and evaluations."""
    runs = schema.runs.c
    wanted = runs.trace_id.in_(list(trace_ids)) | runs.user_id.in_(list(user_ids))
    with database.writing() as connection:
        keys = connection.execute(select(runs.key, runs.trace_id).where(wanted)).all()
        evaluations = 0
        for start in range(0, len(keys), _AT_ONCE):
            some = [key for key, _ in keys[start : start + _AT_ONCE]]
            evaluations += _remove(connection, some, rollups=True)
        # Feedback may be on a trace without a run, or with runs of other users.
        for each in {trace for _, trace in keys} | set(trace_ids):
            connection.execute(delete(schema.feedback).where(schema.feedback.c.trace_id == each))
    if database.sqlite:
        database.compact()
    return len(keys), evaluations


def _remove(connection: Connection, keys: Sequence[int], *, rollups: bool) -> int:
    """Delete runs by key, with all about them; return the number of evaluations."""
    table, runs, feedback = schema.evaluations, schema.runs, schema.feedback
    rows = rows_of_query(connection, select(table).where(table.c.run_key.in_(keys)))
    if rollups:
        change_rollups(connection, [], rows)
    ids = [row["evaluation_id"] for row in rows]
    for each in (schema.labels, schema.drawn, table):
        connection.execute(delete(each).where(each.c.evaluation_id.in_(ids)))
    traces = list(connection.execute(select(runs.c.trace_id).where(runs.c.key.in_(keys))).scalars())
    connection.execute(delete(runs).where(runs.c.key.in_(keys)))
    gone = feedback.c.trace_id.in_(traces) & feedback.c.trace_id.not_in(select(runs.c.trace_id))
    connection.execute(delete(feedback).where(gone))
    return len(rows)


def _delete(database: Database, condition: Any = None, most: int | None = None) -> int:
    deleted, runs = 0, schema.runs.c
    while most is None or deleted < most:
        query = select(runs.key).order_by(runs.recorded).limit(_AT_ONCE)
        if condition is not None:
            query = query.where(condition)
        with database.writing() as connection:
            keys = list(connection.execute(query).scalars())
            if not keys:
                break
            _remove(connection, keys, rollups=False)
        deleted += len(keys)
    return deleted


def _used(database: Database) -> int:
    """Return the bytes in use in a SQLite file, without freed pages."""
    with database.reading() as connection:
        pages, free, size = (
            connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)
