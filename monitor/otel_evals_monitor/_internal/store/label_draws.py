"""Random samples of runs for labelling, with a known inclusion probability for every label.

A draw is a random sample, without replacement, of the scored runs since the previous draw (the pool). Each
label's probability is the number of labelled runs of the draw over the size of the pool. Until all drawn runs
are labelled, that assumes that nobody chooses which ones to label. A run that was labelled before it was
drawn, because it was sent to review for example, was chosen: it counts when it is labelled again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query

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
