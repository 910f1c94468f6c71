"""Labels of evaluations and users' feedback on traces in the results store."""

from __future__ import annotations

import math
import time
from typing import Any

from sqlalchemy import delete, func, select

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query

_LONGEST = 20_000


def add_label(
    database: Database,
    evaluation_id: str,
    label: float,
    *,
    probability: float | None = None,
    expected: str | None = None,
    comment: str | None = None,
) -> None:
    """Store the score that a person would give; replaces an earlier label of the evaluation.

    `label` is on the scorer's scale; `probability` is that of choosing the run, None if it was not random.
    """
    if probability is not None and not 0.0 < probability <= 1.0:
        raise ConfigError("probability", f"must be above 0 and at most 1, not {probability!r}")
    table, query = schema.labels, select(schema.slices.c.scale).select_from(schema.sliced)
    with database.writing() as connection:
        this = schema.evaluations.c.evaluation_id == evaluation_id
        found = connection.execute(query.where(this)).first()
        if found is None:
            problem = f"{evaluation_id!r} is not on record; it may have been deleted"
            raise ConfigError("evaluation_id", problem)
        if not math.isfinite(label) or (found.scale is not None and not 0.0 <= label <= found.scale):
            raise ConfigError("label", f"must lie in 0..{found.scale or math.inf:g}, not {label:g}")
        connection.execute(delete(table).where(table.c.evaluation_id == evaluation_id))
        texts = {"expected": cut(expected), "comment": cut(comment)}
        row = {"evaluation_id": evaluation_id, "label": label, "probability": probability, **texts}
        connection.execute(table.insert().values(**row, time=time.time_ns()))


def add_feedback(
    database: Database,
    trace_id: str,
    value: float | bool,
    *,
    name: str = "feedback",
    comment: str | None = None,
    source: str = "user",
) -> None:
    """Store a user's feedback on a trace; replaces earlier feedback of the same name and source.

    It may arrive long after the run, or before its scores. True is 1, for a thumbs-up.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ConfigError("value", f"must be a finite number, not {value!r}")
    if len(trace_id) != 32 or not set(trace_id.lower()) <= set("0123456789abcdef"):
        raise ConfigError("trace_id", f"must be 32 hex digits, not {trace_id!r}")
    table = schema.feedback
    key = {"trace_id": trace_id.lower(), "name": name[:200], "source": source[:200]}
    with database.writing() as connection:
        same = (table.c[column] == text for column, text in key.items())
        connection.execute(delete(table).where(*same))
        row = {**key, "value": number, "comment": cut(comment)}
        connection.execute(table.insert().values(**row, time=time.time_ns()))


def cut(text: str | None) -> str | None:
    """Return a text without NUL characters and of limited length; None if empty."""
    return (text or "").replace("\x00", "")[:_LONGEST] or None


def feedback_on(database: Database, trace_id: str) -> list[dict[str, Any]]:
    """Return all feedback on a trace, oldest first."""
    table = schema.feedback
    with database.reading() as connection:
        query = select(table).where(table.c.trace_id == trace_id).order_by(table.c.time)
        return rows_of_query(connection, query)


def labels_on(database: Database, trace_id: str) -> dict[str, float]:
    """Return the labels of a trace's evaluations, by evaluation id."""
    labels = schema.labels.c
    query = select(labels.evaluation_id, labels.label).select_from(schema.labelled_runs)
    with database.reading() as connection:
        found = connection.execute(query.where(schema.runs.c.trace_id == trace_id))
        return {row.evaluation_id: row.label for row in found}


def number_of_labels(database: Database) -> int:
    """Return the number of labels."""
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(schema.labels)).scalar_one()
