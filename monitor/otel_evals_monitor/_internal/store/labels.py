"""People's verdicts in the results store: labels of evaluations, and users' feedback on traces."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, select

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database

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
    """Keep what a person says the score should be; a second label of one evaluation replaces the first.

    Args:
        database: the store.
        evaluation_id: of a scored run.
        label: on the scorer's scale.
        probability: with which the run was chosen for labelling; None where it was not left to chance.
        expected: the answer that should have been given.
        comment: anything else.

    Raises:
        ConfigError: there is no such evaluation, or the label or probability is out of range.
        StoreError: the store cannot be written.
    """
    if probability is not None and not 0.0 < probability <= 1.0:
        raise ConfigError("probability", f"must be above 0 and at most 1, not {probability!r}")
    evaluations, slices, table = schema.evaluations, schema.slices, schema.labels
    with database.writing() as connection:
        joined = evaluations.join(slices, slices.c.id == evaluations.c.slice_id)
        query = select(slices.c.scale).select_from(joined).where(evaluations.c.evaluation_id == evaluation_id)
        found = connection.execute(query).first()
        if found is None:
            raise ConfigError(
                "evaluation_id", f"{evaluation_id!r} is not on record; it may have been deleted"
            )
        if not math.isfinite(label) or (found.scale is not None and not 0.0 <= label <= found.scale):
            raise ConfigError("label", f"must lie in 0..{found.scale or math.inf:g}, not {label:g}")
        connection.execute(delete(table).where(table.c.evaluation_id == evaluation_id))
        values = {
            "expected": (expected or "")[:_LONGEST] or None,
            "comment": (comment or "")[:_LONGEST] or None,
        }
        row = {"evaluation_id": evaluation_id, "label": label, "probability": probability, **values}
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
    """Keep a user's verdict on a trace; it may come long after the run, and before its scores.

    A second one of the same name and source replaces the first.

    Args:
        database: the store.
        trace_id: 32 hex digits.
        value: a finite number; True is 1, for a thumb up.
        name: what was asked.
        comment: what the user wrote.
        source: who said so.

    Raises:
        ConfigError: an argument is out of range.
        StoreError: the store cannot be written.
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
        row = {**key, "value": number, "comment": (comment or "")[:_LONGEST] or None}
        connection.execute(table.insert().values(**row, time=time.time_ns()))


def feedback_on(database: Database, trace_id: str) -> list[Mapping[str, Any]]:
    """All feedback on a trace, oldest first."""
    table = schema.feedback
    with database.reading() as connection:
        query = select(table).where(table.c.trace_id == trace_id).order_by(table.c.time)
        return [dict(row) for row in connection.execute(query).mappings()]


def labels_on(database: Database, trace_id: str) -> dict[str, float]:
    """The labels of a trace's evaluations, by evaluation id."""
    labels, evaluations, runs = schema.labels, schema.evaluations, schema.runs
    joined = labels.join(evaluations, evaluations.c.evaluation_id == labels.c.evaluation_id).join(
        runs, runs.c.key == evaluations.c.run_key
    )
    query = select(labels.c.evaluation_id, labels.c.label).select_from(joined)
    with database.reading() as connection:
        return {
            row.evaluation_id: row.label
            for row in connection.execute(query.where(runs.c.trace_id == trace_id))
        }


def number_of_labels(database: Database) -> int:
    """How many labels there are."""
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(schema.labels)).scalar_one()
