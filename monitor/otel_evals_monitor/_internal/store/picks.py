"""Picks of sampling rules in the results store: written per process, added up for the sampler check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, cast, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from otel_evals.statistics import Picks
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.queries import Window

_KEPT = 30 * 86_400
_COUNTED = tuple(each.name for each in fields(Picks))


def keep_picks(database: Database, rows: Iterable[Any]) -> None:
    """Write the picks of a process by minute, and delete picks older than thirty days.

    Rows have `process`, `rule`, `agent`, `minute` (its start, Unix time) and `picks`; a later count of a
    minute replaces the earlier one.
    """
    table = schema.picks
    statement = (sqlite if database.sqlite else postgresql).insert(table)
    upsert = statement.on_conflict_do_update(
        index_elements=["bucket", "rule", "agent_name", "process"],
        set_={name: statement.excluded[name] for name in _COUNTED},
    )
    values: list[dict[str, Any]] = [
        {"bucket": row.minute, "rule": row.rule, "agent_name": row.agent, "process": row.process}
        | {name: getattr(row.picks, name) for name in _COUNTED}
        for row in rows
    ]
    if values:
        with database.writing() as connection:
            connection.execute(upsert, values)
            # Counted back from the written minutes, not from this process's clock.
            connection.execute(delete(table).where(table.c.bucket < values[-1]["bucket"] - _KEPT))


def picks_of(
    connection: Connection,
    window: Window,
    step: int | None = None,
    rules: Sequence[str] | None = None,
    agent: str | None = None,
) -> Mapping[str, Mapping[int, Picks]]:
    """Return the picks of rules in a window, by rule and start of the step; without a step, under 0."""
    table = schema.picks.c
    # An aggregate, since without a step the query does not group by the start.
    start = table.bucket - table.bucket % step if step else func.min(0)
    # PostgreSQL's sum of integers is a decimal.
    sums = [cast(func.sum(table[name]), table[name].type).label(name) for name in _COUNTED]
    query = select(table.rule, start.label("start"), *sums)
    query = query.group_by(table.rule, start) if step else query.group_by(table.rule)
    query = window.of(query, table.bucket)
    if rules is not None:
        query = query.where(table.rule.in_(list(rules)))
    if agent is not None:
        query = query.where(table.agent_name == agent)
    found: dict[str, dict[int, Picks]] = {}
    for row in connection.execute(query.order_by("start")):
        picks = Picks(**{name: getattr(row, name) for name in _COUNTED})
        found.setdefault(row.rule, {})[int(row.start)] = picks
    return found
