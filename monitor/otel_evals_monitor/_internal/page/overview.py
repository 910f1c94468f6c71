"""Rows of the first page: each scorer and agent with its value, trend and state; causes of incidents."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from markupsafe import Markup
from sqlalchemy import Connection

from otel_evals.statistics import Sums
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.record import Incident
from otel_evals_monitor._internal.report.inputs import ReportOptions
from otel_evals_monitor._internal.report.patterns import FailurePattern, failures_of
from otel_evals_monitor._internal.report.plot import sparkline, step_for
from otel_evals_monitor._internal.report.report import SliceReport, make_report
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.queries import Measured, first_seen, series, stored_slices

_DAY = 86_400
_ENOUGH = 8.0
_COLUMNS = ("scorer_id", "agent_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    report: SliceReport
    """Of the newest version of the scorer."""
    versions: int
    """Number of the scorer's versions in the window."""
    per_day: float
    """Estimated runs per day, sampled or not."""
    spark: Markup
    state: str
    """`alarm`, `warning`, `few`, `unwatched` or `good`."""

    @property
    def worse(self) -> bool | None:
        """True or False if the change is certainly for the worse or better, None if it may be chance."""
        change = self.report.change
        if change is None or change.low <= 0.0 <= change.high:
            return None
        return (change.mean < 0.0) != self.report.lower_is_better


def overview(
    database: Database, window: Window, incidents: Sequence[Incident], check: AlarmCheck
) -> tuple[list[Row], Sequence[str]]:
    """Return the rows of a window, alarms first, and notes; the numbers equal `report --against previous`."""
    against = "previous" if window.since is not None else None
    report = make_report(database, ReportOptions(window=window, against=against, worst=0, patterns=0))
    if report.recorded is None or not report.slices:
        return [], ()
    start, end = window.ends(report.recorded)
    start = max(start, report.recorded[0])
    before = start - (end - start) if against else start
    step = step_for(before, end, 60)
    with database.reading() as connection:
        every = Window(before, window.until)
        found = series(connection, stored_slices(connection), every, step, _COLUMNS)
        grouped = [(key, list(some)) for key, some in groupby(sorted(report.slices, key=_key), _key)]
        newest = [newest_version(connection, versions) for _, versions in grouped]
    alarmed = {(alarm.scorer_id, alarm.agent_name) for each in incidents for alarm in each.alarms}
    rows = []
    for (key, versions), row in zip(grouped, newest, strict=True):
        watch = check.found.states.get(key)
        state = _state_of(row, check.limits.missing, watched=bool(watch and watch.watched))
        # Runs of a few minutes say nothing about a whole day.
        days = max(end - start, 3600) / _DAY
        rows.append(
            Row(
                report=row,
                versions=len(versions),
                per_day=sum(each.stands_for for each in versions) / days,
                spark=_spark(found.get(key, {}), (before, end), start, row.scale),
                state="alarm" if key in alarmed else state,
            )
        )
    order = ("alarm", "warning", "good", "unwatched", "few")
    rows.sort(key=lambda row: (order.index(row.state), row.report.slice["agent_name"]))
    return rows, report.notes


def newest_version(connection: Connection, rows: Sequence[SliceReport]) -> SliceReport:
    """Return the row of the scorer's newest version, given the rows of a scorer and agent."""
    # Most have one version, and a store may have thousands of agents.
    if len(rows) == 1:
        return rows[0]
    inside = stored_slices(connection, **{name: rows[0].slice[name] for name in _COLUMNS})
    order = [version for _, version in first_seen(connection, inside, "scorer_version")]
    return max(rows, key=lambda row: order.index(row.slice["scorer_version"]))


def _key(row: SliceReport) -> tuple[str, str]:
    return row.slice["scorer_id"], row.slice["agent_name"]


def _state_of(row: SliceReport, missing: float, *, watched: bool) -> str:
    if row.estimate.too_few:
        return "few"
    lost = row.missing_share is not None and row.missing_share > missing
    if lost or not row.representative:
        return "warning"
    return "good" if watched else "unwatched"


def _spark(steps: Mapping[int, Measured], span: tuple[int, int], divide: int, scale: float | None) -> Markup:
    """Return the line of means over both periods; each point has enough runs for a mean."""
    points: list[tuple[float, float]] = []
    some, times = Sums(), []
    for start in sorted(steps):
        some += steps[start].scored
        times.append(start)
        if some.mean is not None and some.n_effective >= _ENOUGH:
            points.append((sum(times) / len(times), some.mean * (scale or 1.0)))
            some, times = Sums(), []
    return Markup(sparkline(points, span, divide, scale))


def causes_in(database: Database) -> Callable[[Incident], Sequence[FailurePattern]]:
    """Return a function that finds the largest failures of an incident, at most once a minute each."""

    @lru_cache(maxsize=50)
    def patterns(scorer: str, agent: str, version: str, since: int, minute: int) -> Sequence[FailurePattern]:
        only = {"scorer_id": scorer, "agent_name": agent, "agent_version": version or None}
        with database.reading() as connection:
            return failures_of(connection, stored_slices(connection, **only), Window(since), most=2).patterns

    def of(incident: Incident) -> Sequence[FailurePattern]:
        if not incident.quality:
            return ()
        # The minute is a key of the cache, so no result is used for longer.
        alarm, minute = incident.first, int(time.monotonic() // 60)
        return patterns(alarm.scorer_id, alarm.agent_name, incident.version, incident.since, minute)

    return of
