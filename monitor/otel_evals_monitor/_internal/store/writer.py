"""Writer of the results store: rows and rollups in one transaction, each evaluation once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import Connection, Dialect, Table, case, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from otel_evals.statistics import CLUSTER_GROUPS
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query
from otel_evals_monitor._internal.store.rows import RecordRows, Row, live_slice, rows_of
from otel_evals_monitor._internal.store.schema import COUNTED, HOUR, MINUTE

_T = TypeVar("_T")
_Rows = dict[tuple[Any, ...], Row]
_AT_ONCE = 500
_MOST_KNOWN = 20_000
_KEYS = ("width", "bucket", "slice_id", "status", "reason")
_CLUSTER_KEYS = ("bucket", "slice_id", "cluster")


@dataclass
class Written:
    runs: int = 0
    evaluations: int = 0
    """New evaluations and new revisions."""
    repeated: int = 0
    """Evaluations that were already stored."""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Invalid records, by problem."""


class ResultsStore:
    """Stores scored runs, their outcomes and rollups. Processes and threads may share a store."""

    def __init__(self, place: str | os.PathLike[str], *, create: bool = True, content: bool = True) -> None:
        """Open a store; `content` keeps messages, explanations and prompts."""
        self.database = Database(place, create=create)
        self._content = content
        self._known_slices: set[int] = set()

    def write(self, records: Iterable[Any]) -> Written:
        """Write records; count and skip invalid records. An error rolls back the last transaction."""
        written, batch = Written(), []
        for record in records:
            try:
                batch.append(rows_of(record, content=self._content))
            # A deeply nested record raises RecursionError while it is encoded.
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                written.unreadable[str(error)[:200]] += 1
            if len(batch) == _AT_ONCE:
                self._write(batch, written)
                batch = []
        if batch:
            self._write(batch, written)
        return written

    def close(self) -> None:
        self.database.close()

    def _write(self, batch: Sequence[RecordRows], written: Written) -> None:
        # Two revisions in one batch would both be counted in the rollups.
        rows = sorted((row for each in batch for row in each.evaluations), key=_version)
        newest = {row["evaluation_id"]: row for row in rows}
        slices = {key: columns for each in batch for key, columns in each.slices.items()}
        with self.database.writing() as connection:
            # Within the transaction, since other writers may store the same evaluations.
            old = _existing(connection, list(newest))
            # A later revision, or a run that was scored again later.
            fresh = [row for id, row in newest.items() if id not in old or _version(row) > _version(old[id])]
            replaced = [old[r["evaluation_id"]] for r in fresh if r["evaluation_id"] in old]
            for row in fresh:
                live, columns = live_slice(slices[row["slice_id"]])
                if live == old.get(row["evaluation_id"], row)["slice_id"]:
                    row["slice_id"] = live  # a backfill of a live run's score takes its place
                    slices[live] = columns
            unknown = [{"id": k, **slices[k]} for k in slices if k not in self._known_slices]
            runs = {each.run["key"]: each.run for each in batch}
            written_now = {id(row) for row in fresh}
            newer = {
                r.run["key"]: r.run for r in batch if any(id(row) in written_now for row in r.evaluations)
            }
            # A repeated record must not replace the content of a newer one.
            known = [run for key, run in runs.items() if key not in newer]
            upsert(connection, schema.slices, unknown, ("id",), _keep)
            upsert(connection, schema.runs, known, ("key",), _keep)
            upsert(connection, schema.runs, list(newer.values()), ("key",), _overwrite_run)
            upsert(connection, schema.evaluations, fresh, ("evaluation_id",), _overwrite_evaluation)
            # In the same transaction: a crash must not leave rows without their sums.
            change_rollups(connection, fresh, replaced)
            remove_runs(connection, _half_read(connection, [key for each in batch for key in each.parts]))
        if len(self._known_slices) > _MOST_KNOWN:  # anybody may make up agents: read the slices again
            self._known_slices.clear()
        self._known_slices.update(slices)
        written.runs += len(batch)
        written.evaluations += len(fresh)
        written.repeated += sum(len(each.evaluations) for each in batch) - len(fresh)


def change_rollups(connection: Connection, added: Sequence[Row], removed: Sequence[Row]) -> None:
    sums: _Rows = {}
    groups: _Rows = {}
    for rows, sign in ((added, 1), (removed, -1)):
        for row in rows:
            for width in (MINUTE, HOUR):
                _count(sums, width, row, sign)
            _count_cluster(groups, row, sign)
    upsert(connection, schema.rollups, [sums[key] for key in sorted(sums)], _KEYS, _added)
    grouped = [groups[key] for key in sorted(groups)]
    upsert(connection, schema.clusters, grouped, _CLUSTER_KEYS, _added_cluster)


def _half_read(connection: Connection, keys: Sequence[int]) -> list[int]:
    """Return the stored runs among these keys, without agents that are scored separately."""
    runs, found = schema.runs.c, list[int]()
    separate = select(schema.evaluations.c.run_key).select_from(schema.sliced)
    separate = separate.where(schema.slices.c.rule.like("%@agent"), schema.evaluations.c.run_key == runs.key)
    for some in _portions(keys):
        query = select(runs.key).where(runs.key.in_(some), ~separate.exists())
        found += connection.execute(query).scalars()
    return found


