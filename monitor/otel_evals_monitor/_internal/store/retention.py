"""Retention limit of the results store, and deletion of traces and users."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import delete, select

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.writer import remove_runs

_AT_ONCE = 1_000


def keep_within(database: Database, max_age: float) -> int:
    """Delete runs that ended `max_age` seconds ago or earlier, with all about them; return their number.

    Rollups stay.
    """
    deleted, runs = 0, schema.runs.c
    oldest = int((time.time() - max_age) * schema.NANO)
    query = select(runs.key).where(runs.time < oldest).order_by(runs.time).limit(_AT_ONCE)
    # One transaction per batch, so writers of runs wait for one batch at most.
    while True:
        with database.writing() as connection:
            keys = list(connection.execute(query).scalars())
            if not keys:
                return deleted
            remove_runs(connection, keys, rollups=False)
        deleted += len(keys)


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
