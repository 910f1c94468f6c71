"""The monitors of a results store: the alarms to raise, and the evidence for each.

Every monitor reads the same time steps, oldest first, and its evidence may be checked any number of times.
The monitors share one level: the probability of any false alarm within a period. Larger weights than the
largest of the reference period are reduced to it; with samplers without a minimum probability, an alarm is
about the mean that gives rare runs less weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, func, select

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
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import (
    Measured,
    Window,
    matching,
    measure,
    series,
    stored_slices,
    time_range,
)
from otel_evals_monitor._internal.store.schema import HOUR

_BY = ("scorer_id", "agent_name")
_DAY = 24 * HOUR
# Five monitors watch a slice; the false alarms in docs/statistics.md were simulated for one of six.
_OF_SLICE = 6
_PINNED = 7 * _DAY
_QUARTER = 6 * HOUR
_QUARTERS = 12 * 7 * 4


@dataclass(frozen=True, slots=True)
class Found:
    alarms: Sequence[Alarm] = ()
    states: Mapping[tuple[str, str], WatchState] = field(default_factory=dict)
    """By scorer and agent."""


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
    alarm: bool
    """True if the mean raises an alarm."""
    pending: str = ""
    """Kind of an alarm that is not certain yet."""
    since: int | None = None
    """Approximate start of the alarm, or of the pending one."""
    decided_in: float | None = None
    """Seconds until the pending alarm is certain, if it goes on like this."""

    @property
    def watched(self) -> bool:
        """True if there is a floor or a reference to compare with."""
        return self.floor is not None or self.reference is not None

    @property
    def text(self) -> str:
        """One sentence."""
        known = (("mean", self.mean), ("floor", self.floor), ("reference", self.reference))
        parts = [f"{name} {number(value)}" for name, value in known if value is not None]
        if not self.watched:
            parts.append("not watched: it has neither a floor nor a reference")
        elif self.alarm:
            parts.append("alarm")
        elif self.pending:
            when = "" if self.decided_in is None else f", decided in about {length_of(self.decided_in)}"
            begun = f"since {Zone().full(self.since or 0)}"
            parts.append(f"alarm pending ({self.pending}) {begun}{when} at this rate")
        else:
            parts.append("no alarm pending")
        return f"{self.scorer_id} {self.agent_name}".strip() + ": " + ", ".join(parts)


def check_store(database: Database, limits: AlarmLimits, now: float) -> Found:
    """Return the current alarms of a store, without acknowledged ones."""
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
        since = max(recorded[0], last - PERIOD * STEP) // STEP * STEP
        judged = judgements(connection)
        watched = [
            _watched(connection, slices, key, steps, judged)
            for key, steps in series(connection, slices, Window(since, last), STEP, _BY).items()
        ]
        picked = picks_of(connection, Window(since, last), STEP)
        if not watched and not picked:
            return Found()
        # Counts all monitors of a slice even if some do not apply: the level must not depend on the data.
        needed = shared_threshold(limits.level, _OF_SLICE * len(watched) + len(picked))
        found: list[Alarm] = []
        states = {}
        for some in watched:
            findings = list(_findings(some, needed, limits))
            alarms = [_alarm(each, needed, some.scorer_id, some.agent_name) for each in findings]
            found += [_with_traces(connection, slices, each) for each in alarms if each is not None]
            states[some.scorer_id, some.agent_name] = _state(some, findings, needed, limits)
        picks = [_alarm(wrong_sampler(steps, needed), needed, rule) for rule, steps in picked.items()]
        found += [each for each in picks if each is not None]
        # Silence is a plain rule without evidence, so it takes no share of the level.
        services = series(connection, slices, Window(since, last), STEP, ("service",))
        for (service,), active in services.items():
            quiet = _alarm(silence(sorted(active), end), None, service or "all scorers")
            found += [quiet] if quiet is not None else []
        return Found(
            [each for each in found if each.since > judged.acknowledged.get(each.monitor, -1)], states
        )


def _state(some: Watched, findings: Sequence[Findings], needed: float, limits: AlarmLimits) -> WatchState:
    means = [each for each in findings if each.kind in ("floor", "fall", "drift", "version")]
    raised = [each for each in means if each.raised is not None]
    begun = [each for each in means if each.since is not None and each.evidence is not None]
    first = max(raised or begun, key=lambda each: each.evidence or 0.0, default=None)
    last = some.steps[-1][0] + STEP
    day = total(step.scored for start, step in some.steps if start >= last - _DAY)
    reference = next((each.before for each in means if each.kind == "fall"), None)
    return WatchState(
        scorer_id=some.scorer_id,
        agent_name=some.agent_name,
        mean=None if day.mean is None else day.mean * some.scale,
        floor=limits.floors.get(some.scorer_id) if some.scaled else None,
        reference=reference,
        alarm=bool(raised),
        pending=first.kind if first and not raised else "",
        since=first.since if first else None,
        decided_in=_remaining(first, last, needed) if first and not raised else None,
    )


def _remaining(found: Findings, last: int, needed: float) -> float | None:
    """Return the seconds until the evidence is enough, if its logarithm grows as it has."""
    grown = math.log(max(found.evidence or 1.0, 1.0))
    # Dividing by almost no growth would predict a date that means nothing.
    if found.since is None or grown < 0.1:
        return None
    return (last - found.since) * (math.log(needed) / grown - 1.0)


def _findings(watched: Watched, needed: float, limits: AlarmLimits) -> Iterator[Findings]:
    limit = limits.floors.get(watched.scorer_id)
    if watched.scaled:
        if limit is not None:
            yield floor(watched, limit / watched.scale, needed)
        fallen = fall(watched, needed)
        yield fallen
        if fallen.raised is None:  # one incident, one alarm
            yield drift(watched, needed, _QUARTERS)
        yield worse_version(watched, needed)
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
    slices: Mapping[int, Any],
    key: tuple[Any, ...],
    steps: Mapping[int, Measured],
    judged: Judgements,
) -> Watched:
    columns = dict(zip(_BY, key, strict=True))
    inside = matching(slices, columns)
    starts = sorted(steps)
    first, last = starts[0], starts[-1]
    reference, pinned = _reference_windows(connection, inside, key, first, last, judged)
    usual = Window(*reference)
    inside_reference = [steps[start] for start in starts if reference[0] <= start < reference[1]]
    # In whole hours: only for these does the store have clusters of many runs.
    around = measure(connection, inside, _hours(usual), ()).get((), Measured())
    hourly = series(connection, inside, _hours(Window(first, last)), HOUR)
    slow = wander({start // HOUR: each.scored for start, each in hourly.get((), {}).items()})
    whole = measure(connection, inside, usual, ()).get((), Measured())
    # Starts after the quarter in which the reference ends, which may have runs of the reference.
    weeks = series(connection, inside, Window(pinned[1] - pinned[1] % _QUARTER + _QUARTER), _QUARTER)
    # A quarter that is not over has other sums at the next check.
    complete = {at: each for at, each in weeks.get((), {}).items() if at + _QUARTER <= last + STEP}
    calm = measure(connection, inside, _hours(Window(*pinned)), ()).get((), Measured())
    versions = series(connection, inside, Window(first), STEP, ("scorer_version", "agent_version"))
    firsts = sorted((min(found), version) for (version, _), found in versions.items())
    # The version that appeared last, since names of versions have no order.
    newest = firsts[-1][1]
    began = min(start for start, version in firsts if version == newest)
    return Watched(
        **columns,
        # Without a scale, sums are in units of the score.
        scale=steps[first].scale or 1.0,
        scaled=all(each.scale is not None for each in steps.values()),
        lower_is_better=steps[first].lower_is_better,
        steps=[(start, steps[start]) for start in starts],
        reference=whole.scored,
        reference_window=reference,
        pinned=calm.scored if complete else Sums(),
        periods=[(at, complete[at].scored) for at in sorted(complete)][-_QUARTERS:],
        # A reference without runs has no weights, and a detector refuses a limit below 1.
        largest=max([1.0, whole.sampled.w_max, *(each.sampled.w_max for each in inside_reference)]),
        inflation=max(around.design_effect, slow),
        versions={agent: found for (version, agent), found in versions.items() if version == newest},
        scorer_began=(newest, began) if len({version for _, version in firsts}) > 1 else None,
    )


def _hours(window: Window) -> Window:
    """Return a window as whole hours, of at least one."""
    since, until = (window.since or 0) // HOUR * HOUR, -(-(window.until or 0) // HOUR) * HOUR
    return Window(since, max(until, since + HOUR))


def _reference_windows(
    connection: Connection,
    slices: Mapping[int, Any],
    key: tuple[Any, ...],
    first: int,
    last: int,
    judged: Judgements,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the reference periods of the fall alarm and of the drift alarm.

    The first is fixed by an alarm that nobody has acknowledged, else the first two thirds of the steps, at
    most a day. The second is the first week on record. Both start after the latest acknowledgement.
    """
    since = judged.references.get(key, 0)
    begin = max(first, since)
    # A store younger than a day and a half is watched too, against a shorter reference.
    reference = (begin, min(begin + _DAY, begin + max(last - begin, 0) * 2 // 3))
    ids = list(slices)
    bucket = schema.rollups.c.bucket
    # Rollups stay when runs are deleted, so the first week remains known.
    query = select(func.min(bucket)).where(schema.rollups.c.width == HOUR, schema.rollups.c.slice_id.in_(ids))
    start = max(connection.execute(query).scalar() or first, since)
    return judged.fixed.get(key, reference), (start, start + _PINNED)


def _with_traces(connection: Connection, slices: Mapping[int, Any], alarm: Alarm) -> Alarm:
    inside = matching(slices, {"scorer_id": alarm.scorer_id, "agent_name": alarm.agent_name})
    runs = runs_of_slices(connection, inside, Window(alarm.since), 5, order="worst")
    return replace(alarm, trace_ids=tuple(dict.fromkeys(run.trace_id for run in runs)))
