"""Record of alarms in the results store, their incidents, and people's acknowledgements."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, func, select, update

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, put, rows_of_query

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
    id: int = 0
    """Number in the record; 0 before it is recorded."""
    ended: int | None = None
    """End, seconds since the Unix epoch; None while it lasts."""
    note: str = ""
    """Why somebody acknowledged it."""

    @property
    def state(self) -> str:
        return "started" if self.ended is None else "ended"

    @property
    def evidence_text(self) -> str:
        """How sure the alarm is; empty for a plain rule."""
        if self.evidence is None or self.needed is None:
            return ""
        weeks = "a million" if self.evidence >= MOST_EVIDENCE else f"{self.evidence:,.0f}"
        return f"Chance alone does this at most once in {weeks} weeks"

    @property
    def severity(self) -> str:
        return "critical" if self.kind in ("floor", "silence") else "warning"

    @property
    def next_step(self) -> str:
        return NEXT_STEPS.get(self.kind, "")


def keep_alarms(database: Database, found: Sequence[Alarm], now: float) -> None:
    """Record new alarms, and end alarms that are no longer found."""
    table = schema.alarms
    current = {alarm.monitor: alarm for alarm in found}
    with database.writing() as connection:
        for row in rows_of_query(connection, select(table).where(table.c.ended.is_(None))):
            alarm = current.pop(row["monitor"], None)
            # The evidence and the means of a lasting alarm change with every check.
            changed = {"details": json.dumps(asdict(alarm))} if alarm else {"ended": int(now)}
            connection.execute(update(table).where(table.c.id == row["id"]).values(**changed))
        for alarm in current.values():
            values = {"monitor": alarm.monitor, "since": alarm.since, "raised": alarm.raised}
            connection.execute(table.insert().values(**values, details=json.dumps(asdict(alarm))))


def lasting_alarms(database: Database) -> list[Alarm]:
    table = schema.alarms
    return _alarms(database, select(table).where(table.c.ended.is_(None)).order_by(table.c.since.desc()))


def alarms_of(database: Database) -> list[Alarm]:
    """Return lasting alarms, and up to 200 that have ended, by their end, the newest first."""
    table = schema.alarms
    ended = select(table).where(table.c.ended.is_not(None)).order_by(table.c.ended.desc(), table.c.id.desc())
    return lasting_alarms(database) + _alarms(database, ended.limit(200))


def _alarms(database: Database, query: Any) -> list[Alarm]:
    with database.reading() as connection:
        rows = rows_of_query(connection, query)
    return [Alarm(**(json.loads(row["details"]) | {"id": row["id"], "ended": row["ended"]})) for row in rows]


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
    alarms = schema.alarms.c
    references = {tuple(json.loads(key)): at for key, at in _times(connection, _REFERENCE).items()}
    # The name of a monitor begins with its kind.
    newest = select(func.max(alarms.id)).where(alarms.monitor.like("fall %")).group_by(alarms.monitor)
    fixed: dict[_Key, tuple[int, int]] = {}
    for text in connection.execute(select(alarms.details).where(alarms.id.in_(newest))).scalars():
        details = json.loads(text)
        key = details["scorer_id"], details["agent_name"]
        if details["reference"] and details["raised"] > references.get(key, -1):
            fixed[key] = tuple(details["reference"])
    return Judgements(_times(connection, _ACKNOWLEDGED), references, fixed)


def _times(connection: Connection, kind: str) -> dict[str, int]:
    table = schema.settings.c
    rows = connection.execute(select(table.name, table.value).where(table.name.startswith(kind)))
    return {row.name.removeprefix(kind): int(row.value) for row in rows}


def acknowledge(database: Database, monitor: str, now: float, note: str = "") -> None:
    """Acknowledge the lasting alarm of a monitor, with a note for its record.

    It stays quiet until it has ended and begins again. A fall or drift is measured against the time from now
    on.

    Raises:
        ConfigError: the monitor has no lasting alarm.
    """
    alarms = schema.alarms.c
    with database.writing() as connection:
        query = select(alarms.id, alarms.details).where(alarms.monitor == monitor, alarms.ended.is_(None))
        found = connection.execute(query).first()
        if found is None:
            raise ConfigError("MONITOR", f"{monitor!r} has no current alarm; `monitor --once` lists them")
        alarm = json.loads(found.details)
        noted = json.dumps(alarm | {"note": note.strip()[:_LONGEST]})
        connection.execute(update(schema.alarms).where(alarms.id == found.id).values(details=noted))
        put(connection, schema.settings, {"name": _ACKNOWLEDGED + monitor}, value=str(int(now)))
        if alarm["kind"] in ("fall", "drift"):
            # As JSON, since names may contain spaces.
            key = json.dumps([alarm["scorer_id"], alarm["agent_name"]])
            put(connection, schema.settings, {"name": _REFERENCE + key}, value=str(int(now)))


_QUALITY = {"version": 0, "fall": 1, "floor": 2, "drift": 3}
"""Kinds that say that the scores are worse, the most telling first."""
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentLine:
    """A scorer's alarms in an incident."""

    first: Alarm
    """The most certain alarm."""
    floor: float | None
    """The floor that the mean is below, or above if low scores are good."""
    evidence_text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Alarms that probably have one cause: of an agent and a family, begun within a day of each other."""

    alarms: Sequence[Alarm]
    """The most telling first."""

    @property
    def first(self) -> Alarm:
        return self.alarms[0]

    @property
    def since(self) -> int:
        """Earliest start, seconds since the Unix epoch."""
        return min(each.since for each in self.alarms)

    @property
    def scorers(self) -> Sequence[str]:
        return list(dict.fromkeys(each.scorer_id for each in self.alarms))

    @property
    def monitors(self) -> Sequence[str]:
        return [each.monitor for each in self.alarms]

    @property
    def quality(self) -> bool:
        """True if scores are worse."""
        return self.first.kind in _QUALITY

    @property
    def version(self) -> str:
        """The agent's version that is worse, if one is known."""
        return next((each.version for each in self.alarms if each.version), "")

    @property
    def lines(self) -> list[IncidentLine]:
        """One line for each scorer: the most telling alarm, the floor, and the strongest evidence."""
        found = []
        for scorer in self.scorers:
            mine = [each for each in self.alarms if each.scorer_id == scorer]
            floor = next((each.before for each in mine if each.kind == "floor"), None)
            # The floor has a field of the line, so the line describes another alarm if there is one.
            first = next((each for each in mine if each.kind != "floor"), mine[0])
            surest = max(mine, key=lambda each: each.evidence or 0.0)
            found.append(IncidentLine(first=first, floor=floor, evidence_text=surest.evidence_text))
        return found

    @property
    def title(self) -> str:
        scorer, agent = self.first.scorer_id, self.first.agent_name
        cause = f" with version {self.version}" if self.version else ""
        worse = f"{agent or ' and '.join(self.scorers)} got worse{cause}"
        titles = {
            "missing": f"Scores of {agent} are missing" if agent else "Scores are missing",
            "sampler": f"The rule {scorer} samples a wrong share of runs",
            "silence": f"No runs of {scorer}",
        }
        return titles.get(self.first.kind, worse)


