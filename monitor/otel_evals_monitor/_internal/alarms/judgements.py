"""People's judgements of alarms: acknowledgements and pinned references."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database

_ACKNOWLEDGED, _REFERENCE, _MUTED = "acknowledged ", "reference ", "muted "
_LONGEST = 2_000
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Mute:
    """A decision to send no notifications of a monitor's alarms for some time."""

    until: int
    """Its end, seconds since the Unix epoch."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Judgements:
    """What people decided about alarms. References are by scorer and agent, times in seconds."""

    acknowledged: Mapping[str, int]
    """Time by monitor: its alarms that began earlier stay quiet."""
    references: Mapping[_Key, tuple[int, int | None]]
    """Start and end of a pinned reference; without an end, falls are measured from the start on."""
    fixed: Mapping[_Key, tuple[int, int]]
    """References of fall alarms that nobody has acknowledged since."""
    muted: Mapping[str, Mute]
    """By monitor; some may be over."""


def monitor_name(kind: str, scorer_id: str, agent_name: str) -> str:
    """Return the name of a monitor, the same at every check."""
    return " ".join(filter(None, (kind, scorer_id, agent_name)))


def judgements(connection: Connection) -> Judgements:
    table, alarms = schema.settings.c, schema.alarms.c
    stored = {row.name: row.value for row in connection.execute(select(table.name, table.value))}

    def named(kind: str) -> dict[str, str]:
        return {name.removeprefix(kind): value for name, value in stored.items() if name.startswith(kind)}

    acknowledged = {monitor: int(value) for monitor, value in named(_ACKNOWLEDGED).items()}
    references: dict[_Key, tuple[int, int | None]] = {
        tuple(json.loads(key)): tuple(json.loads(value)) for key, value in named(_REFERENCE).items()
    }
    muted = {monitor: Mute(*json.loads(value)) for monitor, value in named(_MUTED).items()}
    newest = select(func.max(alarms.id)).where(alarms.monitor.like("fall %")).group_by(alarms.monitor)
    fixed: dict[_Key, tuple[int, int]] = {}
    for row in connection.execute(select(alarms.details, alarms.monitor).where(alarms.id.in_(newest))):
        details = json.loads(row.details)
        window, key = details.get("reference"), (details["scorer_id"], details["agent_name"])
        restarted = references[key][0] if key in references else -1
        if window and details["raised"] > max(restarted, acknowledged.get(row.monitor, -1)):
            fixed[key] = window[0], window[1]
    return Judgements(acknowledged, references, fixed, muted)


def acknowledge(database: Database, monitor: str, now: float, note: str = "") -> None:
    """Acknowledge the lasting alarm of a monitor, with a note for its record.

    It stays quiet until it has ended and begins again. A fall or drift is measured against the time from now
    on.

    Raises:
        ConfigError: the monitor has no lasting alarm.
    """
    with database.writing() as connection:
        id, alarm = _current(connection, monitor)
        if note.strip():
            noted = json.dumps(alarm | {"note": note.strip()[:_LONGEST]})
            connection.execute(update(schema.alarms).where(schema.alarms.c.id == id).values(details=noted))
        _set(connection, _ACKNOWLEDGED + monitor, str(int(now)))
        if alarm["kind"] in ("fall", "drift"):
            _set_reference(connection, (alarm["scorer_id"], alarm["agent_name"]), int(now), None)


def mute(database: Database, monitor: str, until: float, note: str = "") -> None:
    """Send no notifications of a monitor's alarms until a time; a time in the past ends it.

    Raises:
        ConfigError: the monitor has no lasting alarm to mute.
    """
    with database.writing() as connection:
        if until > time.time():
            _current(connection, monitor)
        _set(connection, _MUTED + monitor, json.dumps([int(until), note.strip()[:_LONGEST]]))


def _current(connection: Connection, monitor: str) -> tuple[int, dict[str, Any]]:
    alarms = schema.alarms.c
    query = select(alarms.id, alarms.details).where(alarms.monitor == monitor, alarms.ended.is_(None))
    found = connection.execute(query).first()
    if found is None:
        raise ConfigError("MONITOR", f"{monitor!r} has no current alarm; `monitor --once` lists them")
    return found.id, json.loads(found.details)


def pin_reference(database: Database, scorer_id: str, agent_name: str, since: int, until: int) -> None:
    """Measure falls of a scorer and agent against this period, until another is pinned.

    Raises:
        ConfigError: there are no scores in the period.
    """
    slices, rollups = schema.slices.c, schema.rollups.c
    with database.writing() as connection:
        ids = select(slices.id).where(slices.scorer_id == scorer_id, slices.agent_name == agent_name)
        inside = (rollups.bucket >= since, rollups.bucket < until, rollups.status == "scored")
        query = select(func.count()).select_from(schema.rollups).where(rollups.slice_id.in_(ids), *inside)
        if not connection.execute(query).scalar():
            raise ConfigError("--since", f"{scorer_id!r} of agent {agent_name!r} has no scores in that time")
        _set_reference(connection, (scorer_id, agent_name), since, until)


def _set_reference(connection: Connection, key: _Key, since: int, until: int | None) -> None:
    _set(connection, _REFERENCE + json.dumps(key), json.dumps([since, until]))


def _set(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(schema.settings).where(schema.settings.c.name == name))
    connection.execute(insert(schema.settings).values(name=name, value=value))
