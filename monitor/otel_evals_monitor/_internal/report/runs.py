"""Single runs of the results store: lists of evaluations, runs worth a label, and a trace in full."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, select

from otel_evals.sdk.util import read_json
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import rows_of_query
from otel_evals_monitor._internal.store.filters import EVERY, SEARCHED, RunFilter, Window
from otel_evals_monitor._internal.store.queries import Slices, StoredSlice
from otel_evals_monitor._internal.store.rows import Record, Row, objects

_SLICES = 200


@dataclass(frozen=True, slots=True)
class RunOfSlice:
    evaluation_id: str
    trace_id: str
    span_id: str
    time: int
    """End of the run, seconds since the Unix epoch."""
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
    effect: str | None
    """What the application did with a checked answer: `allowed`, `blocked` or `rewritten`."""
    evidence_cut: bool
    """True if the judge saw a part of the evidence."""


@dataclass(frozen=True, slots=True)
class RecordedEvaluation:
    """All columns of an evaluation and its slice."""

    columns: Row
    slice: StoredSlice

    @property
    def steps(self) -> list[Record]:
        """The recorded steps; empty if they were too large to keep."""
        return objects(_parsed(self.columns["details"]))


@dataclass(frozen=True, slots=True)
class RecordedRun:
    columns: Row
    content: Record
    """Messages and tool calls; empty if content is not kept."""
    evaluations: Sequence[RecordedEvaluation]

    @property
    def time(self) -> int:
        """End of the run, seconds since the Unix epoch."""
        return int(self.columns["time"]) // schema.NANO


def runs_of_slices(
    connection: Connection,
    slices: Slices,
    window: Window,
    most: int,
    *,
    order: str = "newest",
    status: str = "",
    few: bool = False,
    runs: RunFilter = EVERY,
    skip: int = 0,
) -> list[RunOfSlice]:
    """Return up to `most` evaluations of the first 200 slices, in order `newest` or `worst`.

    Set `few` if the window contains few runs, which are faster to find by time than by score. `skip` is the
    number of evaluations before the first one.
    """
    table = schema.evaluations.c
    found: list[Any] = []
    if most < 1:
        return []
    highest = any(each["direction"] == "lower_is_better" for each in slices.values())
    # The expression prevents SQLite from scanning the index of scores past all runs of other times.
    x = table.x + 0.0 if few else table.x
    by_score = (x.desc(), table.time.asc()) if highest else (x.asc(), table.time.desc())
    keys = by_score if order == "worst" else (table.time.desc(),)
    # A query per slice reads only its end of the index.
    for id in list(slices)[:_SLICES]:
        # One slice may have all skipped rows, so each is read from its beginning.
        query = select(schema.evaluations).where(table.slice_id == id).order_by(*keys).limit(skip + most)
        if runs:
            query = query.where(table.id.in_(runs.among([id], window)), *runs.conditions())
        if order == "worst":
            query = query.where(x > 0.0 if highest else x < 1.0)  # perfect runs are not among the worst
        query = query.where(table.status == status) if status else query
        found += connection.execute(window.of(query, table.time, schema.NANO)).mappings()
    sign = -1.0 if highest else 1.0
    found.sort(key=lambda row: (sign * row["x"] if order == "worst" else 0.0, -row["time"]))
    return run_rows(connection, slices, found[skip : skip + most])


def recent_runs(
    connection: Connection,
    window: Window,
    most: int,
    *,
    wanted: Mapping[str, str],
    runs: RunFilter = EVERY,
    status: str = "",
    skip: int = 0,
) -> list[RecordedRun]:
    """Return up to `most` runs, the newest first; `wanted` has required values of columns of runs.

    With a filter of single runs, the newest 20,000 are considered.
    """
    table, evaluations = schema.runs.c, schema.evaluations.c
    query = window.of(select(schema.runs), table.time, schema.NANO).order_by(table.time.desc())
    for name, value in wanted.items():
        query = query.where(table[name] == value)
    if runs or status:
        newest = window.of(select(table.key), table.time, schema.NANO).order_by(table.time.desc())
        found = select(evaluations.run_key).where(*runs.conditions())
        found = found.where(evaluations.status == status) if status else found
        considered = newest.limit(SEARCHED).subquery()
        query = query.where(table.key.in_(select(considered)), table.key.in_(found))
    return _recorded(connection, query.limit(most).offset(skip))


def run_rows(connection: Connection, slices: Slices, rows: Sequence[Any]) -> list[RunOfSlice]:
    """Add the runs to rows of evaluations; skip rows of an unknown slice or run."""
    rows = [row for row in rows if row["slice_id"] in slices]
    query = select(schema.runs).where(schema.runs.c.key.in_([row["run_key"] for row in rows]))
    runs = {row["key"]: row for row in rows_of_query(connection, query)}
    there = [row for row in rows if row["run_key"] in runs]
    return [_run_of_slice(row, runs[row["run_key"]], slices[row["slice_id"]]["scorer_id"]) for row in there]


def _run_of_slice(row: Row, run: Row, scorer_id: str) -> RunOfSlice:
    content = content_of(run["content"])
    of_row = ("evaluation_id", "status", "reason", "value", "label", "explanation", "effect")
    of_run = ("trace_id", "span_id", "agent_name", "agent_version")
    return RunOfSlice(
        **{name: row[name] for name in of_row},
        **{name: run[name] for name in of_run},
        time=row["time"] // schema.NANO,
        scorer_id=scorer_id,
        evidence_cut=bool(row["evidence_cut"]),
        input=_text(content.get("input")),
        output=_text(content.get("output")),
    )


def find_runs(connection: Connection, trace_id: str) -> list[RecordedRun]:
    runs = schema.runs.c
    query = select(schema.runs).where(runs.trace_id == trace_id).order_by(runs.start_time)
    return _recorded(connection, query)


def _recorded(connection: Connection, query: Select[Any]) -> list[RecordedRun]:
    """Return the runs of a query with their evaluations, by scorer."""
    runs, table, slices = rows_of_query(connection, query), schema.evaluations, schema.slices
    theirs = select(table).where(table.c.run_key.in_([run["key"] for run in runs]))
    rows = rows_of_query(connection, theirs.order_by(table.c.evaluation_id))
    wanted = select(slices).where(slices.c.id.in_({row["slice_id"] for row in rows}))
    known = {row["id"]: row for row in rows_of_query(connection, wanted)}
    found: dict[int, list[RecordedEvaluation]] = {}
    for row in sorted(rows, key=lambda row: str(known[row["slice_id"]]["scorer_id"])):
        found.setdefault(row["run_key"], []).append(RecordedEvaluation(row, known[row["slice_id"]]))
    return [RecordedRun(run, content_of(run["content"]), found.get(run["key"], [])) for run in runs]


def content_of(text: str | None) -> Record:
    """Return the recorded messages and tool calls of a run; empty if they are not kept."""
    found: Record = _parsed(text) or {}
    return found


def _parsed(text: str | None) -> Any:
    """Return stored JSON; None if it was cut, or is nested too deeply to be read."""
    try:
        return read_json(text or "null")
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_MOST = 8


def label_queue(connection: Connection, slices: Slices) -> dict[str, list[RunOfSlice]]:
    """Return runs to label: sent to review, in conflict with feedback, with low scores."""
    table, feedback, runs = schema.evaluations.c, schema.feedback.c, schema.runs.c
    unlabelled = table.evaluation_id.not_in(select(schema.labels.c.evaluation_id))
    newest = select(schema.evaluations).select_from(schema.sliced).where(unlabelled)
    newest = newest.order_by(table.time.desc()).limit(_MOST)
    complaints = select(feedback.trace_id).where(feedback.value <= 0).order_by(feedback.time.desc())
    theirs = select(runs.key).where(runs.trace_id.in_(complaints.limit(500)))
    praised = case((schema.slices.c.direction == "lower_is_better", table.x <= 0.5), else_=table.x >= 0.5)
    queries = {
        "Sent to review": newest.where(table.review.is_not(None)),
        "Users disagree": newest.where(table.run_key.in_(theirs), praised),
    }
    found = {
        title: run_rows(connection, slices, connection.execute(query).mappings().all())
        for title, query in queries.items()
    }
    worst: list[RunOfSlice] = []
    # `runs_of_slices` sorts in one direction, so each gets a separate query.
    for direction in ("higher_is_better", "lower_is_better"):
        some = {id: each for id, each in slices.items() if each["direction"] == direction}
        worst += runs_of_slices(connection, some, Window(), _MOST, order="worst")
    return {**found, "Low scores": worst[:_MOST]}
