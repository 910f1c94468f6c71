"""Queries for the sums of slices in the results store."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Integer,
    Select,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Sums, Tally, design_effect
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import rows_of_query
from otel_evals_monitor._internal.store.schema import COUNTED, HOUR, MINUTE

_MANY = 500
_AHEAD = 86_400
SEARCHED = 20_000
"""Number of runs that a filter of single runs considers, the newest ones."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time window of outcomes: from `since` up to, not including, `until`.

    Both are whole minutes in seconds since the Unix epoch; None leaves that side open.
    """

    since: int | None = None
    until: int | None = None

    @property
    def hours(self) -> bool:
        """True if the window begins and ends on the hour."""
        return all(each is None or each % HOUR == 0 for each in (self.since, self.until))

    def of(self, query: Select[Any], column: Any, unit: int = 1) -> Select[Any]:
        """Limit a query to this window; the column has `unit` ticks per second."""
        if self.since is not None:
            query = query.where(column >= self.since * unit)
        return query if self.until is None else query.where(column < self.until * unit)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on single runs, which the sums of slices cannot answer."""

    label: str = ""
    """Label of the score."""
    text: str = ""
    """Part of the messages, tool calls or reason; letters in either case."""

    def __bool__(self) -> bool:
        return bool(self.label or self.text)

    def conditions(self) -> list[ColumnElement[bool]]:
        table, runs = schema.evaluations.c, schema.runs.c
        found: list[ColumnElement[bool]] = [table.label == self.label] if self.label else []
        if self.text:
            # Content is JSON, where quotes and line breaks are escaped.
            written = json.dumps(self.text, ensure_ascii=False)[1:-1]
            theirs = select(runs.key).where(runs.content.icontains(written, autoescape=True))
            said = table.explanation.icontains(self.text, autoescape=True)
            found.append(or_(said, table.run_key.in_(theirs)))
        return found

    def among(self, slices: Iterable[int], window: Window) -> Select[Any]:
        """Return the ids of the newest evaluations that the filter considers."""
        table = schema.evaluations.c
        query = select(table.id).where(table.slice_id.in_(list(slices)))
        return window.of(query, table.time, schema.NANO).order_by(table.time.desc()).limit(SEARCHED)

    def rollups(self, slices: Iterable[int], window: Window) -> Any:
        """Return the matching runs in the form of rollups, each run as one row."""
        table = schema.evaluations.c
        known = case((table.weight.is_(None), 0), else_=1)
        w, x = func.coalesce(table.weight, 0.0), func.coalesce(table.x, 0.0)
        sums = {"w": w, "wx": w * x, "wxx": w * x * x, "ww": w * w, "wwx": w * w * x, "wwxx": w * w * x * x}
        ends = case((table.weight.is_(None), None), else_=table.x)
        return (
            select(
                table.slice_id,
                table.status,
                table.reason,
                table.missing,
                table.cluster,
                cast(table.time // schema.NANO, BigInteger).label("bucket"),
                known.label("n"),
                (1 - known).label("unknown"),
                *(value.label(name) for name, value in sums.items()),
                w.label("w_max"),
                ends.label("x_min"),
                ends.label("x_max"),
                func.coalesce(table.cost, 0.0).label("cost"),
                table.input_tokens,
                table.output_tokens,
            )
            .where(table.id.in_(self.among(slices, window)), *self.conditions())
            .subquery()
        )


EVERY = RunFilter()
StoredSlice = Mapping[str, Any]
"""The columns of a slice by name."""


@dataclass
class Measured:
    """Sums over the runs of some slices in a time window."""

    scored: Sums = field(default_factory=Sums)
    lost: Tally = field(default_factory=Tally)
    """Runs that should have a score but have none."""
    sampled: Tally = field(default_factory=Tally)
    """All sampled runs."""
    counts: Counter[str] = field(default_factory=Counter)
    """Runs by status, including runs of unknown probability."""
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Runs without a score, by status and reason."""
    clusters: Clusters | None = None
    """Of the scored runs; None unless the window consists of whole hours."""
    scale: float | None = 1.0
    """Scores lie in 0..scale; None if every number is allowed."""
    lower_is_better: bool = False
    cost: float = 0.0
    """US dollars."""
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def design_effect(self) -> float:
        """Factor by which clusters inflate the variance of the mean; 1 if it is unknown."""
        if self.clusters is None or self.clusters.groups < 2:
            return 1.0
        effect = design_effect(self.scored, self.clusters)
        return effect if math.isfinite(effect) else 1.0

    def add(self, row: Any) -> None:
        tally = _tally(row)
        self.sampled += tally
        self.counts[row.status] += row.n + row.unknown
        if row.status == "scored":
            self.scored += _sums(row, tally)
        else:
            self.reasons[row.status, row.reason] += row.n + row.unknown
            if row.missing:
                self.lost += tally
        self.cost += row.cost
        self.input_tokens += row.input_tokens
        self.output_tokens += row.output_tokens


def stored_slices(connection: Connection, **wanted: str | None) -> dict[int, StoredSlice]:
    """Return slices by id; `wanted` limits them to values of their columns, None to any value."""
    query = select(schema.slices)
    for name, value in wanted.items():
        if value is not None:
            query = query.where(schema.slices.c[name] == value)
    return {row["id"]: row for row in rows_of_query(connection, query)}


def matching(slices: Mapping[int, StoredSlice], columns: Mapping[str, Any]) -> dict[int, StoredSlice]:
    return {id: each for id, each in slices.items() if all(each[n] == v for n, v in columns.items())}


def time_range(connection: Connection) -> tuple[int, int] | None:
    """Return start and end of the recorded time in seconds; None for an empty store.

    Records of clocks that are more than a day ahead count only if there are no others.
    """
    bucket = schema.rollups.c.bucket
    usual = func.max(case((bucket < int(time.time()) + _AHEAD, bucket)))
    query = select(func.min(bucket), func.coalesce(usual, func.max(bucket)))
    first, last = connection.execute(query.where(schema.rollups.c.width == MINUTE)).one()
    return None if first is None else (first, last + MINUTE)


def measure(
    connection: Connection,
    slices: Mapping[int, StoredSlice],
    window: Window,
    by: Sequence[str],
    runs: RunFilter = EVERY,
) -> dict[tuple[Any, ...], Measured]:
    """Return the sums of each group of slices in a window; `by` names the columns that define a group."""
    groups = {key: tuple(columns[name] for name in by) for key, columns in slices.items()}
    found: dict[tuple[Any, ...], Measured] = {}
    for row in connection.execute(_query(slices, window, HOUR if window.hours else MINUTE, runs=runs)):
        if row.slice_id in groups:
            _add(found, groups[row.slice_id], slices[row.slice_id], row)
    if window.hours or runs:
        for group, clusters in _clusters(connection, groups, slices, window, runs).items():
            # They differ after a weight was removed that was so large that the others were lost in rounding.
            if group in found and math.isclose(sum(clusters.w), found[group].scored.w, rel_tol=1e-6):
                found[group].clusters = clusters
    return found


def design_effect_around(connection: Connection, slices: Mapping[int, StoredSlice], window: Window) -> float:
    """Return the design effect of the whole hours around a window; 1 if it is unknown."""
    since = None if window.since is None else window.since // HOUR * HOUR
    until = None if window.until is None else -(-window.until // HOUR) * HOUR
    around = measure(connection, slices, Window(since, until), ()).get(())
    return around.design_effect if around else 1.0


def series(
    connection: Connection,
    slices: Mapping[int, StoredSlice],
    window: Window,
    step: int,
    by: Sequence[str] = (),
    runs: RunFilter = EVERY,
) -> dict[tuple[Any, ...], dict[int, Measured]]:
    """Return the sums of each time step, by group and start of the step.

    `step` is in seconds, a multiple of a minute; `by` names the columns that define a group.
    """
    width = HOUR if step % HOUR == 0 and window.hours else MINUTE
    found: dict[tuple[Any, ...], dict[int, Measured]] = {}
    for row in connection.execute(_query(slices, window, width, step, runs)):
        if row.slice_id in slices:
            columns = slices[row.slice_id]
            into = found.setdefault(tuple(columns[name] for name in by), {})
            _add(into, row.start, columns, row)
    return found


def _add(found: dict[Any, Measured], key: Any, columns: StoredSlice, row: Any) -> None:
    into = found.get(key)
    if into is None:
        into = found[key] = Measured(scale=columns["scale"])
        into.lower_is_better = columns["direction"] == "lower_is_better"
    if columns["scale"] is None:
        into.scale = None
    into.add(row)


def _query(
    slices: Iterable[int], window: Window, width: int, step: int | None = None, runs: RunFilter = EVERY
) -> Select[Any]:
    table = runs.rollups(slices, window).c if runs else schema.rollups.c
    keys = [table.slice_id, table.status, table.reason]
    if step is not None:
        keys.append((table.bucket - table.bucket % step).label("start"))
    query = (
        select(
            *keys,
            func.max(cast(table.missing, Integer)).label("missing"),
            func.max(table.w_max).label("w_max"),
            func.min(table.x_min).label("x_min"),
            func.max(table.x_max).label("x_max"),
            # PostgreSQL's sum of integers is a decimal.
            *(cast(func.sum(table[name]), table[name].type).label(name) for name in COUNTED),
        )
        .where(literal(True) if runs else table.width == width)
        .group_by(*keys)
    )
    return _within(query, table, slices, window)


def _within(query: Select[Any], table: Any, slices: Iterable[int], window: Window) -> Select[Any]:
    query, ids = window.of(query, table.bucket), list(slices)
    return query.where(table.slice_id.in_(ids)) if len(ids) <= _MANY else query


def _clusters(
    connection: Connection,
    groups: Mapping[int, Any],
    slices: Iterable[int],
    window: Window,
    runs: RunFilter = EVERY,
) -> dict[Any, Clusters]:
    table = runs.rollups(slices, window).c if runs else schema.clusters.c
    columns = (table.slice_id, table.cluster)
    query = select(*columns, func.sum(table.w).label("w"), func.sum(table.wx).label("wx")).group_by(*columns)
    sums: dict[Any, tuple[list[float], list[float]]] = {}
    query = query.where(table.status == "scored") if runs else query
    for row in connection.execute(_within(query, table, slices, window)):
        if row.slice_id in groups:
            zeros = [0.0] * CLUSTER_GROUPS
            wx, w = sums.setdefault(groups[row.slice_id], (zeros, [*zeros]))
            wx[row.cluster] += row.wx
            w[row.cluster] += max(0.0, row.w)
    return {group: Clusters(tuple(wx), tuple(w)) for group, (wx, w) in sums.items()}


def _tally(row: Any) -> Tally:
    """Return the weights of a row, within the range that its runs allow.

    Scores that were removed, by revisions or because they were forgotten, leave rounding errors. They are as
    large as the other sums if the removed weight was more than a hundred million times theirs.
    """
    n = row.n
    w = max(row.w, float(n)) if n else 0.0  # no weight is below 1
    ww = min(max(row.ww, w * w / n), w * w) if n else 0.0
    return Tally(n=n, w=w, ww=ww, w_max=row.w_max, unknown=row.unknown)


def _sums(row: Any, tally: Tally) -> Sums:
    """Return the sums of a row, clamped to what its weights and values allow."""
    if not tally.n:
        return Sums(unknown=tally.unknown)
    w, ww, low, high = tally.w, tally.ww, row.x_min, row.x_max
    wx, wwx = (min(max(each, low * of), high * of) for each, of in ((row.wx, w), (row.wwx, ww)))
    products = {"wx": wx, "wxx": max(row.wxx, wx * wx / w), "wwx": wwx, "wwxx": max(row.wwxx, wwx * wwx / ww)}
    ends = {"w_max": row.w_max, "x_min": low, "x_max": high}
    return Sums(n=tally.n, w=w, ww=ww, **products, **ends, unknown=tally.unknown)
