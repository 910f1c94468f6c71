"""Keeps alarms in the store, from their start to their end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select, update

from otel_evals_monitor._internal.alarms.monitors import Alarm
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database


@dataclass(frozen=True, slots=True)
class KeptAlarm:
    """An alarm on record."""

    id: int
    alarm: Alarm
    ended: int | None
    """When there was no reason for it any more; None while there is."""


def keep_alarms(database: Database, found: Sequence[Alarm], now: float) -> list[KeptAlarm]:
    """Put new alarms on record, and end those that are no longer found; returns those that last.

    Raises:
        StoreError: the store cannot be written.
    """
    table = schema.alarms
    current = {alarm.monitor: alarm for alarm in found}
    with database.writing() as connection:
        lasting = connection.execute(select(table).where(table.c.ended.is_(None))).mappings().all()
        for row in lasting:
            if row["monitor"] in current:
                changed: dict[str, Any] = {"details": json.dumps(asdict(current.pop(row["monitor"])))}
            else:
                changed = {"ended": int(now)}
            connection.execute(update(table).where(table.c.id == row["id"]).values(**changed))
        for alarm in current.values():
            values = {"monitor": alarm.monitor, "since": alarm.since, "raised": alarm.raised}
            connection.execute(table.insert().values(**values, details=json.dumps(asdict(alarm))))
    return [each for each in alarms_of(database) if each.ended is None]


def alarms_of(database: Database, most: int = 200) -> list[KeptAlarm]:
    """Alarms on record: those that last first, then the newest."""
    table = schema.alarms
    order = (table.c.ended.is_not(None), table.c.since.desc())
    with database.reading() as connection:
        rows = connection.execute(select(table).order_by(*order).limit(most)).mappings().all()
    return [_kept(row) for row in rows]


def _kept(row: Any) -> KeptAlarm:
    details = json.loads(row["details"])
    alarm = Alarm(**{**details, "trace_ids": tuple(details["trace_ids"])})
    return KeptAlarm(row["id"], alarm, row["ended"])
