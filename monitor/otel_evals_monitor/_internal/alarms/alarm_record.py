"""Record of alarms in the results store, from start to end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select, update

from otel_evals_monitor._internal.alarms.monitors import Alarm
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query


@dataclass(frozen=True, slots=True)
class KeptAlarm:
    id: int
    alarm: Alarm
    ended: int | None
    """End of the alarm, seconds since the Unix epoch; None while it lasts."""
    note: str = ""
    """Why somebody acknowledged it."""


def keep_alarms(database: Database, found: Sequence[Alarm], now: float) -> None:
    """Record new alarms, and end alarms that are no longer found."""
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


def lasting_alarms(database: Database) -> list[KeptAlarm]:
    table = schema.alarms
    return _alarms(database, select(table).where(table.c.ended.is_(None)).order_by(table.c.since.desc()))


def alarms_of(database: Database) -> list[KeptAlarm]:
    """Return lasting alarms, and up to 200 that have ended, by their end, the newest first."""
    table = schema.alarms
    ended = select(table).where(table.c.ended.is_not(None)).order_by(table.c.ended.desc(), table.c.id.desc())
    return lasting_alarms(database) + _alarms(database, ended.limit(200))


def _alarms(database: Database, query: Any) -> list[KeptAlarm]:
    with database.reading() as connection:
        rows = rows_of_query(connection, query)
    return [_kept(row["id"], row["ended"], **json.loads(row["details"])) for row in rows]


def _kept(id: int, ended: int | None, *, note: str = "", **details: Any) -> KeptAlarm:
    lists = {name: tuple(value) for name, value in details.items() if isinstance(value, list)}
    return KeptAlarm(id, Alarm(**(details | lists)), ended, note)
