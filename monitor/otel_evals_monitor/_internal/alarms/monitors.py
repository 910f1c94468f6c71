"""The monitors of a results store: the alarms to raise, and the evidence for each.

Every monitor reads the same time steps, oldest first, and its evidence may be checked any number of times.
The monitors share one level: the probability of any false alarm within a period. Larger weights than the
largest of the reference period are reduced to it; with samplers without a minimum probability, an alarm is
about the mean that gives rare runs less weight.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from otel_evals.statistics import Sums, shared_threshold, total, wander
from otel_evals_monitor._internal.alarms.limits import PERIOD, STEP, AlarmLimits
from otel_evals_monitor._internal.alarms.record import (
    MOST_EVIDENCE,
    Alarm,
    Judgements,
    judgements,
    monitor_name,
)
from otel_evals_monitor._internal.alarms.watchers import (
    Findings,
    Watched,
    drift,
    fall,
    floor,
    missing_share,
    silence,
    worse_version,
    wrong_sampler,
)
from otel_evals_monitor._internal.report.runs import runs_of_slices
from otel_evals_monitor._internal.report.words import Zone, length_of, number
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import (
    Measured,
    Slices,
    first_seen,
    matching,
    series,
    stored_slices,
    time_range,
    together,
)
from otel_evals_monitor._internal.store.schema import HOUR

_BY = ("scorer_id", "agent_name")
_DAY = 24 * HOUR
# Five monitors watch a slice; the false alarms in docs/statistics.md were simulated for one of six.
_OF_SLICE = 6
_PINNED = 7 * _DAY
_QUARTER = 6 * HOUR
_QUARTERS = 12 * 7 * 4


_Known = tuple[bytes, Sequence[Findings]]
"""Findings, with a digest of their inputs."""


@dataclass(frozen=True, slots=True)
class Found:
    alarms: Sequence[Alarm] = ()
    states: Mapping[tuple[str, str], WatchState] = field(default_factory=dict)
    """By scorer and agent."""
    known: Mapping[tuple[str, str], _Known] = field(default_factory=dict)
    """Findings about finished steps, by scorer and agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """The state of the monitors of a scorer's mean."""

    scorer_id: str
    agent_name: str
    mean: float | None
    """Of the last day, in units of the score."""
    floor: float | None
    reference: float | None
    """Mean of the period that a fall is measured against; None without one."""
    status: str
    """Whether there is an alarm, or one that is not certain yet."""

    @property
    def watched(self) -> bool:
        """True if there is a floor or a reference to compare with."""
        return self.floor is not None or self.reference is not None

    @property
    def text(self) -> str:
        """One sentence."""
        known = (("mean", self.mean), ("floor", self.floor), ("reference", self.reference))
        parts = [f"{name} {number(value)}" for name, value in known if value is not None]
        parts.append(self.status if self.watched else "not watched: it has neither a floor nor a reference")
        return f"{self.scorer_id} {self.agent_name}".strip() + ": " + ", ".join(parts)


