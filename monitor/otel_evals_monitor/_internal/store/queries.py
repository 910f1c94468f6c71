"""Queries for the sums of slices in the results store."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Select,
    case,
    cast,
    func,
    select,
)

from otel_evals.statistics import Clusters, Sums, Tally, design_effect
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import rows_of_query
from otel_evals_monitor._internal.store.filters import EVERY, SEARCHED, RunFilter, Window
from otel_evals_monitor._internal.store.schema import COUNTED, HOUR, MINUTE

_MANY = 500  # with more, the query lists no ids, and its callers skip the other slices
_AHEAD = 86_400
StoredSlice = Mapping[str, Any]
"""The columns of a slice by name."""
Slices = Mapping[int, StoredSlice]
"""By id."""


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
    """Of the scored runs; None if they are many and the window does not consist of whole hours."""
    scale: float | None = 1.0
    """Scores lie in 0..scale; None if every number is allowed."""
    lower_is_better: bool = False
    cost: float = 0.0
    """US dollars."""

    @property
    def design_effect(self) -> float:
        """Factor by which clusters inflate the variance of the mean; 1 if it is unknown."""
        return design_effect(self.scored, self.clusters) if self.clusters else 1.0

    def add(self, row: Any, columns: StoredSlice) -> None:
        """Add a row of sums of a slice with these columns."""
        tally = _tally(row)
        self.lower_is_better = columns["direction"] == "lower_is_better"
        self.scale = None if columns["scale"] is None else self.scale  # one slice without a scale is enough
        self.sampled += tally
        self.counts[row.status] += row.n + row.unknown
        if row.status == "scored":
            self.scored += _sums(row, tally)
        else:
            self.reasons[row.status, row.reason] += row.n + row.unknown
            if row.missing:
                self.lost += tally
        self.cost += row.cost


def stored_slices(connection: Connection, **wanted: str | bool | None) -> dict[int, StoredSlice]:
    """Return slices by id; `wanted` limits them to values of their columns, None to any value."""
    query = select(schema.slices)
    for name, value in wanted.items():
        if value is not None:
            query = query.where(schema.slices.c[name] == value)
    return {row["id"]: row for row in rows_of_query(connection, query)}


def values_on_record(slices: Slices, columns: Iterable[str]) -> str:
    """Return a sentence with the values that columns have, for a question that nothing matches."""
    parts = []
    for name in columns:
        values = sorted({str(each[name]) for each in slices.values() if each[name]})
        shown = ", ".join(values[:10]) + (", ..." if len(values) > 10 else "")
        parts.append(f"{name.removesuffix('_id').removesuffix('_name').replace('_', ' ')}: {shown or 'none'}")
    return "on record are " + "; ".join(parts)


def matching(slices: Slices, columns: Mapping[str, Any]) -> dict[int, StoredSlice]:
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


def first_seen(connection: Connection, slices: Slices, column: str) -> list[tuple[int, str]]:
    """Return the first hour of each value of a column, in seconds, the oldest first.

    Rollups stay when runs are deleted, so it remains known.
    """
    table = schema.rollups.c
    query = select(table.slice_id, func.min(table.bucket)).where(table.width == HOUR).group_by(table.slice_id)
    found: dict[str, int] = {}
    for id, start in connection.execute(_within(query, table, slices, Window())):
        if id in slices:
            value = slices[id][column]
            found[value] = min(found.get(value, start), start)
    return sorted((start, value) for value, start in found.items())


def measure(
    connection: Connection,
    slices: Slices,
    window: Window,
    by: Sequence[str],
    runs: RunFilter = EVERY,
) -> dict[tuple[Any, ...], Measured]:
    """Return the sums of each group of slices in a window; `by` names the columns that define a group.

    `attribute` in `by` is the value of the filter's attribute.
    """
    found = {key: steps[0] for key, steps in series(connection, slices, window, 0, by, runs).items()}
    few = sum(each.scored.n for each in found.values()) <= SEARCHED  # exact clusters, but slow
    tables = [runs.rollups(slices, window)] if few or runs else []
    tables += [schema.clusters] if window.hours and not runs else []
    for table in tables:
        groups = _clusters(connection, slices, window, by, table)
        for key, measured in found.items():
            clusters = groups.get(key)
            # The runs of old rollups are deleted. Sums differ, too, after a weight was removed that was so
            # large that the others were lost in rounding.
            if clusters and math.isclose(sum(clusters.w), measured.scored.w, rel_tol=1e-6):
                measured.clusters = measured.clusters or clusters  # the exact ones are first
    return found


def together(connection: Connection, slices: Slices, window: Window) -> Measured:
    """Return the sums of slices taken together."""
    return measure(connection, slices, window, ()).get((), Measured())


def series(
    connection: Connection,
    slices: Slices,
    window: Window,
    step: int,
    by: Sequence[str] = (),
    runs: RunFilter = EVERY,
) -> dict[tuple[Any, ...], dict[int, Measured]]:
    """Return the sums of each time step, by group and start of the step.

    `step` is in seconds, a multiple of a minute, or 0 for the whole window; `by` is as for `measure`.
    """
    width = HOUR if step % HOUR == 0 and window.hours else MINUTE  # hours for a step of 0 too
    table = (runs.rollups(slices, window) if runs else schema.rollups).c
    start = table.bucket - table.bucket % step if step else table.slice_id * 0
    keys = [table.slice_id, table.status, table.reason, start.label("start")]
    keys += [table.attribute] if runs else []
    query = select(
        *keys,
        func.max(cast(table.missing, Integer)).label("missing"),
        func.max(table.w_max).label("w_max"),
        func.min(table.x_min).label("x_min"),
        func.max(table.x_max).label("x_max"),
        # PostgreSQL's sum of integers is a decimal.
        *(cast(func.sum(table[name]), table[name].type).label(name) for name in COUNTED),
    ).group_by(*keys)
    query = query if runs else query.where(table.width == width)
    found: dict[tuple[Any, ...], dict[int, Measured]] = {}
    for row in connection.execute(_within(query, table, slices, window)):
        columns = slices.get(row.slice_id)
        if columns is not None and row.n + row.unknown > 0:  # not if all its runs were removed
            steps = found.setdefault(_key(by, columns, row), {})
            steps.setdefault(row.start, Measured(scale=columns["scale"])).add(row, columns)
    return found


def _key(by: Sequence[str], columns: StoredSlice, row: Any) -> tuple[Any, ...]:
    return tuple(str(row.attribute) if name == "attribute" else columns[name] for name in by)


def _within(query: Select[Any], table: Any, slices: Iterable[int], window: Window) -> Select[Any]:
    query, ids = window.of(query, table.bucket), list(slices)
    return query.where(table.slice_id.in_(ids)) if len(ids) <= _MANY else query


def _clusters(
    connection: Connection, slices: Slices, window: Window, by: Sequence[str], source: Any
) -> dict[Any, Clusters]:
    """Return the users or conversations of each group; counted if the source has single runs."""
    table = source.c
    single = "status" in table
    columns = [table.slice_id, table.cluster, *([table.attribute] if single else [])]
    query = select(*columns, func.sum(table.w).label("w"), func.sum(table.wx).label("wx")).group_by(*columns)
    query = query.where(table.status == "scored") if single else query
    kin: dict[Any, dict[int, tuple[float, float]]] = {}
    for row in connection.execute(_within(query, table, slices, window)):
        if (found := slices.get(row.slice_id)) is not None:
            into = kin.setdefault(_key(by, found, row), {})
            w, wx = into.get(row.cluster, (0.0, 0.0))
            into[row.cluster] = w + max(0.0, row.w), wx + row.wx  # below zero by rounding, after removals
    return {key: Clusters.of_sums(sums, counted=single) for key, sums in kin.items()}


def _tally(row: Any) -> Tally:
    """Return the weights of a row, within the range that its runs allow.

    Scores that were removed, by revisions or because they were forgotten, leave rounding errors. They are as
    large as the other sums if the removed weight was more than a hundred million times theirs.
    """
    n = row.n
    if not n:
        return Tally(w_max=row.w_max, unknown=row.unknown)
    w = max(row.w, float(n))  # no weight is below 1
    ww = min(max(row.ww, w * w / n), w * w)
    return Tally(n=n, w=w, ww=ww, w_max=row.w_max, unknown=row.unknown)


def _sums(row: Any, tally: Tally) -> Sums:
    """Return the sums of a row, clamped to what its weights and values allow."""
    if not tally.n:
        return Sums(unknown=tally.unknown)
    w, ww, low, high = tally.w, tally.ww, row.x_min, row.x_max
    wx, wwx = (min(max(each, low * of), high * of) for each, of in ((row.wx, w), (row.wwx, ww)))
    # By Cauchy and Schwarz, no sum of squares is smaller.
    products = {"wx": wx, "wxx": max(row.wxx, wx * wx / w), "wwx": wwx, "wwxx": max(row.wwxx, wwx * wwx / ww)}
    ends = {"w_max": row.w_max, "x_min": low, "x_max": high}
    return Sums(n=tally.n, w=w, ww=ww, **products, **ends, unknown=tally.unknown)
