"""Data sets from the results store: runs for `run_evals` and pytest, labels for judges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import entry_points
from typing import Any

from sqlalchemy import Connection, select

from otel_evals.errors import ConfigError
from otel_evals.sdk.config import SCORERS
from otel_evals_monitor._internal.report.runs import (
    RecordedRun,
    content_of,
    find_runs,
    runs_of_slices,
)
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, rows_of_query
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.labels import VERDICTS
from otel_evals_monitor._internal.store.queries import StoredSlice, stored_slices
from otel_evals_monitor._internal.store.rows import Record, Row, objects

Item = dict[str, Any]
"""A run of a data set, in the form of JSON."""
_TEXTS = ("verdict", "failure_type", "expected", "comment")


def items_of(connection: Connection, trace_ids: Sequence[str]) -> Iterator[Item]:
    """Yield an item for each run of these traces with a recorded question."""
    for trace_id in dict.fromkeys(trace_ids):
        for run in find_runs(connection, trace_id):
            if run.content.get("input") or run.content.get("media"):
                yield _item(run, _labels(connection, run))


def _item(run: RecordedRun, labels: Mapping[str, Row]) -> Item:
    """Return an item; `metadata` has the scores, the labels, and the run for `testing.run_of`."""
    expected = next((each["expected"] for each in labels.values() if "expected" in each), None)
    scores = {
        each.slice["scorer_id"]: {name: each.columns[name] for name in ("value", "label", "explanation")}
        for each in run.evaluations
        if each.columns["status"] == "scored"
    }
    return {
        "input": run.content.get("input") or "",
        "ground_truth": expected,
        "metadata": {
            "trace_id": run.columns["trace_id"],
            "agent": run.columns["agent_name"],
            "agent_version": run.columns["agent_version"],
            "scores": scores,
            "labels": labels,
            "run": _example(run.content) | ({"expected": expected} if expected else {}),
        },
    }


def labelled_examples(connection: Connection) -> Iterator[Item]:
    """Yield all labelled runs in the format of `otel-evals judge calibrate`."""
    labels = schema.labels.c
    query = (
        select(schema.labels, schema.runs.c.content).select_from(schema.labelled_runs).order_by(labels.time)
    )
    for row in connection.execute(query):
        if row.content:
            example = {"id": row.evaluation_id, "label": row.label, **_example(content_of(row.content))}
            texts = {name: getattr(row, name) for name in ("verdict", "failure_type", "expected")}
            yield example | {name: text for name, text in texts.items() if text}


def test_file(items: Sequence[Item], data_set: str, scorers: Sequence[str]) -> str:
    """Return a pytest module for a data set in the same folder, which wants the best of these scores."""
    checks = "\n".join(f"    scored({name!r}, runs=run).at_least(1)" for name in scorers)
    return _TEST.format(
        runs=len(items), data_set=json.dumps(data_set), checks=checks or "    assert run.output"
    )


_TEST = '''"""{runs} runs from production that must not fail again."""

from pathlib import Path

import pytest

from otel_evals.testing import read_items, run_of

ITEMS = read_items(Path(__file__).with_name({data_set}))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.metadata["trace_id"][:8])
def test_answer(item, scored):
    # This scores the recorded answer, which fails. To score a new answer, call your agent with `item.input`
    # and leave out `runs=run`.
    run = run_of(item.metadata["run"])
{checks}
'''


def tested(items: Sequence[Item], scorer: str | None) -> list[str]:
    """Return the scorers of the test: the chosen one, or all with a low score; only registered ones."""
    scores = [(name, s["value"]) for item in items for name, s in item["metadata"]["scores"].items()]
    wanted = {scorer} if scorer else {name for name, value in scores if value < 1.0}
    # The test finds scorers by the names of their entry points.
    return sorted(point.name for point in entry_points(group=SCORERS) if point.name in wanted)


def worst_traces(connection: Connection, scorer: str, most: int, window: Window) -> list[str]:
    slices = stored_slices(connection, scorer_id=scorer)
    if not slices:
        raise ConfigError("--scorer", f"{scorer!r} is not on record")
    return [run.trace_id for run in runs_of_slices(connection, slices, window, most, order="worst")]


def labelled_traces(connection: Connection, verdict: str) -> list[str]:
    if verdict not in VERDICTS:
        raise ConfigError("--verdict", f"must be {' or '.join(VERDICTS)}, not {verdict!r:.60}")
    labels, runs = schema.labels.c, schema.runs.c
    query = select(runs.trace_id).select_from(schema.labelled_runs).where(labels.verdict == verdict)
    return list(connection.execute(query.order_by(labels.time.desc())).scalars())


def _labels(connection: Connection, run: RecordedRun) -> dict[str, Row]:
    scorers = {each.columns["evaluation_id"]: each.slice["scorer_id"] for each in run.evaluations}
    table = schema.labels
    query = select(table).where(table.c.evaluation_id.in_(list(scorers))).order_by(table.c.evaluation_id)
    return {
        scorers[row["evaluation_id"]]: {n: row[n] for n in ("label", *_TEXTS) if row[n] is not None}
        for row in rows_of_query(connection, query)
    }


def _example(content: Record) -> Item:
    described = {name: content.get(name) for name in ("input", "output", "system", "history", "media")}
    described["tools"] = [_tool(call) for call in objects(content.get("tool_calls")) if call.get("name")]
    texts = (each.get("content") for each in objects(content.get("documents")))
    described["context"] = [text for text in texts if text]
    example = {name: value for name, value in described.items() if value}
    return {"input": "", **example} if content.get("media") else example


def _tool(call: Record) -> Item:
    failed = call.get("error") or ("error" if call.get("status") == "error" else None)
    return {**{name: call.get(name) for name in ("name", "arguments", "result")}, "error": failed}


def recorded_scores(place: str, trace_id: str) -> Iterator[Record]:
    """Yield the records of a trace, and one of each rule with its sampler.

    For `otel-evals explain`, which reads files of the jsonl destination itself.
    """
    with closing(Database(place, create=False)) as database, database.reading() as connection:
        for row in stored_slices(connection).values():
            evaluation = {"evaluation_id": "", "status": "not_scored", **_sampled(row, None)}
            yield {"evaluations": [evaluation]}
        yield from map(_recorded, find_runs(connection, trace_id))


def _sampled(columns: StoredSlice, weight: float | None) -> Record:
    sampling = {"rule": columns["sampler"], "probability": 1.0 / weight if weight else None}
    return {"scorer": columns["scorer_id"], "rule": columns["rule"], "sampling": sampling}


def _recorded(run: RecordedRun) -> Record:
    names = ("evaluation_id", "status", "reason", "value", "label", "explanation", "duration", "effect")
    evaluations = [
        {**{name: each.columns[name] for name in names}, **_sampled(each.slice, each.columns["weight"])}
        | {"span_id": run.columns["span_id"], "revision": each.columns["revision"]}
        for each in run.evaluations
    ]
    ids = {name: run.columns[name] for name in ("trace_id", "span_id", "agent_version", "start_time")}
    return {**ids, "agent": run.columns["agent_name"], "evaluations": evaluations}
