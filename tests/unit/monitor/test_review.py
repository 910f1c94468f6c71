"""Runs that rules send to review: they wait on the label queue, and their labels are exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals import Rule, Run, scorer
from otel_evals._internal.cli.app import app
from otel_evals.destinations import run_record
from otel_evals.errors import ConfigError
from otel_evals.testing import read_items
from otel_evals_monitor._internal.report.runs import label_queue
from otel_evals_monitor._internal.store.labels import (
    add_label,
    failure_types,
    labels_on,
)
from otel_evals_monitor._internal.store.queries import stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record
from tests.support.traffic import Live


@scorer(inline=True)
def brief(run: Run) -> float:
    """The shorter, the better."""
    return 1.0 / len((run.output or "-").split())


def sent(number: int, value: float = 0.0, **fields: Any) -> dict[str, Any]:
    given = record(number, value, **fields)
    given["evaluations"][0]["review"] = "score < 0.5"
    return given


def id_of(given: dict[str, Any]) -> str:
    return str(given["evaluations"][0]["evaluation_id"])


def queue(store: ResultsStore, name: str = "Sent to review") -> list[str]:
    with store.database.reading() as connection:
        return [run.evaluation_id for run in label_queue(connection, stored_slices(connection))[name]]


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_a_live_score_goes_to_review_by_its_rule(store: ResultsStore, sign: str) -> None:
    with Live(Rule(brief, review=f"score {sign} 0.5")) as live:
        for answer in ("Yes.", "Yes, today.", "Yes, today at noon."):
            live.run(answer=answer)
        assert live.flush()
    store.write(run_record(each) for each in live.scored.runs)
    scores = {id: value for run in live.scored.runs for id, value in _scores(run)}
    wanted = {"<": [0.25], "<=": [0.25, 0.5], ">": [1.0], ">=": [0.5, 1.0]}[sign]
    assert sorted(scores[id] for id in queue(store)) == wanted


def _scores(run: Any) -> list[tuple[str, float]]:
    return [(each.evaluation_id, each.outcome.value) for each in run.evaluations]


@pytest.mark.parametrize(
    "wrong", ["0.5", "score", "score < low", "score < nan", "score < 2", "score = 1", "", 3]
)
def test_a_condition_that_is_none_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"^review: "):
        Rule(brief, review=wrong)


def test_a_label_has_a_verdict_a_failure_type_and_an_answer(store: ResultsStore) -> None:
    lower, given = sent(1, 0.2, direction="lower_is_better"), [sent(2), sent(3), sent(4)]
    store.write([lower, *given])
    assert set(queue(store)) == {id_of(each) for each in (lower, *given)}
    add_label(store.database, id_of(lower), verdict="fail", failure_type="  too\nrude ")
    add_label(store.database, id_of(given[0]), verdict="fail", failure_type="wrong order", expected="Day 3.")
    add_label(store.database, id_of(given[1]), 0.75, verdict="pass", failure_type="wrong order")
    assert queue(store) == [id_of(given[2])]
    assert failure_types(store.database) == ["wrong order", "too rude"]
    kept = labels_on(store.database, given[0]["trace_id"])[id_of(given[0])]
    names = ("label", "verdict", "failure_type", "expected")
    assert [kept[name] for name in names] == [0.0, "fail", "wrong order", "Day 3."]
    assert labels_on(store.database, lower["trace_id"])[id_of(lower)]["label"] == 1.0
    assert labels_on(store.database, given[1]["trace_id"])[id_of(given[1])]["label"] == 0.75


def test_a_label_needs_a_number_or_a_verdict_on_a_scale(store: ResultsStore) -> None:
    unscaled = sent(1, 70.0)
    unscaled["evaluations"][0]["scale"] = None
    store.write([unscaled])
    for wrong in ({}, {"verdict": "pass"}, {"verdict": "maybe", "label": 1.0}):
        with pytest.raises(ConfigError, match=r"label|verdict"):
            add_label(store.database, id_of(unscaled), **wrong)  # type: ignore[arg-type]


def test_labelled_runs_are_exported_by_verdict(store: ResultsStore, tmp_path: Path) -> None:
    given = [sent(number) for number in range(3)]
    store.write(given)
    add_label(store.database, id_of(given[0]), verdict="fail", failure_type="wrong day", expected="On day 3.")
    add_label(store.database, id_of(given[1]), verdict="pass")
    out = tmp_path / "failed.jsonl"
    export = ["export", store.database.name]
    assert CliRunner().invoke(app, [*export, "--verdict", "fail", "--out", str(out)]).exit_code == 0
    (item,) = read_items(out)
    assert (item.metadata["trace_id"], item.ground_truth) == (given[0]["trace_id"], "On day 3.")
    assert item.metadata["labels"]["grounded"] == {
        "label": 0.0,
        "verdict": "fail",
        "failure_type": "wrong day",
        "expected": "On day 3.",
    }
    wrong = CliRunner().invoke(app, [*export, "--verdict", "bad"])
    assert wrong.exit_code == 2
    assert "pass or fail" in wrong.output
