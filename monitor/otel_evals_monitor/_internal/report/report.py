"""A report: the weighted mean of every scorer, its interval, what is missing, changed and worst."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from otel_evals.errors import ConfigError
from otel_evals.statistics import Estimate, Interval, Picks, design_effect, difference, estimate, missing
from otel_evals_monitor._internal.report.runs import RunOfSlice, worst_runs
from otel_evals_monitor._internal.report.sampler_notes import picked_by_rules
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.queries import (
    Measured,
    StoredSlice,
    Window,
    measure,
    stored_slices,
    time_range,
)
from otel_evals_monitor._internal.store.schema import HOUR

_FEW = 20_000
_ALWAYS = ("scorer_id", "scorer_version", "agent_name")
GROUPS: Mapping[str, str] = {
    "agent": "agent_name",
    "version": "agent_version",
    "tenant": "tenant",
    "rule": "rule",
    "service": "service",
    "judge": "judge_model",
}
"""By what estimates can be split, and the column of each."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What a report is to show."""

    window: Window = field(default_factory=Window)
    by: Sequence[str] = ()
    """Names of `GROUPS`; by scorer, its version and agent in any case."""
    against: str | None = None
    """`previous` compares with the window before, of its length; any other text with that agent version."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Columns of slices and the value that each must have."""
    worst: int = 3
    """How many of the worst runs of each slice to list."""
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Change:
    """A difference to another window or version, in units of the score."""

    against: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReport:
    """One slice: its estimate, its counts, and its worst runs. Scores are in units of the scorer."""

    slice: Mapping[str, Any]
    """Its columns by name."""
    estimate: Estimate
    scale: float | None
    lower_is_better: bool
    counts: Mapping[str, int]
    reasons: Mapping[tuple[str, str], int]
    missing_share: float | None
    bounds: Interval | None
    """What the mean may be whatever the missing scores are."""
    stands_for: float
    """Sum of weights: about how many runs the sampled ones stand for."""
    sampled: int
    cost: float
    input_tokens: int
    output_tokens: int
    one_cluster: bool = False
    """Whether all scored runs are of one group of users or conversations, so that how much they resemble each
    other cannot be told."""
    change: Change | None = None
    worst: Sequence[RunOfSlice] = ()

    @property
    def warnings(self) -> Iterator[str]:
        """What is to be known before relying on the mean."""
        known, unknown = self.estimate, self.estimate.unknown
        if known.too_few:
            yield f"too few: {known.n_effective:.1f} effective runs of at least 10"
        if unknown:
            yield f"{unknown} scored runs of unknown probability are in no mean"
        if known.dominated and not known.too_few:
            yield "one run holds more than 5% of all weight"
        if known.few_clusters and known.n and not known.too_few:
            yield "few users or conversations: the interval holds in 90 to 93 of 100 cases"
        if self.one_cluster and not known.too_few:
            yield "all runs are of one user, or of one conversation: what holds for others cannot be told"
        if known.approximate:
            yield "no scale: the interval is approximate"


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """What is known of the runs of a window."""

    source: str
    window: Window
    recorded: tuple[int, int] | None
    """From when to when there is anything on record, in seconds."""
    slices: Sequence[SliceReport]
    picks: Mapping[str, Picks] = field(default_factory=dict)
    """What each rule picked, for the sampler check; without rules whose processes do not tell."""


def make_report(database: Database, options: ReportOptions) -> ScoreReport:
    """ScoreReport on a store.

    Raises:
        ConfigError: an option is wrong.
        StoreError: the store cannot be read.
    """
    by = _columns(options)
    with database.reading() as connection:
        recorded = time_range(connection)
        slices = stored_slices(connection, **options.only)
        found = measure(connection, slices, options.window, by)
        others = _others(connection, slices, options, by, found)
        rows = []
        for key in sorted(found, key=str):
            columns = dict(zip(by, key, strict=True))
            inside = {id: each for id, each in slices.items() if _is_in(each, columns)}
            effect = _design_effect(connection, inside, options.window)
            worst = worst_runs(
                connection,
                inside,
                options.window,
                options.worst,
                highest=found[key].lower_is_better,
                few=found[key].scored.n <= _FEW,
            )
            row = of_measured(columns, found[key], options.confidence, effect)
            rows.append(_with(row, others.get(key), options, worst))
        picks = picked_by_rules(connection, slices, options.window)
    return ScoreReport(database.name, options.window, recorded, rows, picks)


