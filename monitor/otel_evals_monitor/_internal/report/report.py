"""Report with the weighted mean of every scorer, its interval, missing scores, changes and worst runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, select

from otel_evals.errors import ConfigError
from otel_evals.statistics import (
    Clusters,
    Estimate,
    Interval,
    Picks,
    difference,
    estimate,
    missing,
)
from otel_evals_monitor._internal.report.inputs import ATTRIBUTE, GROUPS, ReportOptions
from otel_evals_monitor._internal.report.patterns import Failures, failures_of
from otel_evals_monitor._internal.report.runs import RunOfSlice, runs_of_slices
from otel_evals_monitor._internal.report.words import count
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.picks import picked_by_rules, unrepresentative
from otel_evals_monitor._internal.store.queries import (
    Measured,
    Slices,
    matching,
    measure,
    stored_slices,
    time_range,
    together,
    values_on_record,
)
from otel_evals_monitor._internal.store.schema import HOUR

_FEW = 20_000
_EVEN = 0.95
"""Effective share of runs above which weights count as equal."""
_COPIED = ("scale", "lower_is_better", "counts", "reasons", "cost")
_ALWAYS = ("scorer_id", "scorer_version", "agent_name")
_VERSIONS = ("agent_version", "prompt_version", "model")


@dataclass(frozen=True, slots=True)
class Change:
    against: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReport:
    """Estimate, counts and worst runs of a slice. Scores are in units of the scorer."""

    slice: Mapping[str, Any]
    """Columns by name."""
    estimate: Estimate
    kin: str = ""
    """Number of users or conversations, in words; empty if it is unknown or every run is of another."""
    scale: float | None
    lower_is_better: bool
    counts: Mapping[str, int]
    reasons: Mapping[tuple[str, str], int]
    missing_share: float | None
    bounds: Interval | None
    """Bounds of the mean for any value of the missing scores."""
    stands_for: float
    """Sum of weights: approximate number of runs that the sampled ones represent."""
    sampled: int
    cost: float
    representative: bool = True
    """False if the sampled runs stand for other runs than the rule decided on; there is no interval then."""
    clusters: Clusters | None = None
    """Users or conversations; None if they are unknown."""
    design_effect: float = 1.0
    """Factor by which users or conversations inflate the variance of the mean."""
    change: Change | None = None
    worst: Sequence[RunOfSlice] = ()
    failures: Failures = field(default_factory=Failures)
    """Failing runs, grouped by patterns."""

    @property
    def unstated(self) -> str:
        """Why the mean would mislead; empty if it does not."""
        return "too few" if self.estimate.too_few else "" if self.representative else "not representative"

    @property
    def warnings(self) -> Iterator[str]:
        known = self.estimate
        if not self.representative:
            yield "not representative: runs that the rule seldom samples are missing from the sample"
        if known.unknown:
            yield f"{known.unknown} scored runs of unknown probability are in no mean"
        if known.approximate:
            yield "no scale: an interval needs 200 effective runs, and is approximate"
        if known.too_few:
            yield f"too few runs for a mean: {int(known.n_effective)} effective ones, at least 10 needed"
            return
        if known.dominated and known.n_effective < _EVEN * known.n:
            yield "one run has more than 5% of all weight"
        # The correlation within one group is unknown.
        if self.clusters and self.clusters.groups == 1:
            yield "all runs are of one user or conversation: the mean of others is unknown"
        elif self.clusters and known.few_clusters:
            number = f"{self.clusters.effective:.0f}"
            yield f"few users or conversations: intervals count them as {number} independent ones"


@dataclass(frozen=True, slots=True)
class ScoreReport:
    source: str
    window: Window
    recorded: tuple[int, int] | None
    """Start and end of the recorded time, in seconds."""
    slices: Sequence[SliceReport]
    picks: Mapping[str, Picks] = field(default_factory=dict)
    """Picks by rule, for the sampler check; only rules whose processes record them."""
    notes: Sequence[str] = ()
    """Sentences about the whole report."""
    known: str = ""
    """Values on record, for a report without slices."""


def make_report(database: Database, options: ReportOptions) -> ScoreReport:
    with database.reading() as connection:
        every = stored_slices(connection)
        slices = matching(every, options.only)
        by, options = _columns(slices, options)
        found = measure(connection, slices, options.window, by, options.runs)
        others = _others(connection, slices, options, by, found)
        lacking = unrepresentative(connection, slices, options.window)
        rows = []
        for key in sorted(found, key=str):
            columns = dict(zip(by, key, strict=True))
            row = _row(connection, slices, columns, found[key], options, lacking)
            rows.append(replace(row, change=_change(row, others.get(key), options.against)))
        return ScoreReport(
            source=database.name,
            window=options.window,
            recorded=time_range(connection),
            slices=rows,
            picks=picked_by_rules(connection, slices, options.window),
            notes=list(_notes(connection, slices, rows, options)),
            known=values_on_record(every, ("scorer_id", "agent_name")),
        )


def _row(
    connection: Connection,
    slices: Slices,
    columns: dict[str, Any],
    measured: Measured,
    options: ReportOptions,
    lacking: Collection[str],
) -> SliceReport:
    """Return the report of a slice, with its worst runs and failures."""
    # An attribute is no column of slices: its value is a condition on single runs.
    runs = replace(options.runs, value=columns.pop("attribute", None))
    inside, window = matching(slices, columns), options.window
    around = measured if measured.clusters else together(connection, inside, window.whole_hours)
    row = of_measured(columns, measured, around.design_effect, lacking)
    few = measured.scored.n <= _FEW
    worst = runs_of_slices(connection, inside, window, options.worst, order="worst", few=few, runs=runs)
    kin = "" if row.estimate.clusters is None else count(row.estimate.clusters, _kin(connection))
    failures = Failures()
    if runs.value is not None:
        columns = {**columns, ATTRIBUTE + runs.attribute: runs.value}
    elif options.patterns:
        failures = failures_of(connection, inside, window, options.patterns, row.representative)
    return replace(row, slice=columns, worst=worst, kin=kin, failures=failures)


def _kin(connection: Connection) -> str:
    """Return whose runs are counted together."""
    user = select(schema.runs.c.id).where(schema.runs.c.user_id.is_not(None)).limit(1)
    return "user" if connection.execute(user).first() else "conversation"


def _notes(
    connection: Connection,
    slices: Slices,
    rows: Sequence[SliceReport],
    options: ReportOptions,
) -> Iterator[str]:
    """Yield a sentence for each name to split by that has no value, and for scores of a backfill."""
    for name in options.by:
        column = GROUPS.get(name, name)
        if rows and not any(row.slice.get(column) for row in rows):
            others = values_on_record(slices, [each for each in GROUPS.values() if each != column])
            yield f"--by {name}: no run in this window has one; {others}."
    late = matching(slices, {"live": False})
    number = sum(together(connection, late, options.window).counts.values()) if late else 0
    if number:
        verb = "is" if number == 1 else "are"
        yield f"{count(number, 'score')} in this range {verb} of a backfill, which alarms ignore."


def of_measured(
    columns: Mapping[str, Any],
    measured: Measured,
    inflation: float = 1.0,
    lacking: Collection[str] = (),
) -> SliceReport:
    """Return the report of a slice, without its worst runs.

    `inflation` is used without clusters; `lacking` has the agents whose runs are not represented.
    """
    scaled, unit = measured.scale is not None, measured.scale or 1.0
    clusters = measured.clusters
    if clusters and (measured.scored.n < 2 or not clusters.groups):
        clusters = None  # one run shares a cluster with no other
    effect = shown_effect = inflation
    if clusters:
        effect, shown_effect = 1.0, measured.design_effect
    known = estimate(measured.scored, clusters=clusters, scaled=scaled, inflation=effect)
    bounds = None
    if scaled:
        bounds = missing(measured.scored, measured.lost, inflation=effect, clusters=clusters).bounds
    weight = measured.scored.w + measured.lost.w
    representative = columns.get("agent_name") not in lacking
    if not representative:
        known, bounds = replace(known, interval=None), None
    return SliceReport(
        slice=columns,
        estimate=known.in_units(unit),
        missing_share=measured.lost.w / weight if weight else None,
        bounds=Interval(unit * bounds.low, unit * bounds.high) if bounds else None,
        stands_for=measured.sampled.w,
        sampled=sum(measured.counts.values()),
        **{name: getattr(measured, name) for name in _COPIED},
        representative=representative,
        clusters=clusters,
        design_effect=shown_effect,
    )


def _columns(slices: Slices, options: ReportOptions) -> tuple[list[str], ReportOptions]:
    """Return the columns to split by, and the options with the attribute among them."""
    wanted, runs = list(_ALWAYS), options.runs
    for name in options.by:
        if name.startswith(ATTRIBUTE) and name != ATTRIBUTE and not runs.attribute:
            runs = replace(runs, attribute=name.removeprefix(ATTRIBUTE))
            wanted.append("attribute")
        elif name in GROUPS:
            wanted.append(GROUPS[name])
        else:
            known = f"{', '.join(GROUPS)}, or one {ATTRIBUTE}NAME"
            raise ConfigError("--by", f"{name!r} is not one of {known}")
    if options.against not in (None, "previous"):
        values = {column: {each[column] for each in slices.values()} for column in _VERSIONS}
        having = [column for column in _VERSIONS if options.against in values[column]]
        if slices and not having:
            problem = f"nothing on record is {options.against!r}; {values_on_record(slices, _VERSIONS)}"
            raise ConfigError("--against", problem)
        wanted += having[:1]
    return list(dict.fromkeys(wanted)), replace(options, runs=runs)


def _others(
    connection: Connection,
    slices: Slices,
    options: ReportOptions,
    by: Sequence[str],
    found: Mapping[tuple[Any, ...], Measured],
) -> dict[tuple[Any, ...], SliceReport]:
    if options.against is None:
        return {}
    if options.against != "previous":
        places = [place for place, name in enumerate(by) if name in _VERSIONS]
        pairs = ((key, (*key[:at], options.against, *key[at + 1 :])) for key in found for at in places)
        return {key: of_measured({}, found[other]) for key, other in pairs if other in found and other != key}
    since, until = options.window.since, options.window.until
    if since is None:
        raise ConfigError("--against", "previous needs a window with a beginning: give --since or --window")
    recorded = time_range(connection)
    end = until or max(recorded[1] if recorded else since, since)
    # Whole hours stay whole, so the window before has clusters too.
    length = max(-(-(end - since) // HOUR) * HOUR if options.window.hours else end - since, 60)
    window, agent = Window(since - length, since), by.index("agent_name")
    before = measure(connection, slices, window, by, options.runs)
    lacking = unrepresentative(connection, slices, window)
    return {
        key: of_measured({"agent_name": key[agent]}, each, lacking=lacking) for key, each in before.items()
    }


def _change(row: SliceReport, other: SliceReport | None, against: str | None) -> Change | None:
    found = other and difference(other.estimate, row.estimate)
    if not found:
        return None
    return Change(str(against), found.mean, found.interval.low, found.interval.high)
