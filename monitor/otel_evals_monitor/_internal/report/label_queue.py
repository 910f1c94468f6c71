"""The label queue: runs worth a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, case, select

from otel_evals_monitor._internal.report.runs import RunOfSlice, run_rows, runs_of_slices
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.queries import Window

_MOST = 8


def label_queue(connection: Connection, slices: Mapping[int, Any]) -> dict[str, list[RunOfSlice]]:
    """Return runs to label: sent to review, in conflict with feedback, with low scores."""
    table, feedback, runs = schema.evaluations.c, schema.feedback.c, schema.runs.c
    unlabelled = table.evaluation_id.not_in(select(schema.labels.c.evaluation_id))
    newest = select(schema.evaluations).select_from(schema.sliced).where(unlabelled)
    newest = newest.order_by(table.time.desc()).limit(_MOST)
    complaints = select(feedback.trace_id).where(feedback.value <= 0).order_by(feedback.time.desc())
    theirs = select(runs.key).where(runs.trace_id.in_(complaints.limit(500)))
    praised = case((schema.slices.c.direction == "lower_is_better", table.x <= 0.5), else_=table.x >= 0.5)
    queries = {
        "Sent to review": newest.where(table.review.is_not(None)),
        "Users disagree": newest.where(table.run_key.in_(theirs), praised),
    }
    found = {
        title: run_rows(connection, slices, connection.execute(query).mappings().all())
        for title, query in queries.items()
    }
    worst: list[RunOfSlice] = []
    # `runs_of_slices` sorts in one direction, so each gets a separate query.
    for direction in ("higher_is_better", "lower_is_better"):
        some = {id: each for id, each in slices.items() if each["direction"] == direction}
        worst += runs_of_slices(connection, some, Window(), _MOST, order="worst")
    return {**found, "Low scores": worst[:_MOST]}