def of_measured(
    columns: Mapping[str, Any], measured: Measured, confidence: float = 0.95, inflation: float = 1.0
) -> SliceReport:
    """The report of one slice without its worst runs.

    Args:
        columns: of the slice.
        measured: what is known of it.
        confidence: as for `estimate`.
        inflation: as for `estimate`; used where there are no clusters.
    """
    scaled, unit = measured.scale is not None, measured.scale or 1.0
    clusters = measured.clusters if _clustered(measured) else None
    effect = 1.0 if clusters else inflation
    known = estimate(
        measured.scored, confidence=confidence, clusters=clusters, scaled=scaled, inflation=effect
    )
    lost = None
    if scaled:
        both = design_effect(measured.scored, clusters) if clusters else inflation
        lost = missing(measured.scored, measured.lost, confidence=confidence, inflation=min(both, 1e6))
    weight = measured.scored.w + measured.lost.w
    bounds = _around(lost.bounds, known.interval) if lost else None
    return SliceReport(
        slice=columns,
        estimate=known.in_units(unit),
        scale=measured.scale,
        lower_is_better=measured.lower_is_better,
        counts=measured.counts,
        reasons=measured.reasons,
        missing_share=measured.lost.w / weight if weight else None,
        bounds=Interval(unit * bounds.low, unit * bounds.high) if bounds else None,
        stands_for=measured.sampled.w,
        sampled=sum(measured.counts.values()),
        cost=measured.cost,
        input_tokens=measured.input_tokens,
        output_tokens=measured.output_tokens,
        one_cluster=clusters is not None and clusters.groups == 1,
    )


def _around(bounds: Interval | None, interval: Interval | None) -> Interval | None:
    """The bounds, at least as wide as the interval, to which clusters may have added."""
    if bounds is None or interval is None:
        return bounds
    return Interval(min(bounds.low, interval.low), max(bounds.high, interval.high))


def _clustered(measured: Measured) -> bool:
    """Whether clusters are known, and some run may share its own with another."""
    return measured.clusters is not None and measured.clusters.groups > 0 and measured.scored.n > 1


def _columns(options: ReportOptions) -> list[str]:
    for name in options.by:
        if name not in GROUPS:
            raise ConfigError("--by", f"{name!r} is none of {', '.join(GROUPS)}")
    wanted = [GROUPS[name] for name in options.by]
    if options.against not in (None, "previous"):
        wanted.append("agent_version")
    return list(dict.fromkeys([*_ALWAYS, *wanted]))


def _is_in(each: StoredSlice, columns: Mapping[str, Any]) -> bool:
    return all(each[name] == value for name, value in columns.items())


def _design_effect(connection: Connection, slices: Mapping[int, StoredSlice], window: Window) -> float:
    """For a window that is not of whole hours: the design effect of the hours around it."""
    if window.hours:
        return 1.0
    since = None if window.since is None else window.since // HOUR * HOUR
    until = None if window.until is None else -(-window.until // HOUR) * HOUR
    around = measure(connection, slices, Window(since, until), ()).get(())
    if around is None or around.clusters is None or around.clusters.groups < 2:
        return 1.0
    return design_effect(around.scored, around.clusters)


def _others(
    connection: Connection,
    slices: Mapping[int, StoredSlice],
    options: ReportOptions,
    by: Sequence[str],
    found: Mapping[tuple[Any, ...], Measured],
) -> dict[tuple[Any, ...], SliceReport]:
    """What each slice is compared with."""
    if options.against is None:
        return {}
    if options.against != "previous":
        at = by.index("agent_version")
        pairs = {key: (*key[:at], options.against, *key[at + 1 :]) for key in found}
        pairs = {key: other for key, other in pairs.items() if other in found and other != key}
        if found and not any(key[at] == options.against for key in found):
            raise ConfigError("--against", f"no run of agent version {options.against!r} is on record")
        return {key: of_measured({}, found[other], options.confidence) for key, other in pairs.items()}
    since, until = options.window.since, options.window.until
    if since is None:
        raise ConfigError("--against", "previous needs a window with a beginning: give --since or --window")
    recorded = time_range(connection)
    end = until if until is not None else max(recorded[1] if recorded else since, since)
    length = max(-(-(end - since) // HOUR) * HOUR if options.window.hours else end - since, 60)
    before = measure(connection, slices, Window(since - length, since), by)
    return {key: of_measured({}, each, options.confidence) for key, each in before.items()}


def _with(
    row: SliceReport, other: SliceReport | None, options: ReportOptions, worst: Sequence[RunOfSlice]
) -> SliceReport:
    change = None
    if other is not None and (found := difference(other.estimate, row.estimate)):
        against = "previous" if options.against == "previous" else f"version {options.against}"
        change = Change(against, found.mean, found.interval.low, found.interval.high)
    return replace(row, change=change, worst=worst)
