"""The label queue: runs worth a label, and the judge's mean corrected by labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, case, select

from otel_evals.statistics import CLUSTER_GROUPS, Interval, Labelled, corrected
from otel_evals_monitor._internal.report.runs import RunOfSlice, run_rows, runs_of_slices
from otel_evals_monitor._internal.report.words import count, interval, number
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.labels import chances_of, drawn_unlabelled
from otel_evals_monitor._internal.store.queries import Window, measure

_MOST = 8


def label_queue(connection: Connection, slices: Mapping[int, Any]) -> list[tuple[str, list[RunOfSlice]]]:
    """Return runs to label: drawn at random, sent to review, in conflict with feedback, with low scores."""
    evaluations, feedback, runs = schema.evaluations, schema.feedback, schema.runs
    unlabelled = _outside(schema.labels)
    scored = evaluations.c.status == "scored"
    chosen = drawn_unlabelled(connection, _MOST)
    sent = select(evaluations).where(evaluations.c.review.is_not(None), unlabelled, _outside(schema.drawn))
    sent = sent.order_by(evaluations.c.time.desc()).limit(_MOST)
    complaints = select(feedback.c.trace_id).where(feedback.c.value <= 0).order_by(feedback.c.time.desc())
    theirs = select(runs.c.key).where(runs.c.trace_id.in_(complaints.limit(500)))
    high, low = evaluations.c.x >= 0.5, evaluations.c.x <= 0.5
    praised = case((schema.slices.c.direction == "lower_is_better", low), else_=high)
    against = select(evaluations).select_from(schema.sliced).where(scored, unlabelled, praised)
    against = against.where(evaluations.c.run_key.in_(theirs)).limit(_MOST)
    worst: list[RunOfSlice] = []
    for direction in ("higher_is_better", "lower_is_better"):
        some = {i: each for i, each in slices.items() if each["direction"] == direction}
        worst += runs_of_slices(connection, some, Window(), _MOST, order="worst")
    return [
        ("Drawn at random", run_rows(connection, slices, chosen)),
        ("Sent to review", run_rows(connection, slices, connection.execute(sent).mappings().all())),
        ("Users disagree", run_rows(connection, slices, connection.execute(against).mappings().all())),
        ("Low scores", worst[:_MOST]),
    ]


def _outside(table: Table) -> ColumnElement[bool]:
    """Return the condition that an evaluation has no row in a table."""
    id = table.c.evaluation_id
    return ~select(id).where(id == schema.evaluations.c.evaluation_id).exists()


def agreement_of(connection: Connection, slices: Mapping[int, Any], window: Window) -> str | None:
    """Return how often labels agree with scores, and the corrected mean; None without labels."""
    evaluations, labels = schema.evaluations.c, schema.labels.c
    judged = (evaluations.x, evaluations.weight, evaluations.slice_id, evaluations.cluster)
    query = (
        select(labels.evaluation_id, labels.label, *judged)
        .select_from(schema.labelled)
        .where(evaluations.x.is_not(None))
    )
    query = window.of(query, evaluations.time, schema.NANO)
    found = [each for each in connection.execute(query) if each.slice_id in slices]
    if not found:
        return None
    measured = measure(connection, slices, window, ())[()]
    if measured.scale is None:
        return f"People labelled {count(len(found), 'run')}; without a scale, no label agrees or disagrees."
    given = {each.evaluation_id: each.label / slices[each.slice_id]["scale"] for each in found}
    same = sum((given[each.evaluation_id] >= 0.5) == (each.x >= 0.5) for each in found)
    text = f"People labelled {count(len(found), 'run')}; {same} of these labels agree with the score."
    chances = chances_of(connection)
    other = sum(each.evaluation_id not in chances for each in found)
    chosen = [
        Labelled(given[id], each.x, max(each.weight, 1.0), chances[id], each.cluster % CLUSTER_GROUPS)
        for each in found
        if (id := each.evaluation_id) in chances and each.weight
    ]
    better = corrected(measured.scored, chosen, clusters=measured.clusters) if len(chosen) >= 10 else None
    if better:
        unit, ends = measured.scale, better.interval
        around = interval(Interval(ends.low * unit, ends.high * unit))
        mean = f"the mean is {number(better.mean * unit)}, {around}"
        text += f" Corrected by the {len(chosen)} randomly drawn ones, {mean}."
    if other:
        text += f" Labels of chosen runs, sent to review for example, do not correct the mean ({other} here)."
    return text
