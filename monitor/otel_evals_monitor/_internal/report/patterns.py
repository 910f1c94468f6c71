"""Failure patterns: the failing runs of some slices, grouped by cause."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from otel_evals.statistics import Estimate, Sums, difference, estimate
from otel_evals_monitor._internal.report.failure_text import TextGroup, failure_text, group_texts, name_of
from otel_evals_monitor._internal.report.runs import RunOfSlice, content_of, run_rows
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import rows_of_query
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.queries import Measured, Slices, time_range, together
from otel_evals_monitor._internal.store.rows import Row

_READ = 2_000
_PASSING = 200
_SELDOM = 0.1
_PRIME, _FACTOR = 65_521, 48_271


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePattern:
    """Failing runs with the same thing wrong."""

    name: str
    """What is wrong, in one line."""
    runs: int
    """Number of failing runs; estimated if not all were read."""
    share: Estimate
    """Weighted share of all scored runs."""
    trend: str
    """`new`, `rising` or `falling` if the second half of the time differs beyond chance from the first, else
    `steady`."""
    first_seen: int
    """Time of the earliest failure on record, also before the window; seconds since the Unix epoch."""
    example: RunOfSlice
    """The worst run, the newest of equals."""
    evaluation_ids: Sequence[str]
    """The evaluations that were read, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The failing runs of some slices."""

    limit: float | None = None
    """Scores below it fail, or above it if low scores are good; None without a scale or scores."""
    runs: int = 0
    """Number of failing runs."""
    read: int = 0
    """Number of failing runs that were read and grouped: a random sample if they are fewer."""
    patterns: Sequence[FailurePattern] = ()
    """The largest shares first."""
    others: int = 0
    """Number of runs, of those read, that are like no other or in further patterns."""

    def shared(self, runs: Sequence[RunOfSlice]) -> list[tuple[RunOfSlice, str, int]]:
        """Return runs, those of a pattern as one with the pattern's name and the number of its runs."""
        names = {id: each.name for each in self.patterns for id in each.evaluation_ids}
        found: dict[str, tuple[RunOfSlice, str, int]] = {}
        for run in runs:
            name = names.get(run.evaluation_id, "")
            key = name or run.evaluation_id
            first, _, count = found.get(key, (run, name, 0))
            found[key] = (first, name, count + 1)
        return list(found.values())


def failures_of(
    connection: Connection,
    slices: Slices,
    window: Window,
    most: int = 10,
    representative: bool = True,
) -> Failures:
    """Return the failure patterns of the slices of a scorer, taken together.

    A run fails if its score is not the best one; if less than a tenth of the scores are, it fails in the
    worse half of the scale. Up to about 2,000 failing runs are read. Shares have no interval if the sample
    is not `representative`.
    """
    whole = together(connection, slices, window)
    recorded = time_range(connection)
    if whole.scale is None or recorded is None or not whole.counts["scored"]:
        return Failures()
    limit = _limit(connection, slices, window, whole)
    x = schema.evaluations.c.x
    fails = x > limit if whole.lower_is_better else x < limit
    runs, rows = _read(connection, slices, window, fails)
    passing = _of(select(schema.evaluations.c.explanation), slices, window).where(~fails).limit(_PASSING)
    usual = [text or "" for text in connection.execute(passing).scalars()]
    grouped = _grouped(rows, usual)
    effect = together(connection, slices, window.whole_hours).design_effect
    shares = _Shares(whole, effect, runs / max(len(rows), 1), representative)
    start, end = window.ends(recorded)
    # Windows consist of whole minutes.
    middle = (max(start, recorded[0]) + min(end, recorded[1])) // 120 * 60
    halves = (
        replace(shares, measured=together(connection, slices, Window(window.since, middle))),
        replace(shares, measured=together(connection, slices, Window(middle, window.until))),
    )
    # One level for all groups (Bonferroni), since their trends are tested at the same time.
    confidence, worst = 1.0 - 0.05 / max(len(grouped), 1), max if whole.lower_is_better else min
    first = _first_seen(connection, slices, window, fails, grouped)
    patterns = [
        FailurePattern(
            name=name_of(group, [row["text"] for row in found]) or str(found[0]["explanation"]),
            runs=round(len(found) * shares.each),
            share=shares.share(found),
            trend=_trend(halves, found, middle, first[group], confidence),
            first_seen=first[group] // schema.NANO,
            example=run_rows(connection, slices, [worst(found, key=itemgetter("x"))])[0],
            evaluation_ids=tuple(row["evaluation_id"] for row in found),
        )
        for group, found in sorted(grouped.items(), key=lambda each: -_weight(each[1]))[:most]
    ]
    return Failures(
        limit=limit * whole.scale,
        runs=runs,
        read=len(rows),
        patterns=tuple(patterns),
        others=len(rows) - sum(len(each.evaluation_ids) for each in patterns),
    )


