"""Labels of evaluations, users' feedback on traces, and random samples of runs for labelling.

A draw is a random sample, without replacement, of the scored runs since the previous draw (the pool). Each
label's probability is the number of labelled runs of the draw over the size of the pool. Until all drawn runs
are labelled, that assumes that nobody chooses which ones to label. A run that was labelled before it was
drawn, because it was sent to review for example, was chosen: it counts when it is labelled again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query
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
        connection.execute(delete(table).where(table.c.evaluation_id == evaluation_id))
        kind = cut(" ".join((failure_type or "").split())[:200])
        texts = {"expected": cut(expected), "verdict": verdict, "failure_type": kind}
        row = {"evaluation_id": evaluation_id, "label": label, **texts}
        connection.execute(table.insert().values(**row, time=time.time_ns()))


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
    if len(trace_id) != 32 or not set(trace_id.lower()) <= set("0123456789abcdef"):
        raise ConfigError("trace_id", f"must be 32 hex digits, not {trace_id!r}")
    table = schema.feedback
    key = {"trace_id": trace_id.lower(), "name": storable(name[:200]), "source": storable(source[:200])}
    with database.writing() as connection:
        same = (table.c[column] == text for column, text in key.items())
        connection.execute(delete(table).where(*same))
        row = {**key, "value": number, "comment": cut(comment)}
        connection.execute(table.insert().values(**row, time=time.time_ns()))


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


_AT_ONCE = 500
_FEW = 5_000


def waiting_for_draw(connection: Connection) -> int:
    return _size(connection, *_pool(connection))


def draw(database: Database, most: int, choose: random.Random | None = None) -> int:
    """Draw up to `most` of the runs scored since the last draw, and return their number."""
    table = schema.draws
    with database.writing() as connection:
        after, last = _pool(connection)
        pool = _size(connection, after, last)
        ids = _choice(connection, after, last, pool, min(most, pool), choose or random.SystemRandom())
        if not ids:
            return 0
        row = {"after": after, "last": last, "pool": pool, "drawn": len(ids), "time": time.time_ns()}
        key = connection.execute(table.insert().values(**row)).inserted_primary_key
        rows = [
            {"evaluation_id": each, "draw_id": key[0] if key else 0, "position": position}
            for position, each in enumerate(ids)
        ]
        connection.execute(schema.drawn.insert(), rows)
    return len(ids)


def drawn_unlabelled(connection: Connection, most: int) -> Sequence[Mapping[str, Any]]:
    """Return drawn evaluations without a label since, in the order of the draws."""
    drawn, labels, evaluations = schema.drawn.c, schema.labels.c, schema.evaluations
    joined = schema.drawn.join(evaluations, evaluations.c.evaluation_id == drawn.evaluation_id)
    joined = joined.join(schema.draws, schema.draws.c.id == drawn.draw_id)
    since = (labels.evaluation_id == drawn.evaluation_id) & (labels.time >= schema.draws.c.time)
    joined = joined.outerjoin(schema.labels, since)
    query = select(evaluations).select_from(joined).where(labels.evaluation_id.is_(None))
    order = (drawn.draw_id, drawn.position)
    return rows_of_query(connection, query.order_by(*order).limit(most))


def chances_of(connection: Connection) -> Mapping[str, float]:
    """Return the probability of labelling by evaluation id; other evaluations were not chosen at random."""
    labels, drawn, draws = schema.labels.c, schema.drawn.c, schema.draws.c
    joined = schema.labels.join(schema.drawn, drawn.evaluation_id == labels.evaluation_id)
    joined = joined.join(schema.draws, draws.id == drawn.draw_id)
    query = select(labels.evaluation_id, drawn.draw_id, draws.pool).select_from(joined)
    query = query.where(labels.time >= draws.time)
    by_draw: dict[tuple[int, int], list[str]] = {}
    for row in connection.execute(query):
        by_draw.setdefault((row.draw_id, row.pool), []).append(row.evaluation_id)
    return {each: min(1.0, len(ids) / pool) for (_, pool), ids in by_draw.items() for each in ids}


def _pool(connection: Connection) -> tuple[int, int]:
    """Return the row ids after which, and up to which, scored runs have not been in a draw."""
    after = connection.execute(select(func.max(schema.draws.c.last))).scalar() or 0
    last = connection.execute(select(func.max(schema.evaluations.c.id))).scalar() or 0
    return after, max(after, last)


def _size(connection: Connection, after: int, last: int) -> int:
    table = schema.evaluations.c
    inside = (table.id > after, table.id <= last, table.status == "scored")
    return connection.execute(select(func.count()).where(*inside)).scalar_one()


def _choice(
    connection: Connection, after: int, last: int, size: int, number: int, choose: random.Random
) -> list[str]:
    """Sample evaluations of a pool; in a large pool by random row ids, repeated for ids without a row."""
    table = schema.evaluations.c
    if size <= _FEW:
        inside = (table.id > after, table.id <= last, table.status == "scored")
        every = connection.execute(select(table.evaluation_id).where(*inside).order_by(table.id)).scalars()
        return choose.sample(list(every), number)
    found: dict[int, str] = {}
    while len(found) < number:
        numbers = [choose.randrange(after, last) + 1 for _ in range(_AT_ONCE)]
        query = select(table.id, table.evaluation_id).where(table.id.in_(numbers), table.status == "scored")
        there = {row.id: row.evaluation_id for row in connection.execute(query)}
        for each in dict.fromkeys(numbers):
            if each in there and len(found) < number:
                found.setdefault(each, there[each])
    return list(found.values())
