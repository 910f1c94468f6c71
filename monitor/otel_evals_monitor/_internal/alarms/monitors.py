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

from sqlalchemy import Connection

from otel_evals.statistics import shared_threshold
from otel_evals_monitor._internal.alarms.watchers import (
    Findings,
    LabelledScore,
    Watched,
    agreements,
    disagreement,
    fall,
    floor,
    missing_share,
    silence,
    worse_version,
    wrong_sampler,
)
from otel_evals_monitor._internal.report.runs import runs_of_slices
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

_BY = ("scorer_id", "scorer_version", "agent_name")
_DAY = 24 * HOUR
_OF_SLICE = 5


@dataclass(frozen=True, kw_only=True)
class AlarmSettings:
    """Limits of the monitors, and the accepted probability of false alarms."""

    floors: Mapping[str, float] = field(default_factory=dict)
    """By scorer: lowest acceptable mean; highest, if low scores are good."""
    missing: float = 0.2
    """Highest acceptable share of missing scores."""
    agreement: float = 0.8
    """Lowest acceptable share of randomly drawn scores that people's labels agree with."""
    level: float = 0.05
    """Probability of any false alarm in a period, over all monitors."""
    step: int = 600
    """Seconds of a time step."""
    period: int = 1008
    """Steps of a period, and of the past that a check reads; by default a week."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A finding of a monitor, with its evidence."""

    monitor: str
    """Name of the monitor, the same at every check."""
    kind: str
    """`floor`, `fall`, `version`, `missing`, `silence`, `agreement` or `sampler`."""
    scorer_id: str
    """Name of the rule for a `sampler` alarm."""
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

    @property
    def evidence_text(self) -> str:
        """The evidence in words; empty if there is none."""
        if self.evidence is None or self.needed is None:
            return ""
        found = "more than 1,000,000" if self.evidence >= 1e6 else _count(self.evidence)
        return f"{found} (threshold {_count(self.needed)})"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def find_alarms(database: Database, settings: AlarmSettings, now: float) -> list[Alarm]:
    """Return the current alarms of a store."""
    with database.reading() as connection:
        recorded = time_range(connection)
        if recorded is None:
            return []
        slices = stored_slices(connection)
        # An unfinished step is checked when it is over.
        end = int(now) // settings.step * settings.step
        last = min(end, -(-recorded[1] // settings.step) * settings.step)
        since = max(recorded[0], last - settings.period * settings.step) // settings.step * settings.step
        labels = agreements(connection)
        watched = [
            _watched(connection, slices, key, steps, settings, labels)
            for key, steps in series(connection, slices, Window(since, last), settings.step, _BY).items()
        ]
        picked = picks_of(connection, Window(since, last), settings.step)
        # Counts all monitors of a slice even if some do not apply: the level must not depend on the data.
        needed = shared_threshold(settings.level, _OF_SLICE * len(watched) + len(picked))
        found = [alarm for each in watched for alarm in _alarms_of(each, needed, settings, end)]
        found = [_with_traces(connection, slices, alarm) for alarm in found]
        for rule, steps in picked.items():
            if (wrong := wrong_sampler(steps, needed, settings.period)).since is not None:
                found.append(_alarm(wrong, needed, rule))
        return found


def _findings(watched: Watched, needed: float, settings: AlarmSettings) -> Iterator[Findings]:
    limit, period = settings.floors.get(watched.scorer_id), settings.period
    if watched.scaled:
        if limit is not None:
            yield floor(watched, limit / watched.scale, needed, period)
        yield fall(watched, needed, period)
        yield worse_version(watched, needed)
        yield disagreement(watched.labels, settings.agreement, needed, period)
    yield missing_share(watched, settings.missing, needed, period)


def _alarms_of(watched: Watched, needed: float, settings: AlarmSettings, end: int) -> Iterator[Alarm]:
    which = watched.scorer_id, watched.scorer_version, watched.agent_name
    for found in _findings(watched, needed, settings):
        if found.since is not None:
            yield _alarm(found, needed, *which)
    if (quiet := silence(watched, settings.step, end)).since is not None:
        yield _alarm(quiet, None, *which)


def _alarm(
    found: Findings, needed: float | None, scorer_id: str, scorer_version: str = "", agent_name: str = ""
) -> Alarm:
    return Alarm(
        monitor=" ".join(filter(None, (found.kind, scorer_id, scorer_version, agent_name))),
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
    settings: AlarmSettings,
    labels: Mapping[int, Sequence[LabelledScore]],
) -> Watched:
    columns = dict(zip(_BY, key, strict=True))
    inside = matching(slices, columns)
    starts = sorted(steps)
    first, last = starts[0], starts[-1]
    # The reference period is the first two thirds of the steps, at most a day.
    until = min(first + _DAY, first + (last - first) * 2 // 3)
    reference = [steps[start] for start in starts if start < until] or [steps[first]]
    hours = Window(first // HOUR * HOUR, max(-(-until // HOUR), first // HOUR + 1) * HOUR)
    around = measure(connection, inside, hours, ()).get(())
    largest = max([1.0, *(each.sampled.w_max for each in reference)])
    by_version = series(connection, inside, Window(first), settings.step, ("agent_version",))
    return Watched(
        **columns,
        scale=steps[first].scale or 1.0,
        scaled=all(each.scale is not None for each in steps.values()),
        lower_is_better=steps[first].lower_is_better,
        steps=[(start, steps[start]) for start in starts],
        reference_until=until,
        largest=largest,
        inflation=around.design_effect if around else 1.0,
        labels=sorted((label for id in inside for label in labels.get(id, ())), key=attrgetter("time")),
        versions={version: found for (version,), found in by_version.items()},
    )


def _with_traces(connection: Connection, slices: Mapping[int, Any], alarm: Alarm) -> Alarm:
    inside = matching(slices, {"scorer_id": alarm.scorer_id, "agent_name": alarm.agent_name})
    runs = runs_of_slices(connection, inside, Window(alarm.since), 5, order="worst")
    return replace(alarm, trace_ids=tuple(dict.fromkeys(run.trace_id for run in runs)))
