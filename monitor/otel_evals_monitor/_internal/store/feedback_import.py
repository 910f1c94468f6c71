"""Import of feedback from backends, as labels of recorded scores or feedback on recorded traces."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Table, select, update

from otel_evals.model import Feedback
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query
from otel_evals_monitor._internal.store.labels import cut
from otel_evals_monitor._internal.store.rows import hash_of, storable

_IDS = re.compile("[0-9a-f]{32}-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRules:
    """Rules of an import: the feedback to keep, and its numbers."""

    backend: str
    """Name of the backend."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names to import, each with the scorer that it labels; if empty, all feedback by people."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Numbers of categories."""


def judged_spans(connection: Connection, since: int | None) -> list[tuple[str, str]]:
    """Return trace and span ids of the runs recorded since a time in nanoseconds."""
    runs = schema.runs.c
    query = select(runs.trace_id, runs.span_id).distinct().order_by(runs.trace_id, runs.span_id)
    if since is not None:
        query = query.where(runs.time >= since)
    found = [(row.trace_id, row.span_id) for row in connection.execute(query)]
    return [(trace, span) for trace, span in found if _IDS.fullmatch(f"{trace}-{span}")]


def keep_feedback(database: Database, found: Iterable[Feedback], rules: PullRules) -> Counter[str]:
    """Keep feedback: as labels if a score with its name is on record, otherwise as feedback on the trace.

    Newer feedback replaces older feedback only. The scores by all versions of a scorer are labelled. Returns
    counts of `labels` and `feedback` written, of `known` items, and of skipped items by reason.
    """
    done: Counter[str] = Counter()
    with database.writing() as connection:
        for each in sorted(found, key=lambda one: one.time):
            done[_keep(connection, replace(each, name=storable(each.name)), rules)] += 1
    return done


def _keep(connection: Connection, said: Feedback, rules: PullRules) -> str:
    if said.by == "judge":
        return "not by a person"
    if said.name not in rules.names if rules.names else said.by != "person":
        return "of another name" if rules.names else "not by a person"
    runs = _runs(connection, said)
    if not runs:
        return "of a trace that is not on record"
    labelled = _evaluations(connection, runs, rules.names.get(said.name) or said.name)
    if not labelled:
        number = _number(said.value, rules, None)
        if number is None:
            return "without a number"
        return _keep_feedback(connection, runs[0]["trace_id"], said, number, rules.backend)
    if len({row["run_key"] for row in labelled}) > 1:
        return "of a trace with several runs"
    scale = labelled[0]["scale"]
    number = _number(said.value, rules, scale)
    if number is None:
        return "without a number"
    if scale is not None and not 0.0 <= number <= scale:
        return "out of the score's range"
    return _keep_labels(connection, [row["evaluation_id"] for row in labelled], said, number)


def _runs(connection: Connection, said: Feedback) -> Sequence[Mapping[str, Any]]:
    runs = schema.runs.c

    def found(*conditions: ColumnElement[bool]) -> list[dict[str, Any]]:
        rows = rows_of_query(connection, select(runs.key, runs.trace_id, runs.span_id).where(*conditions))
        own = [row for row in rows if row["key"] == hash_of(row["trace_id"], row["span_id"], "")]
        return own or rows

    in_trace = () if said.trace_id is None else (runs.trace_id == said.trace_id,)
    of_span = found(*in_trace, runs.span_id == said.span_id) if said.span_id else []
    return of_span or (found(*in_trace) if in_trace else [])


def _evaluations(
    connection: Connection, runs: Sequence[Mapping[str, Any]], scorer: str
) -> Sequence[Mapping[str, Any]]:
    evaluations, slices = schema.evaluations.c, schema.slices.c
    query = select(evaluations.evaluation_id, evaluations.run_key, slices.scale).select_from(schema.sliced)
    query = query.where(evaluations.run_key.in_([run["key"] for run in runs]), slices.scorer_id == scorer)
    return rows_of_query(connection, query.where(evaluations.status == "scored"))


def _number(value: Any, rules: PullRules, scale: float | None) -> float | None:
    """Return a value as a number: true is the top of the scale, categories follow the rules."""
    if isinstance(value, bool):
        return (scale or 1.0) if value else 0.0
    if isinstance(value, str):
        return rules.values.get(value)
    number = float(value) if isinstance(value, int | float) else math.nan
    return number if math.isfinite(number) else None


def _keep_labels(connection: Connection, ids: Sequence[str], said: Feedback, number: float) -> str:
    values = {"label": number, "comment": cut(said.comment), "verdict": None}
    table, time = schema.labels, said.time
    written = [_newest(connection, table, {"evaluation_id": each}, values, time) for each in ids]
    return "labels" if any(written) else "known"


def _keep_feedback(connection: Connection, trace_id: str, said: Feedback, number: float, backend: str) -> str:
    source = f"{backend}:{said.author}" if said.author else backend
    key = {"trace_id": trace_id, "name": said.name[:200], "source": storable(source[:200])}
    values = {"value": number, "comment": cut(said.comment)}
    return "feedback" if _newest(connection, schema.feedback, key, values, said.time) else "known"


def _newest(
    connection: Connection, table: Table, key: Mapping[str, str], values: Mapping[str, Any], time: int
) -> bool:
    """Write a row unless an equally new one is stored; return True if it was written."""
    same = [table.c[column] == text for column, text in key.items()]
    known = connection.execute(select(table.c.time).where(*same)).scalar()
    if known is not None and known >= time:
        return False
    if known is None:
        connection.execute(table.insert().values(**key, **values, time=time))
    else:  # other columns of a label stay, such as the expected answer
        connection.execute(update(table).where(*same).values(**values, time=time))
    return True
