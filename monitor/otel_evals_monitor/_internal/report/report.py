"""Report with the weighted mean of every scorer, its interval, missing scores, changes and worst runs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from otel_evals.errors import ConfigError
from otel_evals.sampling import parse
from otel_evals.statistics import (
    Estimate,
    Interval,
    Picks,
    Tally,
    design_effect,
    difference,
    estimate,
    missing,
)
from otel_evals_monitor._internal.report.patterns import Failures, failures_of
from otel_evals_monitor._internal.report.runs import RunOfSlice, runs_of_slices
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import (
    EVERY,
    Measured,
    RunFilter,
    StoredSlice,
    Window,
    design_effect_around,
    matching,
    measure,
    stored_slices,
    time_range,
)
from otel_evals_monitor._internal.store.schema import HOUR

_FEW = 20_000
_RULE_OF_THREE, _UNSEEN = 3.0, 0.1
_EVEN = 0.95
"""Effective share of runs above which weights count as equal."""
SURPRISING = 4.0
"""Standard deviations beyond which chance is unlikely."""
_COPIED = ("scale", "lower_is_better", "counts", "reasons", "cost", "input_tokens", "output_tokens")
_ALWAYS = ("scorer_id", "scorer_version", "agent_name")
GROUPS: Mapping[str, str] = {
    "agent": "agent_name",
    "version": "agent_version",
    "tenant": "tenant",
    "rule": "rule",
    "service": "service",
    "judge": "judge_model",
}
"""Names to split estimates by, with their columns."""


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    window: Window = field(default_factory=Window)
    by: Sequence[str] = ()
    """Names of `GROUPS`, in addition to scorer, scorer version and agent."""
    against: str | None = None
    """`previous` compares with the window before, of equal length; other texts are an agent version."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Required values of slice columns."""
    worst: int = 3
    """Number of worst runs to list per slice."""
    runs: RunFilter = EVERY
    """Only runs with this label or text."""
    patterns: int = 10
    """Number of failure patterns to find per slice; reading failing runs takes the longest."""


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
    input_tokens: int
    output_tokens: int
    representative: bool = True
    """False if the sampled runs stand for other runs than the rule decided on; there is no interval then."""
    clusters: float = math.inf
    """Effective number of users or conversations."""
    one_cluster: bool = False
    """True if all scored runs are of one group of users or conversations: their correlation is then
    unknown."""
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
        known, unknown = self.estimate, self.estimate.unknown
        if not self.representative:
            yield "not representative: runs that the rule seldom samples are missing from the sample"
        if known.too_few:
            yield f"too few runs for a mean: {int(known.n_effective)} effective ones, at least 10 needed"
        if unknown:
            yield f"{unknown} scored runs of unknown probability are in no mean"
        if known.dominated and not known.too_few and known.n_effective < _EVEN * known.n:
            yield "one run has more than 5% of all weight"
        if known.few_clusters and not self.one_cluster and not known.too_few:
            yield f"few users or conversations: intervals count them as {self.clusters:.0f} independent ones"
        if self.one_cluster and not known.too_few:
            yield "all runs are of one user or conversation: the mean of others is unknown"
        if known.approximate:
            yield "no scale: the interval is approximate"


@dataclass(frozen=True, slots=True)
class ScoreReport:
    source: str
    window: Window
    recorded: tuple[int, int] | None
    """Start and end of the recorded time, in seconds."""
    slices: Sequence[SliceReport]
    picks: Mapping[str, Picks] = field(default_factory=dict)
    """Picks by rule, for the sampler check; only rules whose processes record them."""


def make_report(database: Database, options: ReportOptions) -> ScoreReport:
    by = _columns(options)
    with database.reading() as connection:
        recorded = time_range(connection)
        slices = stored_slices(connection, **options.only)
        found = measure(connection, slices, options.window, by, options.runs)
        others = _others(connection, slices, options, by, found)
        lacking = unrepresentative(connection, slices, options.window)
        rows = []
        for key in sorted(found, key=str):
            columns = dict(zip(by, key, strict=True))
            inside = matching(slices, columns)
            effect = design_effect_around(connection, inside, options.window)
            few = found[key].scored.n <= _FEW
            worst = runs_of_slices(connection, inside, options.window, options.worst, order="worst", few=few)
            row = of_measured(columns, found[key], effect, lacking)
            change = _change(row, others.get(key), options.against)
            if options.patterns:
                most, trusted = options.patterns, row.representative
                found_failures = failures_of(
                    connection, inside, options.window, most=most, representative=trusted
                )
                row = replace(row, failures=found_failures)
            rows.append(replace(row, change=change, worst=worst))
        picks = picked_by_rules(connection, slices, options.window)
    return ScoreReport(database.name, options.window, recorded, rows, picks)


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
    clusters = measured.clusters if measured.scored.n > 1 else None  # one run shares a cluster with no other
    clusters = clusters if clusters and clusters.groups else None
    effect = 1.0 if clusters else inflation
    known = estimate(measured.scored, clusters=clusters, scaled=scaled, inflation=effect)
    lost = None
    if scaled:
        both = design_effect(measured.scored, clusters) if clusters else inflation
        lost = missing(measured.scored, measured.lost, inflation=min(both, 1e6))
    weight = measured.scored.w + measured.lost.w
    bounds = _around(lost.bounds, known.interval) if lost else None
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
        clusters=clusters.effective if clusters else math.inf,
        one_cluster=clusters is not None and clusters.groups == 1,
        design_effect=measured.design_effect if clusters else inflation,
    )


