"""The monitors of a results store: the alarms to raise, and the evidence for each.

Every monitor reads the same time steps, oldest first, and its evidence may be checked any number of times.
The monitors share one level: the probability of any false alarm within a period. Larger weights than the
largest of the reference period are reduced to it; with samplers without a minimum probability, an alarm is
about the mean that gives rare runs less weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, func, select

from otel_evals.statistics import Sums, expected_delay, shared_threshold, total, wander
from otel_evals_monitor._internal.alarms.judgements import Judgements, judgements, monitor_name
from otel_evals_monitor._internal.alarms.limits import PERIOD, STEP, AlarmLimits
from otel_evals_monitor._internal.alarms.watchers import (
    Findings,
    LabelledScore,
    Watched,
    agreements,
    disagreement,
    drift,
    fall,
    floor,
    floor_detector,
    missing_share,
    per_bucket,
    reference_detector,
    silence,
    worse_version,
    wrong_sampler,
)
from otel_evals_monitor._internal.report.runs import runs_of_slices
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
_OF_SLICE = 6
_PINNED = 7 * _DAY
_QUARTER = 6 * HOUR
_QUARTERS = 12 * 7 * 4
_FALL = 0.05
"""The fall, of the scale, whose delay is predicted."""
NEXT_STEPS: Mapping[str, str] = {
    "floor": "Open the worst runs below, then compare versions on the scorer's page",
    "fall": "Open the worst runs below, then look for what changed at that time on the scorer's page",
    "drift": "Compare recent bad runs with runs of the reference; look for slow changes of models and data",
    "version": "Open the worst runs of the new version, and roll back if they confirm it",
    "missing": "Open the scorer's page for the reasons, and `otel-evals doctor` in the process that scores",
    "agreement": "Open the label queue, and calibrate the judge with `otel-evals judge calibrate`",
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
    """`floor`, `fall`, `drift`, `version`, `missing`, `silence`, `agreement` or `sampler`."""
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

    @property
    def evidence_text(self) -> str:
        """How sure the alarm is; empty for a plain rule."""
        if self.evidence is None or self.needed is None:
            return ""
        weeks = "a million" if self.evidence >= 1e6 else f"{max(self.evidence, 1.0):,.0f}"
        return f"Chance alone does this at most once in {weeks} weeks"

    @property
    def next_step(self) -> str:
        return NEXT_STEPS.get(self.kind, "")


@dataclass(frozen=True, slots=True)
class Found:
    alarms: Sequence[Alarm] = ()
    delays: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Seconds until a fall of 0.05 of the scale raises an alarm, by scorer and agent."""


