"""Runs of the results store as a data set: for `run_evals`, for the pytest fixture, and labels for judges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from otel_evals_monitor._internal.report.runs import RecordedRun, find_runs
from otel_evals_monitor._internal.store import schema


def items_of(connection: Connection, trace_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    """An item for each run of these traces whose question is on record."""
    for trace_id in dict.fromkeys(trace_ids):
        for run in find_runs(connection, trace_id):
            if run.content.get("input"):
                yield item_of(run, _expected(connection, run))


def item_of(run: RecordedRun, expected: str | None = None) -> dict[str, Any]:
    """One item: `input`, `ground_truth`, and `metadata` with the whole run and its scores.

    `metadata["run"]` is what `otel_evals.testing.run_of` makes a run of, so that it can be scored again.
    """
    return {
        "input": run.content.get("input"),
        "ground_truth": expected,
        "metadata": {
            "trace_id": run.columns["trace_id"],
            "agent": run.columns["agent_name"],
            "agent_version": run.columns["agent_version"],
            "scores": {
                each.slice["scorer_id"]: {
                    name: each.columns[name] for name in ("value", "label", "explanation")
                }
                for each in run.evaluations
                if each.columns["status"] == "scored"
            },
            "run": _example(run.content) | ({"expected": expected} if expected else {}),
        },
    }


def labelled_examples(connection: Connection) -> Iterator[dict[str, Any]]:
    """All labelled runs, as `otel-evals judge calibrate` reads them."""
    labels, evaluations, runs = schema.labels, schema.evaluations, schema.runs
    joined = labels.join(evaluations, evaluations.c.evaluation_id == labels.c.evaluation_id).join(
        runs, runs.c.key == evaluations.c.run_key
    )
    columns = (labels.c.evaluation_id, labels.c.label, labels.c.expected, runs.c.content)
    for row in connection.execute(select(*columns).select_from(joined).order_by(labels.c.time)):
        if row.content:
            expected = {"expected": row.expected} if row.expected else {}
            yield {
                "id": row.evaluation_id,
                "label": row.label,
                **_example(json.loads(row.content)),
                **expected,
            }


def test_file(items: Sequence[Mapping[str, Any]], data_set: str, limits: Mapping[str, float]) -> str:
    """A pytest module that scores these runs.

    Args:
        items: as `items_of` gives them.
        data_set: name of the file they are in, beside the module.
        limits: scorers by name, and the score that is good enough.
    """
    checks = "\n".join(
        f"    scored({name!r}, runs=run).at_least({limit:g})" for name, limit in sorted(limits.items())
    )
    return _TEST.format(runs=len(items), data_set=data_set, checks=checks or "    assert run.output")


_TEST = '''"""{runs} runs from production that must not go wrong again."""

from pathlib import Path

import pytest

from otel_evals.testing import read_items, run_of

ITEMS = read_items(Path(__file__).with_name("{data_set}"))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.metadata["trace_id"][:8])
def test_answer(item, scored):
    # The answer on record, which fails. Call your agent with `item.input` instead, and leave out `runs=run`:
    # then its new answer is scored.
    run = run_of(item.metadata["run"])
{checks}
'''


def _expected(connection: Connection, run: RecordedRun) -> str | None:
    ids = [each.columns["evaluation_id"] for each in run.evaluations]
    table = schema.labels.c
    query = select(table.expected).where(table.evaluation_id.in_(ids), table.expected.is_not(None))
    return connection.execute(query.limit(1)).scalar()


def _example(content: Mapping[str, Any]) -> dict[str, Any]:
    """A run as labelled examples describe it."""
    calls = [each for each in content.get("tool_calls") or () if isinstance(each, dict) and each.get("name")]
    documents = [each for each in content.get("documents") or () if isinstance(each, dict)]
    described = {
        "input": content.get("input"),
        "output": content.get("output"),
        "system": content.get("system"),
        "history": content.get("history"),
        "tools": [_tool(call) for call in calls],
        "context": [each.get("content") for each in documents if each.get("content")],
    }
    return {name: value for name, value in described.items() if value}


def _tool(call: Mapping[str, Any]) -> dict[str, Any]:
    failed = call.get("error") or ("error" if call.get("status") == "error" else None)
    known = {"name": call["name"], "arguments": call.get("arguments"), "result": call.get("result")}
    return {**known, "error": failed}
