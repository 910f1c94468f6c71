"""From a bad run to a test: data sets of recorded runs, labels, feedback, and what is deleted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import otel_evals
from otel_evals import Rule
from otel_evals._internal.cli.app import app
from otel_evals.errors import ConfigError
from otel_evals.scorers import answered
from otel_evals.testing import read_items, read_labels, run_evals, run_of
from otel_evals_monitor._internal.report.dataset import test_file as file_of_test
from otel_evals_monitor._internal.report.runs import label_queue
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.labels import add_feedback, add_label, feedback_on, labels_on
from otel_evals_monitor._internal.store.queries import measure, stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record, records

GROUNDLESS = record(1, 0.0, scorer="grounded_in_tools") | {
    "output": "It costs $12.50 and ships on 2026-03-01."
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    opened = ResultsStore(tmp_path / "results.db")
    opened.write([GROUNDLESS, *(record(i, 1.0, scorer="grounded_in_tools") for i in range(2, 30))])
    yield opened
    opened.close()


def command(*arguments: Any, code: int = 0) -> Any:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.slow
def test_a_bad_run_becomes_a_failing_test_in_one_command(store: ResultsStore, tmp_path: Path) -> None:
    trace = GROUNDLESS["trace_id"]
    command("export", tmp_path / "results.db", "--trace", trace, "--pytest", tmp_path / "test_bad.py")
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_bad.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "grounded_in_tools should be at least 1" in done.stdout


@pytest.mark.parametrize("odd", [1.5, "calls", {"name": "a"}, [1, None, {}]])
def test_odd_tool_calls_and_documents_are_left_out(tmp_path: Path, odd: Any) -> None:
    run = GROUNDLESS | {"tool_calls": odd, "documents": odd}
    (scores := tmp_path / "scores.jsonl").write_text(json.dumps(run))
    command("export", scores, "--trace", run["trace_id"], "--out", tmp_path / "set.jsonl")
    (item,) = read_items(tmp_path / "set.jsonl")
    assert item.metadata["run"]["output"] == run["output"]
    assert not item.metadata["run"].keys() & {"tools", "context"}


def test_the_data_set_is_read_by_run_evals_and_holds_the_whole_run(
    store: ResultsStore, tmp_path: Path
) -> None:
    out = tmp_path / "worst.jsonl"
    command("export", tmp_path / "results.db", "--scorer", "grounded_in_tools", "--worst", 2, "--out", out)
    (first,) = read_items(out)  # no other run has less than the best score
    assert first.input == "Where is my order?"
    assert first.metadata["scores"]["grounded_in_tools"]["value"] == 0.0
    run = run_of(first.metadata["run"])
    assert run.output == GROUNDLESS["output"]
    assert [(c.name, c.arguments, c.result) for c in run.tool_calls] == [("track", {"id": 1}, {"day": 3})]
    result = run_evals(out, lambda question: f"About {question}: tomorrow.", [answered()], progress=False)
    assert len(result.items) == 1


def test_labels_are_kept_and_written_for_judges(store: ResultsStore, tmp_path: Path) -> None:
    id = GROUNDLESS["evaluations"][0]["evaluation_id"]
    add_label(store.database, id, 0.0)
    add_label(store.database, id, 1.0, expected="On day 3.")
    assert labels_on(store.database, GROUNDLESS["trace_id"])[id]["label"] == 1.0
    command("export", tmp_path / "results.db", "--labels", tmp_path / "labels.jsonl")
    (example,) = read_labels((tmp_path / "labels.jsonl").read_text().splitlines())
    assert (example.label, example.run.ground_truth, len(example.run.tool_calls)) == (1.0, "On day 3.", 1)


@pytest.mark.parametrize("label", [1.5, -1.0, float("nan")])
def test_a_label_out_of_range_is_refused(store: ResultsStore, label: float) -> None:
    id = GROUNDLESS["evaluations"][0]["evaluation_id"]
    with pytest.raises(ConfigError, match="label"):
        add_label(store.database, id, label)
    with pytest.raises(ConfigError, match="may have been deleted"):
        add_label(store.database, "gone", 1.0)


def test_feedback_may_come_before_its_run_and_is_kept_once(store: ResultsStore) -> None:
    early = "ab" * 16
    for value in (True, False):
        add_feedback(store.database, early, value, comment="late")
    assert [(each["value"], each["comment"]) for each in feedback_on(store.database, early)] == [
        (0.0, "late")
    ]
    for wrong in ("", "xyz", "g" * 32):
        with pytest.raises(ConfigError, match="trace_id"):
            add_feedback(store.database, wrong, 1.0)
    with pytest.raises(ConfigError, match="value"):
        add_feedback(store.database, early, float("inf"))


def test_files_are_loaded_once_and_users_forgotten(store: ResultsStore, tmp_path: Path) -> None:
    path, files = tmp_path / "results.db", tmp_path / "more.jsonl"
    files.write_text("".join(json.dumps(each) + "\n" for each in records(20)) + "broken\n")
    assert "20 evaluations of 20 runs" in command("results", "load", path, files).output
    assert "20 known, 1 line" in command("results", "load", path, files).output
    assert "runs and" in command("results", "forget", path, "--user", "user-1").output
    with store.database.reading() as connection:
        found = measure(connection, stored_slices(connection), Window(), ())[()]
        assert connection.exec_driver_sql("SELECT count(*) FROM runs WHERE user_id = 'user-1'").scalar() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM runs").scalar() == found.scored.n
    command("results", "forget", path, code=2)
    assert "0 runs deleted" in command("results", "trim", path, "--older-than", "520w").output


def test_the_test_of_a_data_set_with_any_name_is_python() -> None:
    compile(file_of_test([], 'it\'s "done".jsonl', {"grounded": 1.0}), "test_run.py", "exec")


def test_nothing_chosen_is_said(store: ResultsStore, tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    assert "--trace" in command("export", path, "--trace", "0" * 32, code=2).output
    assert "--scorer" in command("export", path, "--scorer", "none", code=2).output
    store.write([GROUNDLESS])
    refused = command("export", path, "--scorer", "grounded_in_tools", "--out", tmp_path, code=2).output
    assert "cannot be written: Is a directory" in " ".join(refused.split())


def test_feedback_in_code_reaches_the_store_and_never_raises(tmp_path: Path) -> None:
    destination = {"results": {"path": tmp_path / "live.db"}}
    assert otel_evals.feedback("ab" * 16, True) is False
    otel_evals.configure(rules=[Rule(answered())], destinations=[destination], wrap_exporters=False)
    try:
        assert otel_evals.feedback(int("ab" * 16, 16), True, comment="thanks, sk-" + "a1B2" * 10)
        for wrong in (("none", 1.0), ("ab" * 16, "much"), (None, None)):
            assert otel_evals.feedback(*wrong) is False  # type: ignore[arg-type]
    finally:
        otel_evals.shutdown()
    store = ResultsStore(tmp_path / "live.db", create=False)
    (kept,) = feedback_on(store.database, "ab" * 16)
    store.close()
    assert (kept["value"], kept["comment"]) == (1.0, "thanks, [redacted]")


def test_runs_that_users_complained_about_stand_in_the_label_queue(store: ResultsStore) -> None:
    praised = [record(i, 1.0)["trace_id"] for i in (5, 9)]
    for trace in praised:
        add_feedback(store.database, trace, False)
    with store.database.reading() as connection:
        queues = label_queue(connection, stored_slices(connection))
    assert sorted(run.trace_id for run in queues["Users disagree"]) == sorted(praised)
    assert queues["Low scores"][0].trace_id == GROUNDLESS["trace_id"]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_users_disagree_with_a_low_error_rate_only(store: ResultsStore, value: float) -> None:
    run = record(100, value, scorer="tool_error_rate", direction="lower_is_better")
    store.write([run])
    add_feedback(store.database, run["trace_id"], False)
    with store.database.reading() as connection:
        queues = label_queue(connection, stored_slices(connection))
    assert [each.value for each in queues["Users disagree"]] == ([0.0] if value == 0.0 else [])


def test_feedback_may_have_any_text(store: ResultsStore) -> None:
    trace = GROUNDLESS["trace_id"]
    odd = "a\ud800b\x00c"
    add_feedback(store.database, trace, 1.0, name=odd, comment=odd, source=odd)
    (found,) = feedback_on(store.database, trace)
    assert (found["name"], found["source"], found["comment"]) == ("a?bc", "a?bc", "a?bc")
