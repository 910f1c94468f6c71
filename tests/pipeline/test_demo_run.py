"""`otel-evals demo` as a person starts it: what it finds, what it leaves behind, what it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FACTS = {"wrong_number", "wrong_date", "glossed_error"}


def run_demo(out: Path, *options: str) -> str:
    """Run the command in a process of its own and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    code = "from otel_evals._internal.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "demo", "--out", str(out), *options],
        env=environment | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def records(out: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every run with its scores, and the truth of it."""
    truths = [json.loads(line) for line in (out / "truth.jsonl").read_text().splitlines()]
    truth_of = {truth["trace_id"]: truth for truth in truths}
    lines = [json.loads(line) for line in (out / "scores.jsonl").read_text().splitlines()]
    runs = [run for run in lines if not checks_of(run)]
    assert {run["trace_id"] for run in runs} == set(truth_of)
    assert len(runs) == len(truths)
    runs += [run for run in lines if checks_of(run)]
    return [(run, truth_of[run["trace_id"]]) for run in runs]


def checks_of(run: dict[str, Any]) -> list[Any]:
    """The evaluations of a check: it is delivered by itself."""
    return [each for each in run["evaluations"] if each["verdict"] is not None]


def alarm_rate(out: Path, scorer: str, faults: set[str | None]) -> float:
    """The share of runs with one of these faults that the scorer gave less than full marks."""
    values = [
        evaluation["value"]
        for run, truth in records(out)
        if truth["fault"] in faults
        for evaluation in run["evaluations"]
        if evaluation["scorer"] == scorer
    ]
    assert len(values) > 10
    return sum(value is not None and value < 1 for value in values) / len(values)


@pytest.mark.parametrize("seed", [7, 2026])
def test_the_scorers_find_the_planted_faults_and_raise_few_false_alarms(seed: int, tmp_path: Path) -> None:
    printed = run_demo(tmp_path, "--runs", "400", "--seed", str(seed))
    assert alarm_rate(tmp_path, "grounded_in_tools", FACTS) >= 0.95
    assert alarm_rate(tmp_path, "tool_call_accuracy", {"wrong_tool"}) >= 0.95
    assert alarm_rate(tmp_path, "grounded_in_tools", {None}) < 0.05
    assert alarm_rate(tmp_path, "tool_call_accuracy", {None}) < 0.05
    shown = f"{alarm_rate(tmp_path, 'grounded_in_tools', FACTS):.1%}"
    assert re.search(rf"all of these .* {shown} ", printed)
    assert str(tmp_path) in "".join(printed.split("\n"))


def test_a_guard_sends_the_fallback_instead_of_planted_faults(tmp_path: Path) -> None:
    printed = run_demo(tmp_path, "--runs", "200", "--guard", "--seed", "5")
    effects = [
        (evaluation["effect"], truth["sent"] != truth["answer"], truth["fault"])
        for run, truth in records(tmp_path)
        for evaluation in run["evaluations"]
        if evaluation["scorer"] == "grounded_in_tools"
    ]
    assert {(effect, replaced) for effect, replaced, _ in effects} == {("allowed", False), ("blocked", True)}
    assert [fault for effect, _, fault in effects if effect == "blocked" and fault is None] == []
    assert sum(effect == "blocked" for effect, *_ in effects) > 30
    assert "Blocked answers" in printed