def _around(bounds: Interval | None, interval: Interval | None) -> Interval | None:
    """Return the bounds, at least as wide as the interval, which clusters may have widened."""
    if bounds is None or interval is None:
        return bounds
    return Interval(min(bounds.low, interval.low), max(bounds.high, interval.high))


def _columns(options: ReportOptions) -> list[str]:
    for name in options.by:
        if name not in GROUPS:
            raise ConfigError("--by", f"{name!r} is not one of {', '.join(GROUPS)}")
    wanted = [GROUPS[name] for name in options.by]
    if options.against not in (None, "previous"):
        wanted.append("agent_version")
    return list(dict.fromkeys([*_ALWAYS, *wanted]))


def _others(
    connection: Connection,
    slices: Mapping[int, StoredSlice],
    options: ReportOptions,
    by: Sequence[str],
    found: Mapping[tuple[Any, ...], Measured],
) -> dict[tuple[Any, ...], SliceReport]:
    if options.against is None:
        return {}
    if options.against != "previous":
        at = by.index("agent_version")
        pairs = {key: (*key[:at], options.against, *key[at + 1 :]) for key in found}
        pairs = {key: other for key, other in pairs.items() if other in found and other != key}
        if found and not any(key[at] == options.against for key in found):
            raise ConfigError("--against", f"no run of agent version {options.against!r} is on record")
        return {key: of_measured({}, found[other]) for key, other in pairs.items()}
    since, until = options.window.since, options.window.until
    if since is None:
        raise ConfigError("--against", "previous needs a window with a beginning: give --since or --window")
    recorded = time_range(connection)
    end = until if until is not None else max(recorded[1] if recorded else since, since)
    length = max(-(-(end - since) // HOUR) * HOUR if options.window.hours else end - since, 60)
    before = measure(connection, slices, Window(since - length, since), by, options.runs)
    lacking = unrepresentative(connection, slices, Window(since - length, since))
    agent = by.index("agent_name")
    return {
        key: of_measured({"agent_name": key[agent]}, each, lacking=lacking) for key, each in before.items()
    }


def _change(row: SliceReport, other: SliceReport | None, against: str | None) -> Change | None:
    found = other and difference(other.estimate, row.estimate)
    if not found:
        return None
    name = "previous" if against == "previous" else f"version {against}"
    return Change(name, found.mean, found.interval.low, found.interval.high)


def unrepresentative(connection: Connection, slices: Mapping[int, Any], window: Window) -> Collection[str]:
    """Return the agents of these slices whose sampled runs do not represent the runs of a rule."""
    rules = sorted({each["rule"] for each in slices.values()})
    found: set[str] = set()
    counted: set[tuple[str, str]] = set()
    for agent in {each["agent_name"] for each in slices.values()}:
        for rule, steps in picks_of(connection, window, rules=rules, agent=agent).items():
            counted.add((agent, rule))
            if not all(picks.representative for picks in steps.values()):
                found.add(agent)
    by = ("agent_name", "rule", "sampler")
    for (agent, rule, sampler), measured in measure(connection, slices, window, by).items():
        if (agent, rule) not in counted and _lacks_rare(sampler, measured.sampled):
            found.add(agent)
    return found


def _lacks_rare(sampler: str, sampled: Tally) -> bool:
    """Return True if no sampled run has a sampler's lowest probability, and many such runs may exist.

    Tells without the number of runs that the rule considered, which files do not have: if none of k runs was
    picked with probability p, k is below 3 / p in 95 of 100 cases.
    """
    floor = _floor_of(sampler)
    unseen = sampled.n > 0 and floor > 0.0 and sampled.w_max < 0.99 / floor
    return unseen and _RULE_OF_THREE / floor > _UNSEEN * sampled.w


@lru_cache(maxsize=1_000)
def _floor_of(sampler: str) -> float:
    """Return the lowest probability of a recorded sampler; 0 if it is unknown."""
    try:
        return parse(sampler).floor
    except ConfigError:
        return 0.0


def picked_by_rules(connection: Connection, slices: Mapping[int, Any], window: Window) -> dict[str, Picks]:
    """Return the picks of these slices' rules; only rules whose processes record them."""
    rules = sorted({each["rule"] for each in slices.values()})
    found = picks_of(connection, window, rules=rules)
    return {rule: picks for rule in rules for picks in found.get(rule, {}).values()}


def sampler_checks(connection: Connection, slices: Mapping[int, Any], window: Window) -> list[str]:
    """Return a sentence for each rule of these slices with recorded picks."""
    return [_sentence(*each) for each in picked_by_rules(connection, slices, window).items()]


def _sentence(rule: str, picks: Picks) -> str:
    text = f"Sampler check of {rule}: {picks.picked:,} of {picks.runs:,} runs were sampled"
    if picks.z is None:
        return f"{text}; no decision was random."
    verdict = "do not rely on the means" if abs(picks.z) > SURPRISING else "as expected"
    return f"{text}, {picks.expected:,.0f} expected (z = {picks.z:+.1f}): {verdict}."
