"""Record of alarms in the results store, and people's acknowledgements of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query

MOST_EVIDENCE = 1e6
"""Evidence beyond it makes no difference."""
NEXT_STEPS: Mapping[str, str] = {
    "floor": "Open the worst runs below, then compare versions on the scorer's page",
    "fall": "Open the worst runs below, then look for what changed at that time on the scorer's page",
    "drift": "Compare recent bad runs with runs of the reference; look for slow changes of models and data",
    "version": "Open the worst runs of the new version, and roll back if they confirm it",
    "missing": "Open the scorer's page for the reasons, and `otel-evals doctor` in the process that scores",
    "sampler": "Run `otel-evals doctor` in the process that scores; look for head samplers, and trace ids "
    "that are not random",
    "silence": "Check that the service runs and has traffic; `otel-evals doctor` finds why it is not scored",
}
"""What to do about an alarm, by kind."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A finding of a monitor, with its evidence."""

    monitor: str
    """Name of the monitor, the same at every check."""
    kind: str
    """`floor`, `fall`, `drift`, `version`, `missing`, `silence` or `sampler`."""
    scorer_id: str
    """Name of the rule for a `sampler` alarm, of the service for `silence`."""
    agent_name: str
    since: int
    """Approximate start, seconds since the Unix epoch."""
    raised: int
    """Time at which the evidence reached the threshold."""
    evidence: float | None
    """E-value: how many times likelier than by chance; None for silence, which is a plain rule."""
    needed: float | None
    """Threshold of the evidence."""
    text: str
    """One sentence."""
    trace_ids: Sequence[str] = ()
    """Traces of the worst runs since then."""
    reference: tuple[int, int] | None = None
    """Start and end of the period that a fall was measured against; kept until the alarm is acknowledged."""
    version: str = ""
    """The agent's version that is worse, of a `version` alarm."""
    before: float | None = None
    """The floor, or the mean or share before; None for silence and samplers."""
    now: float | None = None
    """The mean, or share, since then."""

    @property
    def evidence_text(self) -> str:
        """How sure the alarm is; empty for a plain rule."""
        if self.evidence is None or self.needed is None:
            return ""
        weeks = "a million" if self.evidence >= MOST_EVIDENCE else f"{max(self.evidence, 1.0):,.0f}"
        return f"Chance alone does this at most once in {weeks} weeks"

    @property
    def severity(self) -> str:
        return "critical" if self.kind in ("floor", "silence") else "warning"

    @property
    def next_step(self) -> str:
        return NEXT_STEPS.get(self.kind, "")


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
                # The evidence and the means of a lasting alarm change with every check.
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
    # JSON has turned tuples into lists.
    lists = {name: tuple(value) for name, value in details.items() if isinstance(value, list)}
    return KeptAlarm(id, Alarm(**(details | lists)), ended, note)


_ACKNOWLEDGED, _REFERENCE = "acknowledged ", "reference "
_LONGEST = 2_000
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Judgements:
    """What people decided about alarms. References are by scorer and agent, times in seconds."""

    acknowledged: Mapping[str, int]
    """Time by monitor: its alarms that began earlier stay quiet."""
    references: Mapping[_Key, int]
    """Time from which falls are measured."""
    fixed: Mapping[_Key, tuple[int, int]]
    """References of fall alarms that nobody has acknowledged since."""


def monitor_name(kind: str, scorer_id: str, agent_name: str) -> str:
    """Return the name of a monitor, the same at every check."""
    return " ".join(filter(None, (kind, scorer_id, agent_name)))


def judgements(connection: Connection) -> Judgements:
    table, alarms = schema.settings.c, schema.alarms.c
    stored = {row.name: row.value for row in connection.execute(select(table.name, table.value))}

    def named(kind: str) -> dict[str, str]:
        return {name.removeprefix(kind): value for name, value in stored.items() if name.startswith(kind)}

    acknowledged = {monitor: int(value) for monitor, value in named(_ACKNOWLEDGED).items()}
    references: dict[_Key, int] = {
        tuple(json.loads(key)): int(value) for key, value in named(_REFERENCE).items()
    }
    # The name of a monitor begins with its kind.
    newest = select(func.max(alarms.id)).where(alarms.monitor.like("fall %")).group_by(alarms.monitor)
    fixed: dict[_Key, tuple[int, int]] = {}
    for row in connection.execute(select(alarms.details, alarms.monitor).where(alarms.id.in_(newest))):
        details = json.loads(row.details)
        window, key = details.get("reference"), (details["scorer_id"], details["agent_name"])
        restarted = references.get(key, -1)
        if window and details["raised"] > max(restarted, acknowledged.get(row.monitor, -1)):
            fixed[key] = window[0], window[1]
    return Judgements(acknowledged, references, fixed)


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
            # As JSON, since names may contain spaces.
            key = json.dumps([alarm["scorer_id"], alarm["agent_name"]])
            _set(connection, _REFERENCE + key, str(int(now)))


def _current(connection: Connection, monitor: str) -> tuple[int, dict[str, Any]]:
    alarms = schema.alarms.c
    query = select(alarms.id, alarms.details).where(alarms.monitor == monitor, alarms.ended.is_(None))
    found = connection.execute(query).first()
    if found is None:
        raise ConfigError("MONITOR", f"{monitor!r} has no current alarm; `monitor --once` lists them")
    return found.id, json.loads(found.details)


def _set(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(schema.settings).where(schema.settings.c.name == name))
    connection.execute(insert(schema.settings).values(name=name, value=value))
