"""Retention limits of the results store, and deletion of traces and users."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, text

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.writer import remove_runs

_AT_ONCE = 1_000


def keep_within(database: Database, max_age: float | None, max_bytes: int | None) -> int:
    """Delete the oldest runs beyond these limits, with all about them, and return their number.

    `max_age` is in seconds after a run's end, `max_bytes` the size of a SQLite file, None no limit.
    Rollups stay.
    """
    deleted = 0
    if max_age is not None:
        deleted += _delete(database, schema.runs.c.time < int((time.time() - max_age) * schema.NANO))
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
        evaluations = remove_runs(connection, [key for key, _ in keys])
        # Feedback may be on a trace without a run, or with runs of other users.
        for each in {trace for _, trace in keys} | set(trace_ids):
            connection.execute(delete(schema.feedback).where(schema.feedback.c.trace_id == each))
    if database.sqlite:
        database.compact()
    return len(keys), evaluations


def _delete(database: Database, condition: Any = None, most: int | None = None) -> int:
    deleted, runs = 0, schema.runs.c
    while most is None or deleted < most:
        query = select(runs.key).order_by(runs.time).limit(_AT_ONCE)
        if condition is not None:
            query = query.where(condition)
        with database.writing() as connection:
            keys = list(connection.execute(query).scalars())
            if not keys:
                break
            remove_runs(connection, keys, rollups=False)
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