def check_store(database: Database, limits: AlarmLimits, now: float) -> Found:
    """Return the current alarms of a store, without acknowledged ones, and how fast a fall is found."""
    with database.reading() as connection:
        recorded = time_range(connection)
        if recorded is None:
            return Found()
        slices = stored_slices(connection)
        # An unfinished step is checked when it is over.
        end = int(now) // STEP * STEP
        last = min(end, -(-recorded[1] // STEP) * STEP)
        since = max(recorded[0], last - PERIOD * STEP) // STEP * STEP
        labels, judged = agreements(connection), judgements(connection)
        watched = [
            _watched(connection, slices, key, steps, limits, labels, judged)
            for key, steps in series(connection, slices, Window(since, last), STEP, _BY).items()
        ]
        picked = picks_of(connection, Window(since, last), STEP)
        if not watched and not picked:
            return Found()
        # Counts all monitors of a slice even if some do not apply: the level must not depend on the data.
        needed = shared_threshold(limits.level, _OF_SLICE * len(watched) + len(picked))
        found = [
            _with_traces(connection, slices, _alarm(each, needed, some.scorer_id, some.agent_name))
            for some in watched
            for each in _findings(some, needed, limits)
            if each.since is not None
        ]
        for rule, steps in picked.items():
            if (wrong := wrong_sampler(steps, needed)).since is not None:
                found.append(_alarm(wrong, needed, rule))
        services = series(connection, slices, Window(since, last), STEP, ("service",))
        for (service,), active in services.items():
            if (quiet := silence(sorted(active), end)).since is not None:
                found.append(_alarm(quiet, None, service or "all scorers"))
        delays = {(each.scorer_id, each.agent_name): _delay(each, needed, limits) for each in watched}
        alarms = [each for each in found if each.since > judged.acknowledged.get(each.monitor, -1)]
        return Found(alarms, {key: delay for key, delay in delays.items() if delay is not None})


def _delay(watched: Watched, needed: float, limits: AlarmLimits) -> float | None:
    """Return the seconds until a usual mean that falls by 0.05 of the scale raises an alarm."""
    if not watched.scaled:
        return None
    limit = limits.floors.get(watched.scorer_id)
    detectors = [
        reference_detector(watched, watched.reference, PERIOD),
        None if limit is None else floor_detector(watched, limit / watched.scale),
    ]
    starts = [start for start, _ in watched.steps]
    buckets = (starts[-1] - starts[0]) / STEP + 1
    usual = per_bucket(watched.good(total(step.scored for _, step in watched.steps)), buckets)
    found = [expected_delay(each, usual, _FALL, needed) for each in detectors if each is not None]
    return min((buckets * STEP for buckets in found if buckets is not None), default=None)


def _findings(watched: Watched, needed: float, limits: AlarmLimits) -> Iterator[Findings]:
    limit = limits.floors.get(watched.scorer_id)
    if watched.scaled:
        if limit is not None:
            yield floor(watched, limit / watched.scale, needed)
        fallen = fall(watched, needed)
        yield fallen
        if fallen.since is None:  # one incident, one alarm
            yield drift(watched, needed, _QUARTERS)
        yield worse_version(watched, needed)
        yield disagreement(watched.labels, limits.agreement, needed)
    yield missing_share(watched, limits.missing, needed)


def _alarm(found: Findings, needed: float | None, scorer_id: str, agent_name: str = "") -> Alarm:
    return Alarm(
        monitor=monitor_name(found.kind, scorer_id, agent_name),
        scorer_id=scorer_id,
        agent_name=agent_name,
        needed=needed,
        **asdict(found),
    )


def _watched(
    connection: Connection,
    slices: Mapping[int, Any],
    key: tuple[Any, ...],
    steps: Mapping[int, Measured],
    limits: AlarmLimits,
    labels: Mapping[int, Sequence[LabelledScore]],
    judged: Judgements,
) -> Watched:
    columns = dict(zip(_BY, key, strict=True))
    inside = matching(slices, columns)
    starts = sorted(steps)
    first, last = starts[0], starts[-1]
    reference, pinned = _reference_windows(connection, inside, key, first, last, judged)
    usual = Window(*reference)
    inside_reference = [steps[start] for start in starts if reference[0] <= start < reference[1]]
    around = measure(connection, inside, _hours(usual), ()).get((), Measured())
    hourly = series(connection, inside, _hours(Window(first, last)), HOUR)
    slow = wander({start // HOUR: each.scored for start, each in hourly.get((), {}).items()})
    whole = measure(connection, inside, usual, ()).get((), Measured())
    weeks = series(connection, inside, Window(pinned[1] - pinned[1] % _QUARTER + _QUARTER), _QUARTER)
    complete = {at: each for at, each in weeks.get((), {}).items() if at + _QUARTER <= last + STEP}
    calm = measure(connection, inside, _hours(Window(*pinned)), ()).get((), Measured())
    versions = series(connection, inside, Window(first), STEP, ("scorer_version", "agent_version"))
    firsts = sorted((min(found), version) for (version, _), found in versions.items())
    newest = firsts[-1][1]
    began = min(start for start, version in firsts if version == newest)
    return Watched(
        **columns,
        scale=steps[first].scale or 1.0,
        scaled=all(each.scale is not None for each in steps.values()),
        lower_is_better=steps[first].lower_is_better,
        steps=[(start, steps[start]) for start in starts],
        reference=whole.scored,
        reference_window=reference,
        pinned=calm.scored if complete else Sums(),
        periods=[(at, complete[at].scored) for at in sorted(complete)][-_QUARTERS:],
        largest=max([1.0, whole.sampled.w_max, *(each.sampled.w_max for each in inside_reference)]),
        inflation=max(around.design_effect, slow),
        labels=sorted((label for id in inside for label in labels.get(id, ())), key=attrgetter("time")),
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

    The first is pinned by a person, or fixed by an alarm that nobody has acknowledged, else the first two
    thirds of the steps, at most a day. The second is pinned, else the first week on record. Both start after
    the latest acknowledgement.
    """
    since, until = judged.references.get(key, (None, None))
    if since is not None and until is not None:
        return (since, until), (since, until)
    begin = max(first, since or 0)
    reference = (begin, min(begin + _DAY, begin + max(last - begin, 0) * 2 // 3))
    ids = list(slices)
    bucket = schema.rollups.c.bucket
    query = select(func.min(bucket)).where(schema.rollups.c.width == HOUR, schema.rollups.c.slice_id.in_(ids))
    start = max(connection.execute(query).scalar() or first, since or 0)
    return judged.fixed.get(key, reference), (start, start + _PINNED)


def _with_traces(connection: Connection, slices: Mapping[int, Any], alarm: Alarm) -> Alarm:
    inside = matching(slices, {"scorer_id": alarm.scorer_id, "agent_name": alarm.agent_name})
    runs = runs_of_slices(connection, inside, Window(alarm.since), 5, order="worst")
    return replace(alarm, trace_ids=tuple(dict.fromkeys(run.trace_id for run in runs)))
