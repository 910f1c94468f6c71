"""Single runs of the results store: the worst of a slice, those of a point in time, and one in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.queries import Window

_NANO = 1_000_000_000
_SLICES = 200


@dataclass(frozen=True, slots=True)
class RunOfSlice:
    """One evaluation, and the run it judges."""

    evaluation_id: str
    trace_id: str
    span_id: str
    time: int
    """When the outcome was known, seconds since the Unix epoch."""
    status: str
    reason: str
    value: float | None
    label: str | None
    explanation: str | None
    scorer_id: str
    agent_name: str
    agent_version: str
    input: str | None
    output: str | None


@dataclass(frozen=True, slots=True)
class RecordedEvaluation:
    """An evaluation in full: columns of the table, of its slice, and its steps."""

    columns: Mapping[str, Any]
    slice: Mapping[str, Any]
    steps: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run in full."""

    columns: Mapping[str, Any]
    content: Mapping[str, Any]
    """What was said; empty where content is not kept."""
    evaluations: Sequence[RecordedEvaluation]


def worst_runs(
    connection: Connection,
    slices: Mapping[int, Any],
    window: Window,
    most: int,
    *,
    highest: bool,
    few: bool = False,
) -> list[RunOfSlice]:
    """The runs with the worst scores.

    Args:
        connection: from `Database.reading`.
        slices: of which ones, by id.
        window: when.
        most: how many.
        highest: whether the highest scores are the worst.
        few: whether the window holds few runs, so that they are better found by time than by score.
    """
    return runs_of_slices(connection, slices, window, most, order="highest" if highest else "lowest", few=few)


def runs_of_slices(
    connection: Connection,
    slices: Mapping[int, Any],
    window: Window,
    most: int,
    *,
    order: str = "newest",
    status: str | None = None,
    reason: str | None = None,
    few: bool = False,
) -> list[RunOfSlice]:
    """Evaluations of some slices.

    Args:
        connection: from `Database.reading`.
        slices: of which ones, by id; the first 200 are looked at.
        window: when.
        most: how many.
        order: `newest`, or the `lowest` or `highest` scores first.
        status: only outcomes of this status.
        reason: only outcomes with this reason.
        few: as for `worst_runs`.
    """
    table = schema.evaluations.c
    found: list[Any] = []
    if most < 1:
        return []
    # An expression keeps SQLite from walking the index of scores past all runs of other times.
    x = table.x + 0.0 if few else table.x
    keys = {
        "newest": (table.time.desc(),),
        "lowest": (x.asc(), table.time.desc()),
        "highest": (x.desc(), table.time.asc()),
    }
    # A query for each slice reads no more than its own end of the index.
    for id in list(slices)[:_SLICES]:
        query = select(schema.evaluations).where(table.slice_id == id).order_by(*keys[order]).limit(most)
        if order != "newest":
            query = query.where(table.x.is_not(None))
        for column, value in ((table.status, status), (table.reason, reason)):
            query = query if value is None else query.where(column == value)
        if window.since is not None:
            query = query.where(table.time >= window.since * _NANO)
        if window.until is not None:
            query = query.where(table.time < window.until * _NANO)
        found += connection.execute(query).mappings()
    sign = -1.0 if order == "highest" else 1.0
    found.sort(key=lambda row: (0.0 if order == "newest" else sign * row["x"], -row["time"]))
    return run_rows(connection, slices, found[:most])


def run_rows(connection: Connection, slices: Mapping[int, Any], rows: Sequence[Any]) -> list[RunOfSlice]:
    """Rows of evaluations with their runs; those whose slice or run is unknown are left out."""
    rows = [row for row in rows if row["slice_id"] in slices]
    query = select(schema.runs).where(schema.runs.c.key.in_([row["run_key"] for row in rows]))
    runs = {row["key"]: dict(row) for row in connection.execute(query).mappings()}
    there = [row for row in rows if row["run_key"] in runs]
    return [_run_of_slice(row, runs[row["run_key"]], slices[row["slice_id"]]["scorer_id"]) for row in there]


def _run_of_slice(row: Mapping[str, Any], run: Mapping[str, Any], scorer_id: str) -> RunOfSlice:
    content = _object(run["content"])
    same = ("evaluation_id", "status", "reason", "value", "label", "explanation")
    return RunOfSlice(
        **{name: row[name] for name in same},
        time=row["time"] // _NANO,
        trace_id=run["trace_id"],
        span_id=run["span_id"],
        scorer_id=scorer_id,
        agent_name=run["agent_name"],
        agent_version=run["agent_version"],
        input=_text(content.get("input")),
        output=_text(content.get("output")),
    )


def find_runs(connection: Connection, trace_id: str) -> list[RecordedRun]:
    """All runs of a trace in full, oldest first; empty if there are none."""
    runs = schema.runs.c
    query = select(schema.runs).where(runs.trace_id == trace_id).order_by(runs.start_time)
    found = [dict(row) for row in connection.execute(query).mappings()]
    return [RecordedRun(run, _object(run["content"]), _evaluations(connection, run["key"])) for run in found]


def _evaluations(connection: Connection, run_key: int) -> list[RecordedEvaluation]:
    table, slices = schema.evaluations, schema.slices
    query = select(table).where(table.c.run_key == run_key).order_by(table.c.evaluation_id)
    rows = [dict(row) for row in connection.execute(query).mappings()]
    wanted = select(slices).where(slices.c.id.in_([row["slice_id"] for row in rows]))
    known = {row["id"]: dict(row) for row in connection.execute(wanted).mappings()}
    there = [row for row in rows if row["slice_id"] in known]
    return [RecordedEvaluation(row, known[row["slice_id"]], _steps(row["details"])) for row in there]


def _steps(text: str | None) -> list[Mapping[str, Any]]:
    """The steps on record; none where they were too large to be kept whole."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return [each for each in found if isinstance(each, dict)]


def _object(text: str | None) -> Mapping[str, Any]:
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
