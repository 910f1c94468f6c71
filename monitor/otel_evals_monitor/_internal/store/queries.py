"""Reads sums and runs from the results store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Integer, Select, cast, func, select

from otel_evals.statistics import CLUSTER_GROUPS, Clusters, Sums, Tally
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.schema import HOUR, MINUTE

_NUMBERS = ("n", "unknown", "w", "wx", "wxx", "ww", "wwx", "wwxx", "cost", "input_tokens", "output_tokens")
_MANY = 500


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time, by when outcomes were known: from `since` up to, not including, `until`.

    Seconds since the Unix epoch, whole minutes; None leaves that side open.
    """

    since: int | None = None
    until: int | None = None

    @property
    def hours(self) -> bool:
        """Whether it begins and ends with an hour."""
        return all(each is None or each % HOUR == 0 for each in (self.since, self.until))


StoredSlice = Mapping[str, Any]
"""The columns of a slice by name."""


@dataclass
class Measured:
    """What is known of the runs of some slices in a window of time."""

    scored: Sums = field(default_factory=Sums)
    lost: Tally = field(default_factory=Tally)
    """Runs that should have a score, and have none."""
    sampled: Tally = field(default_factory=Tally)
    """All sampled runs."""
    counts: Counter[str] = field(default_factory=Counter)
    """Runs by status, those of unknown probability included."""
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Runs without a score, by status and reason."""
    clusters: Clusters | None = None
    """Of the scored runs; None where the window is not of whole hours."""
    scale: float | None = 1.0
    """Scores lie in 0..scale; None where every number is allowed."""
    lower_is_better: bool = False
    cost: float = 0.0
    """US dollars."""
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, row: Any) -> None:
        """Add a row of sums."""
        tally = Tally(n=row.n, w=row.w, ww=row.ww, w_max=row.w_max, unknown=row.unknown)
        self.sampled += tally
        self.counts[row.status] += row.n + row.unknown
        if row.status == "scored":
            self.scored += _sums(row)
        else:
            self.reasons[row.status, row.reason] += row.n + row.unknown
            if row.missing:
                self.lost += tally
        self.cost += row.cost
        self.input_tokens += row.input_tokens
        self.output_tokens += row.output_tokens


def stored_slices(connection: Connection, **wanted: str | None) -> dict[int, StoredSlice]:
    """All slices by id, or those whose columns have these values; None stands for any value."""
    query = select(schema.slices)
    for name, value in wanted.items():
        if value is not None:
            query = query.where(schema.slices.c[name] == value)
    return {row["id"]: dict(row) for row in connection.execute(query).mappings()}


def time_range(connection: Connection) -> tuple[int, int] | None:
    """Start of the first and end of the last minute that has a rollup, in seconds; None in an empty store."""
    bucket = schema.rollups.c.bucket
    query = select(func.min(bucket), func.max(bucket)).where(schema.rollups.c.width == MINUTE)
    first, last = connection.execute(query).one()
    return None if first is None else (first, last + MINUTE)


def measure(
    connection: Connection, slices: Mapping[int, StoredSlice], window: Window, by: Sequence[str]
) -> dict[tuple[Any, ...], Measured]:
    """What is known of each group of slices in a window.

    Args:
        connection: from `Database.reading`.
        slices: which ones, by id.
        window: when.
        by: the columns of slices that make a group.
    """
    groups = {key: tuple(columns[name] for name in by) for key, columns in slices.items()}
    found: dict[tuple[Any, ...], Measured] = {}
    for row in connection.execute(_query(slices, window, HOUR if window.hours else MINUTE)):
        if row.slice_id in groups:
            _add(found, groups[row.slice_id], slices[row.slice_id], row)
    if window.hours:
        for group, clusters in _clusters(connection, groups, slices, window).items():
            if group in found:
                found[group].clusters = clusters
    return found


def series(
    connection: Connection,
    slices: Mapping[int, StoredSlice],
    window: Window,
    step: int,
    by: Sequence[str] = (),
) -> dict[tuple[Any, ...], dict[int, Measured]]:
    """What is known in each step of time, by group and start of the step.

    Args:
        connection: from `Database.reading`.
        slices: which ones, by id.
        window: when.
        step: seconds; a multiple of a minute.
        by: the columns of slices that make a group; none puts all into one.
    """
    width = HOUR if step % HOUR == 0 and window.hours else MINUTE
    bucket = schema.rollups.c.bucket
    start = (bucket - bucket % step).label("start")
    found: dict[tuple[Any, ...], dict[int, Measured]] = {}
    for row in connection.execute(_query(slices, window, width, start)):
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


def _query(slices: Iterable[int], window: Window, width: int, start: Any = None) -> Select[Any]:
    table = schema.rollups.c
    keys = [table.slice_id, table.status, table.reason, *([] if start is None else [start])]
    query = (
        select(
            *keys,
            func.max(cast(table.missing, Integer)).label("missing"),
            func.max(table.w_max).label("w_max"),
            func.min(table.x_min).label("x_min"),
            func.max(table.x_max).label("x_max"),
            # PostgreSQL's sum of whole numbers is a decimal.
            *(cast(func.sum(table[name]), table[name].type).label(name) for name in _NUMBERS),
        )
        .where(table.width == width)
        .group_by(*keys)
    )
    return _within(query, table, slices, window)


def _within(query: Select[Any], table: Any, slices: Iterable[int], window: Window) -> Select[Any]:
    if window.since is not None:
        query = query.where(table.bucket >= window.since)
    if window.until is not None:
        query = query.where(table.bucket < window.until)
    ids = list(slices)
    return query.where(table.slice_id.in_(ids)) if len(ids) <= _MANY else query


def _clusters(
    connection: Connection, groups: Mapping[int, Any], slices: Iterable[int], window: Window
) -> dict[Any, Clusters]:
    table = schema.clusters.c
    columns = (table.slice_id, table.cluster)
    query = select(*columns, func.sum(table.w).label("w"), func.sum(table.wx).label("wx")).group_by(*columns)
    sums: dict[Any, tuple[list[float], list[float]]] = {}
    for row in connection.execute(_within(query, table, slices, window)):
        if row.slice_id in groups:
            zeros = [0.0] * CLUSTER_GROUPS
            wx, w = sums.setdefault(groups[row.slice_id], (zeros, [*zeros]))
            wx[row.cluster] += row.wx
            w[row.cluster] += max(0.0, row.w)
    return {group: Clusters(tuple(wx), tuple(w)) for group, (wx, w) in sums.items()}


def _sums(row: Any) -> Sums:
    """Sums of a row; what rounding left after a revision took a score back is put right."""
    whole = Sums(
        n=row.n,
        w=max(0.0, row.w),
        wx=row.wx,
        wxx=max(0.0, row.wxx),
        ww=max(0.0, row.ww) if row.w > 0.0 else 0.0,
        wwx=row.wwx,
        wwxx=max(0.0, row.wwxx),
        w_max=row.w_max,
        x_min=row.x_min,
        x_max=row.x_max,
        unknown=row.unknown,
    )
    return whole if row.n else Sums(unknown=row.unknown)