def _portions(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield values in portions, since SQLite limits the parameters of a statement."""
    return (values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE))


def remove_runs(connection: Connection, keys: Sequence[int], *, rollups: bool = True) -> int:
    """Delete runs by key, with all about them; return the number of evaluations."""
    return sum(_remove(connection, some, rollups) for some in _portions(keys))


def _remove(connection: Connection, keys: Sequence[int], rollups: bool) -> int:
    table, runs, feedback = schema.evaluations, schema.runs, schema.feedback
    traces = list(connection.execute(select(runs.c.trace_id).where(runs.c.key.in_(keys))).scalars())
    if not traces:
        return 0
    rows = rows_of_query(connection, select(table).where(table.c.run_key.in_(keys)))
    if rollups:
        change_rollups(connection, [], rows)
    ids = [row["evaluation_id"] for row in rows]
    for each in (schema.labels, table):
        connection.execute(delete(each).where(each.c.evaluation_id.in_(ids)))
    connection.execute(delete(runs).where(runs.c.key.in_(keys)))
    # Other runs of the trace may remain, and keep its feedback.
    gone = feedback.c.trace_id.in_(traces) & feedback.c.trace_id.not_in(select(runs.c.trace_id))
    connection.execute(delete(feedback).where(gone))
    return len(rows)


def _count(sums: _Rows, width: int, row: Row, sign: int) -> None:
    """Add a row to its minute or hour, or remove it."""
    bucket = row["time"] // schema.NANO // width * width
    key = (width, bucket, row["slice_id"], row["status"], row["reason"])
    into = sums.get(key)
    if into is None:
        into = sums[key] = dict(zip(_KEYS, key, strict=True)) | dict.fromkeys(COUNTED, 0)
        into |= {"missing": row["missing"], "w_max": 0.0, "x_min": None, "x_max": None}
    w, x = row["weight"], row["x"]
    into["cost"] += sign * (row["cost"] or 0.0)
    if w is None:
        into["unknown"] += sign
        return
    into["n"] += sign
    for name, value in schema.products(w, x or 0.0).items():
        into[name] += sign * value
    # Removed rows count too: a maximum cannot be undone, and one that is too large stays valid.
    into["w_max"] = max(into["w_max"], w)
    if x is not None:
        into["x_min"] = x if into["x_min"] is None else min(x, into["x_min"])
        into["x_max"] = x if into["x_max"] is None else max(x, into["x_max"])


def _count_cluster(groups: _Rows, row: Row, sign: int) -> None:
    if row["x"] is None or row["weight"] is None:
        return
    # Only groups are stored, so the table does not grow with the number of users.
    group = row["cluster"] % CLUSTER_GROUPS
    key = (row["time"] // schema.NANO // HOUR * HOUR, row["slice_id"], group)
    into = groups.get(key)
    if into is None:
        into = groups[key] = {**dict(zip(_CLUSTER_KEYS, key, strict=True)), "w": 0.0, "wx": 0.0}
    into["w"] += sign * row["weight"]
    into["wx"] += sign * row["weight"] * row["x"]


def _added(new: Any) -> Row:
    """Return the changes of a rollup's upsert: sums add up, ranges widen."""
    old = schema.rollups.c
    changed: Row = {name: old[name] + new[name] for name in COUNTED}
    changed["w_max"] = case((new.w_max > old.w_max, new.w_max), else_=old.w_max)
    changed["x_min"] = case((old.x_min.is_(None) | (new.x_min < old.x_min), new.x_min), else_=old.x_min)
    changed["x_max"] = case((old.x_max.is_(None) | (new.x_max > old.x_max), new.x_max), else_=old.x_max)
    return changed


def _version(row: Row) -> tuple[int, int]:
    return row["revision"], row["scored"]


def _existing(connection: Connection, ids: Sequence[str]) -> dict[str, Row]:
    table = schema.evaluations
    queries = (select(table).where(table.c.evaluation_id.in_(some)) for some in _portions(ids))
    return {row["evaluation_id"]: row for query in queries for row in rows_of_query(connection, query)}


def overwriting(table: Table, *kept: str) -> Callable[[Any], Row]:
    """Return the changes of an upsert that overwrites all other columns."""
    names = [column.name for column in table.columns if column.name not in kept]
    return lambda new: {name: new[name] for name in names}


def _keep(new: Any) -> Row:
    return {}


def _added_cluster(new: Any) -> Row:
    return {name: schema.clusters.c[name] + new[name] for name in ("w", "wx")}


_overwrite_run = overwriting(schema.runs, "id", "key", "trace_id", "span_id")
_overwrite_evaluation = overwriting(schema.evaluations, "id", "evaluation_id")


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Row],
    keys: tuple[str, ...],
    changed: Callable[[Any], Row],
) -> None:
    """Insert rows; `changed` returns the changes of an existing row, given the new values."""
    if not rows:
        return
    # Passes compiled SQL to the driver: SQLAlchemy's work per row costs more than SQLite's.
    sql, names = _compiled(connection.dialect, table, tuple(rows[0]), keys, changed)
    # PostgreSQL's driver takes named parameters, SQLite's takes positions.
    if names is None:
        connection.exec_driver_sql(sql, [dict(row) for row in rows])
    else:
        connection.exec_driver_sql(sql, list(map(itemgetter(*names), rows)))


@lru_cache(maxsize=64)
def _compiled(
    dialect: Dialect,
    table: Table,
    columns: tuple[str, ...],
    keys: tuple[str, ...],
    changed: Callable[[Any], Row],
) -> tuple[str, Sequence[str] | None]:
    """Return an upsert's SQL, and the parameters' order if they are positional."""
    statement = (sqlite if dialect.name == "sqlite" else postgresql).insert(table)
    values = changed(statement.excluded)
    if values:
        statement = statement.on_conflict_do_update(index_elements=list(keys), set_=values)
    else:
        statement = statement.on_conflict_do_nothing(index_elements=list(keys))
    compiled = statement.compile(dialect=dialect, column_keys=list(columns))
    return str(compiled), compiled.positiontup
