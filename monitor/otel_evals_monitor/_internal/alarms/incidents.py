"""Incidents: alarms that probably have one cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_evals_monitor._internal.alarms.record import Alarm, KeptAlarm

_QUALITY = ("version", "fall", "floor", "drift")
"""Kinds that say that the scores are worse, the most telling first."""
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentLine:
    """The alarms of one scorer in an incident."""

    first: Alarm
    """The most telling alarm."""
    floor: float | None
    """The floor that the mean is below, or above if low scores are good."""
    evidence_text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Alarms of an agent and a family whose starts lie within a day of each other."""

    alarms: Sequence[KeptAlarm]
    """The most telling first."""

    @property
    def first(self) -> KeptAlarm:
        return self.alarms[0]

    @property
    def since(self) -> int:
        """Earliest start, seconds since the Unix epoch."""
        return min(each.alarm.since for each in self.alarms)

    @property
    def scorers(self) -> Sequence[str]:
        return list(dict.fromkeys(each.alarm.scorer_id for each in self.alarms))

    @property
    def monitors(self) -> Sequence[str]:
        return [each.alarm.monitor for each in self.alarms]

    @property
    def quality(self) -> bool:
        """True if scores are worse."""
        return self.first.alarm.kind in _QUALITY

    @property
    def version(self) -> str:
        """The agent's version that is worse, if one is known."""
        return next((each.alarm.version for each in self.alarms if each.alarm.version), "")

    @property
    def lines(self) -> list[IncidentLine]:
        """One line for each scorer: the most telling alarm, the floor, and the strongest evidence."""
        found = []
        for scorer in self.scorers:
            mine = [each.alarm for each in self.alarms if each.alarm.scorer_id == scorer]
            floor = next((each.before for each in mine if each.kind == "floor"), None)
            # The floor has a field of the line, so the line describes another alarm if there is one.
            first = next((each for each in mine if each.kind != "floor"), mine[0])
            surest = max(mine, key=lambda each: each.evidence or 0.0)
            found.append(IncidentLine(first=first, floor=floor, evidence_text=surest.evidence_text))
        return found

    @property
    def title(self) -> str:
        alarm, agent = self.first.alarm, self.first.alarm.agent_name
        if self.quality:
            cause = f" with version {self.version}" if self.version else ""
            return f"{agent or ' and '.join(self.scorers)} got worse{cause}"
        of_agent = f" of {agent}" if agent else ""
        titles: Mapping[str, str] = {
            "missing": f"Scores{of_agent} are missing",
            "sampler": f"The rule {alarm.scorer_id} samples a wrong share of runs",
            "silence": f"No runs of {alarm.scorer_id}",
        }
        return titles.get(alarm.kind, alarm.kind.capitalize())


def incidents_of(alarms: Sequence[KeptAlarm]) -> list[Incident]:
    """Return the incidents of alarms, the newest first.

    A floor, fall, drift and version alarm have one cause if they are of one agent and began within a day of
    each other, whatever their scorers. Other alarms belong together if they are of one kind and agent.
    """
    found: list[list[KeptAlarm]] = []
    # Oldest first: a chain of starts, each within a day of the one before, is one incident.
    for kept in sorted(alarms, key=lambda each: each.alarm.since):
        mine = next((some for some in found if _belongs(kept, some)), None)
        if mine is None:
            found.append([kept])
        else:
            mine.append(kept)
    incidents = [Incident(sorted(some, key=_telling)) for some in found]
    return sorted(incidents, key=lambda each: -each.since)


def _belongs(kept: KeptAlarm, some: Sequence[KeptAlarm]) -> bool:
    near = kept.alarm.since - max(each.alarm.since for each in some) <= _DAY
    return near and _family(kept) == _family(some[0])


def _family(kept: KeptAlarm) -> tuple[str, str]:
    alarm = kept.alarm
    if alarm.kind in _QUALITY:
        # Alarms without an agent's name may be about different agents, so their scorers keep them apart.
        return "quality", alarm.agent_name or alarm.scorer_id
    return alarm.kind, alarm.agent_name or alarm.scorer_id


def _telling(kept: KeptAlarm) -> tuple[int, float]:
    kind = kept.alarm.kind
    # The 0 of other kinds never meets an index, since an incident has one family.
    return _QUALITY.index(kind) if kind in _QUALITY else 0, -(kept.alarm.evidence or 0.0)