def check_store(database: Database, limits: AlarmLimits, now: float, before: Found | None = None) -> Found:
    """Return the current alarms of a store, without acknowledged ones.

    `before` is what the last check with the same limits found.
    """
    with database.reading() as connection:
        recorded = time_range(connection)
        if recorded is None:
            return Found()
        # Scores of a backfill belong to old runs, and say nothing about current traffic.
        slices = stored_slices(connection, live=True)
        # An unfinished step is checked when it is over.
        end = int(now) // STEP * STEP
        # Rounded up, so a finished step with the last records counts.
        last = min(end, -(-recorded[1] // STEP) * STEP)
        window = Window(max(recorded[0], last - PERIOD * STEP) // STEP * STEP, last)
        judged = judgements(connection)
        watched = [
            _watched(connection, slices, key, steps, judged)
            for key, steps in series(connection, slices, window, STEP, _BY).items()
        ]
        picked = picks_of(connection, window, STEP)
        # Counts all monitors of a slice even if some do not apply: the level must not depend on the data.
        needed = shared_threshold(limits.level, max(_OF_SLICE * len(watched) + len(picked), 1))
        found: list[Alarm | None] = []
        states, known = {}, {}
        for some in watched:
            key = some.scorer_id, some.agent_name
            known[key] = _known(some, needed, limits, before.known.get(key) if before else None)
            findings = [*known[key][1]]
            if some.scaled:
                findings.append(worse_version(some, needed))
            alarms = [_alarm(each, needed, some.scorer_id, some.agent_name) for each in findings]
            found += [_with_traces(connection, slices, each) for each in alarms if each is not None]
            states[key] = _state(some, findings, needed, limits)
        found += [_alarm(wrong_sampler(steps, needed), needed, rule) for rule, steps in picked.items()]
        # Silence is a plain rule without evidence, so it takes no share of the level.
        for (service,), active in series(connection, slices, window, STEP, ("service",)).items():
            found.append(_alarm(silence(sorted(active), end), None, service or "all scorers"))
        quiet = judged.acknowledged
        alarmed = [each for each in found if each and each.since > quiet.get(each.monitor, -1)]
        return Found(alarmed, states, known)


def _known(watched: Watched, needed: float, limits: AlarmLimits, before: _Known | None) -> _Known:
    """Return findings about finished steps, those of before if nothing has changed in these.

    A step lasts longer than the pause between two checks, and the detectors take most of a check's time.
    """
    finished = replace(watched, versions={})
    digest = hashlib.sha256(repr((needed, finished)).encode()).digest()
    if before is not None and before[0] == digest:
        return before
    return digest, [*_findings(watched, needed, limits)]


def _state(some: Watched, findings: Sequence[Findings], needed: float, limits: AlarmLimits) -> WatchState:
    last = some.steps[-1][0] + STEP
    means = [each for each in findings if each.kind != "missing"]
    begun = [each for each in means if each.since is not None]
    status = "no alarm pending"
    if any(each.raised is not None for each in means):
        status = "alarm"
    elif begun:
        status = _pending(max(begun, key=lambda each: each.evidence or 0.0), last, needed)
    day = total(step.scored for start, step in some.steps if start >= last - _DAY)
    return WatchState(
        scorer_id=some.scorer_id,
        agent_name=some.agent_name,
        mean=None if day.mean is None else day.mean * some.scale,
        floor=limits.floors.get(some.scorer_id) if some.scaled else None,
        reference=next((each.before for each in means if each.kind == "fall"), None),
        status=status,
    )


def _pending(found: Findings, last: int, needed: float) -> str:
    """Say since when, and when the evidence is enough, if its logarithm grows as it has."""
    since = found.since or 0
    text = f"alarm pending ({found.kind}) since {Zone().full(since)}"
    grown = math.log(found.evidence or 1.0)
    # Dividing by almost no growth would predict a date that means nothing.
    if grown < 0.1:
        return text
    left = (last - since) * (math.log(needed) / grown - 1.0)
    return f"{text}, decided in about {length_of(left)} at this rate"


def _findings(watched: Watched, needed: float, limits: AlarmLimits) -> Iterator[Findings]:
    """Yield findings about finished steps."""
    limit = limits.floors.get(watched.scorer_id)
    if watched.scaled:
        if limit is not None:
            yield floor(watched, limit / watched.scale, needed)
        fallen = fall(watched, needed)
        yield fallen
        if fallen.raised is None:  # one incident, one alarm
            yield drift(watched, needed, _QUARTERS)
    yield missing_share(watched, limits.missing, needed)


def _alarm(found: Findings, needed: float | None, scorer_id: str, agent_name: str = "") -> Alarm | None:
    """Return the alarm of findings; None without enough evidence."""
    if found.raised is None:
        return None
    values = asdict(found)
    if found.evidence is not None:
        values["evidence"] = min(found.evidence, MOST_EVIDENCE)
    monitor = monitor_name(found.kind, scorer_id, agent_name)
    return Alarm(monitor=monitor, scorer_id=scorer_id, agent_name=agent_name, needed=needed, **values)


def _watched(
    connection: Connection,
    slices: Slices,
    key: tuple[Any, ...],
    steps: Mapping[int, Measured],
    judged: Judgements,
) -> Watched:
    columns = dict(zip(_BY, key, strict=True))
    inside = matching(slices, columns)
    starts = sorted(steps)
    first, last = starts[0], starts[-1]
    since = judged.references.get(key, 0)
    begin = max(first, since)
    # A store younger than a day and a half is watched too, against a shorter reference.
    recent = (begin, min(begin + _DAY, begin + max(last - begin, 0) * 2 // 3))
    # An unacknowledged alarm fixes the reference.
    reference = judged.fixed.get(key, recent)
    usual = Window(*reference)
    inside_reference = [steps[start] for start in starts if reference[0] <= start < reference[1]]
    whole = together(connection, inside, usual)
    around = together(connection, inside, usual.whole_hours)
    hourly = series(connection, inside, Window(first, last).whole_hours, HOUR).get((), {})
    slow = wander({start // HOUR: each.scored for start, each in hourly.items()})
    pinned, periods = _first_week(
        connection, inside, max(first_seen(connection, inside, "scorer_id")[0][0], since), last
    )
    versions = series(connection, inside, Window(first), STEP, ("scorer_version", "agent_version"))
    firsts = sorted((min(found), version) for (version, _), found in versions.items())
    # The version that appeared last, since names of versions have no order.
    newest = firsts[-1][1]
    began = min(start for start, version in firsts if version == newest)
    return Watched(
        **columns,
        # Without a scale, sums are in units of the score.
        scale=steps[last].scale or 1.0,
        scaled=all(each.scale is not None for each in steps.values()),
        lower_is_better=steps[last].lower_is_better,
        steps=[(start, steps[start]) for start in starts],
        reference=whole.scored,
        reference_window=reference,
        pinned=pinned,
        periods=periods,
        # A reference without runs has no weights, and a detector refuses a limit below 1.
        largest=max([1.0, whole.sampled.w_max, *(each.sampled.w_max for each in inside_reference)]),
        inflation=max(around.design_effect, slow),
        versions={agent: found for (version, agent), found in versions.items() if version == newest},
        scorer_began=(newest, began) if firsts[0][1] != newest else None,
    )


def _first_week(
    connection: Connection, inside: Slices, start: int, last: int
) -> tuple[Sums, list[tuple[int, Sums]]]:
    """Return the sums of a week from `start`, and of the complete quarters of days after it."""
    week = Window(start, start + _PINNED)
    # Starts after the quarter in which the week ends, which may have runs of the week.
    after = Window((start + _PINNED) // _QUARTER * _QUARTER + _QUARTER)
    quarters = series(connection, inside, after, _QUARTER).get((), {})
    # A quarter that is not over has other sums at the next check.
    complete = [(at, quarters[at].scored) for at in sorted(quarters) if at + _QUARTER <= last + STEP]
    pinned = together(connection, inside, week.whole_hours).scored if complete else Sums()
    return pinned, complete[-_QUARTERS:]


def _with_traces(connection: Connection, slices: Slices, alarm: Alarm) -> Alarm:
    inside = matching(slices, {"scorer_id": alarm.scorer_id, "agent_name": alarm.agent_name})
    runs = runs_of_slices(connection, inside, Window(alarm.since), 5, order="worst")
    return replace(alarm, trace_ids=tuple(dict.fromkeys(run.trace_id for run in runs)))
