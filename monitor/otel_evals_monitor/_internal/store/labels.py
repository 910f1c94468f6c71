"""Labels of evaluations, and users' feedback on traces."""

from __future__ import annotations

import math
import time
from typing import Any

from sqlalchemy import func, select

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, put, rows_of_query
from otel_evals_monitor._internal.store.rows import storable

_LONGEST = 20_000
VERDICTS = ("pass", "fail")


def add_label(
    database: Database,
    evaluation_id: str,
    label: float | None = None,
    *,
    verdict: str | None = None,
    failure_type: str | None = None,
    expected: str | None = None,
) -> None:
    """Store a person's label of an evaluation; replaces an earlier one.

    Args:
        database: the store.
        evaluation_id: the labelled evaluation.
        label: the score that the person would give, on the scorer's scale; by default the end of the scale
            that `verdict` names.
        verdict: `pass` or `fail`.
        failure_type: the person's name for what is wrong.
        expected: the right answer.
    """
    if verdict not in (None, *VERDICTS):
        raise ConfigError("verdict", f"must be {' or '.join(VERDICTS)}, not {verdict!r:.60}")
    slices, table = schema.slices.c, schema.labels
    query = select(slices.scale, slices.direction).select_from(schema.sliced)
    with database.writing() as connection:
        this = schema.evaluations.c.evaluation_id == evaluation_id
        found = connection.execute(query.where(this)).first()
        if found is None:
            problem = f"{evaluation_id!r} is not on record; it may have been deleted"
            raise ConfigError("evaluation_id", problem)
        label = _end_of_scale(found, verdict) if label is None else label
        if not math.isfinite(label) or (found.scale is not None and not 0.0 <= label <= found.scale):
            raise ConfigError("label", f"must lie in 0..{found.scale or math.inf:g}, not {label:g}")
        # Types are grouped by their text, so another space must not make another type.
        kind = cut(" ".join((failure_type or "").split())[:200])
        texts = {"expected": cut(expected), "verdict": verdict, "failure_type": kind}
        put(connection, table, {"evaluation_id": evaluation_id}, label=label, **texts, time=time.time_ns())


def _end_of_scale(judged: Any, verdict: str | None) -> float:
    if verdict is None or judged.scale is None:
        raise ConfigError("label", "must be a number, since the scorer has no scale, or there is no verdict")
    best = judged.scale if judged.direction == "higher_is_better" else 0.0
    return float(best if verdict == "pass" else judged.scale - best)


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
    # Feedback may precede its run, so a wrong id cannot be found by looking for the run.
    if len(trace_id) != 32 or not set(trace_id.lower()) <= set("0123456789abcdef"):
        raise ConfigError("trace_id", f"must be 32 hex digits, not {trace_id!r}")
    key = {"trace_id": trace_id.lower(), "name": storable(name[:200]), "source": storable(source[:200])}
    with database.writing() as connection:
        put(connection, schema.feedback, key, value=number, comment=cut(comment), time=time.time_ns())


def cut(text: str | None) -> str | None:
    """Return a storable text of limited length; None if empty."""
    return storable((text or "")[:_LONGEST]) or None


def feedback_on(database: Database, trace_id: str) -> list[dict[str, Any]]:
    table = schema.feedback
    with database.reading() as connection:
        query = select(table).where(table.c.trace_id == trace_id).order_by(table.c.time)
        return rows_of_query(connection, query)


def labels_on(database: Database, trace_id: str) -> dict[str, dict[str, Any]]:
    """Return the labels of a trace's evaluations, by evaluation id."""
    query = select(schema.labels).select_from(schema.labelled_runs)
    with database.reading() as connection:
        found = rows_of_query(connection, query.where(schema.runs.c.trace_id == trace_id))
    return {row["evaluation_id"]: row for row in found}


def failure_types(database: Database) -> list[str]:
    """Return the failure types that people have used, the most frequent first."""
    table = schema.labels.c
    query = select(table.failure_type).where(table.failure_type.is_not(None)).group_by(table.failure_type)
    with database.reading() as connection:
        return list(connection.execute(query.order_by(func.count().desc(), table.failure_type)).scalars())


def number_of_labels(database: Database) -> int:
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(schema.labels)).scalar_one()
