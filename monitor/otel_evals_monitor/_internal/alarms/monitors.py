"""The monitors of a results store: which alarms there are to raise, and the evidence for each.

Every monitor looks at the same steps of time, oldest first, and its evidence may be looked at as often as one
likes. They share one budget: the probability of any false alarm within a period of all of them is at most
the level. A step's weights are reduced to the largest of the reference period where they exceed it, so with
samplers of no lowest probability an alarm is about the mean that gives rare runs less weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from otel_evals.statistics import design_effect, shared_threshold
from otel_evals_monitor._internal.alarms.trust import agreements, disagreement, wrong_sampler
from otel_evals_monitor._internal.alarms.watchers import (
    Findings,
    LabelledScore,
    Watched,
    fall,
    floor,
    missing_share,
    silence,
    worse_version,
)
from otel_evals_monitor._internal.report.runs import worst_runs
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import (
    Measured,
    Window,
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
    """What is watched, and how many false alarms are accepted."""

    floors: Mapping[str, float] = field(default_factory=dict)
    """By scorer: the mean that is not to be fallen below; for scorers whose low scores are good, exceeded."""
    missing: float = 0.2
    """Share of the runs that may be without the score they should have."""
    agreement: float = 0.8
    """Share of the scores of runs drawn by chance with which people's labels are to agree."""
    level: float = 0.05
    """Probability of any false alarm in a period, over all monitors."""
    step: int = 600
    """Seconds of one step."""
    period: int = 1008
    """Steps in a period; a week of ten minutes. As much of the past is looked at."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that is so, with its evidence."""

    monitor: str
    """Its name, the same at every check."""
    kind: str
    """`floor`, `fall`, `version`, `missing`, `silence`, `agreement` or `sampler`."""
    scorer_id: str
    """The rule's name, of a `sampler` alarm."""
    agent_name: str
    since: int
    """About when it began, seconds since the Unix epoch."""
    raised: int
    """When the evidence was enough."""
    evidence: float | None
    """How many times likelier than by chance, as an e-value; None for silence, which is a plain rule."""
    needed: float | None
    """What the evidence had to reach."""
    text: str
    """One sentence."""
    trace_ids: Sequence[str] = ()
    """Of the worst runs since then."""

    @property
    def evidence_told(self) -> str:
        """The evidence in words; empty where there is none."""
        if self.evidence is None or self.needed is None:
            return ""
        found = "over a million" if self.evidence >= 1e6 else _count(self.evidence)
        return f"{found} of {_count(self.needed)} needed"


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def find_alarms(database: Database, settings: AlarmSettings, now: float) -> list[Alarm]:
    """The alarms that a store's runs give reason for, now.

    Raises:
        StoreError: the store cannot be read.
    """
    with database.reading() as connection:
        recorded = time_range(connection)
        if recorded is None:
            return []
        slices = stored_slices(connection)
        # The step that is not over yet is looked at when it is.
        end = int(now) // settings.step * settings.step
        last = min(end, -(-recorded[1] // settings.step) * settings.step)
        since = max(recorded[0], last - settings.period * settings.step) // settings.step * settings.step
        labels = agreements(connection)
        watched = [
            _watched(connection, slices, key, steps, settings, labels)
            for key, steps in series(connection, slices, Window(since, last), settings.step, _BY).items()
        ]
        picked = picks_of(connection, Window(since, last), settings.step)
        # As many for each slice whether or not all of them apply: the budget must not depend on what is seen.
        needed = shared_threshold(settings.level, _OF_SLICE * len(watched) + len(picked))
        found = [alarm for each in watched for alarm in _alarms_of(each, needed, settings, end)]
        found = [_with_traces(connection, slices, alarm) for alarm in found]
        for rule, steps in picked.items():
            if (wrong := wrong_sampler(steps, needed, settings.period)).since is not None:
                found.append(_alarm(wrong, needed, rule))
        return found


_Monitor = Callable[[Watched, float, float], Findings]


def _monitors(watched: Watched, settings: AlarmSettings) -> Iterator[_Monitor]:
    limit = settings.floors.get(watched.scorer_id)
    if watched.scaled:
        if limit is not None:
            yield lambda w, needed, period: floor(w, limit / w.scale, needed, period)
        yield fall
        yield worse_version
        yield lambda w, needed, period: disagreement(w.labels, settings.agreement, needed, period)
    yield lambda w, needed, period: missing_share(w, settings.missing, needed, period)


def _alarms_of(watched: Watched, needed: float, settings: AlarmSettings, end: int) -> Iterator[Alarm]:
    which = watched.scorer_id, watched.scorer_version, watched.agent_name
    for monitor in _monitors(watched, settings):
        found = monitor(watched, needed, settings.period)
        if found.since is not None:
            yield _alarm(found, needed, *which)
    if (quiet := silence(watched, settings.step, end)).since is not None:
        yield _alarm(quiet, None, *which)


def _alarm(
    found: Findings, needed: float | None, scorer_id: str, scorer_version: str = "", agent_name: str = ""
) -> Alarm:
    return Alarm(
        monitor=" ".join(filter(None, (found.kind, scorer_id, scorer_version, agent_name))),
        kind=found.kind,
        scorer_id=scorer_id,
        agent_name=agent_name,
        since=found.since or 0,
        raised=found.raised or 0,
        evidence=found.evidence,
        needed=needed,
        text=found.text,
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
    inside = {i: each for i, each in slices.items() if all(each[n] == v for n, v in columns.items())}
    starts = sorted(steps)
    first, last = starts[0], starts[-1]
    # Two thirds of what there is, but a day at most, is what later steps are compared with.
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
        inflation=_inflation(around),
        labels=sorted((label for id in inside for label in labels.get(id, ())), key=attrgetter("time")),
        versions={version: found for (version,), found in by_version.items()},
    )


def _inflation(around: Measured | None) -> float:
    if around is None or around.clusters is None or around.clusters.groups < 2:
        return 1.0
    effect = design_effect(around.scored, around.clusters)
    return effect if math.isfinite(effect) else 1.0


def _with_traces(connection: Connection, slices: Mapping[int, Any], alarm: Alarm) -> Alarm:
    inside = {
        i: each
        for i, each in slices.items()
        if each["scorer_id"] == alarm.scorer_id and each["agent_name"] == alarm.agent_name
    }
    highest = any(each["direction"] == "lower_is_better" for each in inside.values())
    runs = worst_runs(connection, inside, Window(alarm.since), 5, highest=highest)
    return replace(alarm, trace_ids=tuple(dict.fromkeys(run.trace_id for run in runs)))