def incidents_of(alarms: Iterable[Alarm]) -> list[Incident]:
    """Return the incidents of alarms, the newest first.

    A floor, fall, drift and version alarm have one cause if they are of one agent and began within a day of
    each other, whatever their scorers. Other alarms belong together if they are of one kind and agent.
    """
    found: list[list[Alarm]] = []
    # Oldest first: a chain of starts, each within a day of the one before, is one incident.
    for alarm in sorted(alarms, key=lambda each: each.since):
        near = (some for some in found if alarm.since - some[-1].since <= _DAY)
        mine = next((some for some in near if _family(alarm) == _family(some[0])), None)
        if mine is None:
            found.append([alarm])
        else:
            mine.append(alarm)
    incidents = [Incident(sorted(some, key=_telling)) for some in found]
    return sorted(incidents, key=lambda each: -each.since)


def _family(alarm: Alarm) -> tuple[str, str]:
    # Alarms without an agent's name may be about different agents, so their scorers keep them apart.
    return "quality" if alarm.kind in _QUALITY else alarm.kind, alarm.agent_name or alarm.scorer_id


def _telling(alarm: Alarm) -> tuple[int, float]:
    # The 0 of other kinds never meets a place, since an incident has one family.
    return _QUALITY.get(alarm.kind, 0), -(alarm.evidence or 0.0)