def _limit(connection: Connection, slices: Slices, window: Window, whole: Measured) -> float:
    best = 0.0 if whole.lower_is_better else 1.0
    enough = math.ceil(_SELDOM * whole.counts["scored"])
    perfect = _of(select(schema.evaluations.c.id), slices, window).where(schema.evaluations.c.x == best)
    # Stops at enough rows instead of counting all.
    some = select(func.count()).select_from(perfect.limit(enough).subquery())
    return best if connection.execute(some).scalar_one() >= enough else 0.5


def _of(query: Select[Any], slices: Slices, window: Window) -> Select[Any]:
    """Limit a query to the scored evaluations of slices in a window; uses columns of one index only."""
    table = schema.evaluations.c
    query = query.where(table.slice_id.in_(list(slices)), table.x.is_not(None))
    return window.of(query, table.time, schema.NANO)


def _read(
    connection: Connection, slices: Slices, window: Window, fails: ColumnElement[bool]
) -> tuple[int, list[Row]]:
    """Return the number of failing runs, and a random sample of them with their texts, newest first."""
    table, runs = schema.evaluations, schema.runs.c
    count = connection.execute(_of(select(func.count()), slices, window).where(fails)).scalar_one()
    joined = select(table, runs.content, runs.error_type).join(schema.runs, runs.key == table.c.run_key)
    # A scorer's ids may be multiples of the number of scorers; a hash is not.
    hashed = table.c.id * _FACTOR % _PRIME
    query = _of(joined, slices, window).where(fails, hashed < _PRIME * _READ // max(count, _READ))
    rows = rows_of_query(connection, query.order_by(table.c.time.desc()))
    for row in rows:
        said = row["explanation"] or (f"labelled {row['label']}" if row["label"] else None)
        row["text"] = failure_text(said, content_of(row.pop("content")), row["error_type"])
    return count, rows


def _grouped(rows: Sequence[Row], passing: Sequence[str]) -> dict[TextGroup, list[Row]]:
    found: dict[TextGroup, list[Row]] = {}
    for row, group in zip(rows, group_texts([row["text"] for row in rows], passing), strict=True):
        if group is not None:
            found.setdefault(group, []).append(row)
    return found


def _first_seen(
    connection: Connection,
    slices: Slices,
    window: Window,
    fails: ColumnElement[bool],
    grouped: Mapping[TextGroup, Sequence[Row]],
) -> dict[TextGroup, int]:
    """Return the time of the earliest run of each group, also before the window."""
    first = {group: rows[-1]["time"] for group, rows in grouped.items()}
    if window.since is not None:
        groups = {row["text"]: group for group, rows in grouped.items() for row in rows}
        for row in _read(connection, slices, Window(None, window.since), fails)[1]:
            if (group := groups.get(row["text"])) is not None:
                first[group] = min(first[group], row["time"])
    return first


@dataclass(frozen=True, slots=True)
class _Shares:
    """Weighted shares of groups of failing runs, of all scored runs."""

    measured: Measured
    effect: float
    """Design effect."""
    each: float
    """Number of failing runs that each row stands for."""
    representative: bool

    def share(self, rows: Sequence[Row], confidence: float = 0.95) -> Estimate:
        weights = [row["weight"] for row in rows if row["weight"] is not None]
        w, ww = sum(weights), sum(weight * weight for weight in weights)
        scored = self.measured.scored
        sums = Sums(
            n=max(round(scored.n / self.each), len(weights)),
            # A sample may have more than its share of heavy failures, but they never exceed all runs.
            w=max(scored.w / self.each, w),
            ww=max(scored.ww / self.each, ww),
            **dict.fromkeys(("wx", "wxx"), w),
            **dict.fromkeys(("wwx", "wwxx"), ww),
            w_max=scored.w_max,
        )
        found = estimate(sums, inflation=self.effect, confidence=confidence)
        return found if self.representative else replace(found, interval=None)


def _trend(
    halves: tuple[_Shares, _Shares], rows: Sequence[Row], middle: int, first_seen: int, confidence: float
) -> str:
    """Return how the share of some rows changed from the first half of the time to the second."""
    at = middle * schema.NANO
    before = halves[0].share([row for row in rows if row["time"] < at], confidence)
    after = halves[1].share([row for row in rows if row["time"] >= at], confidence)
    change = difference(before, after)
    if change is None or 0.0 in change.interval:
        return "steady"
    if change.mean < 0.0:
        return "falling"
    return "new" if first_seen >= at else "rising"


def _weight(rows: Sequence[Row]) -> float:
    return sum(row["weight"] or 0.0 for row in rows)
