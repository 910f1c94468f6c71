"""`otel-evals config`: mistakes, or what a file does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app

FILE = """
rules:
  - answered
  - scorer: hallucination
    options: {model: {model: openai/own, input_price: 1.0, output_price: 10.0}}
    sample: ratio(0.05) | errors()
    when: {agent_name: [support, sales], tenant.id: acme}
destinations: [console]
"""


def command(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["config", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (path := tmp_path / "evals.yaml").write_text(FILE)
    return path


def test_check_says_what_is_scored_how_often_and_by_how_many_calls(file: Path) -> None:
    done = command("check", file)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "2 rules, 1 destination" in said
    assert "answered judges runs how often every one judge calls none" in said
    assert "runs where agent_name is 'support' or 'sales' and tenant.id is 'acme'" in said
    assert "ratio(0.05) | errors(): 5% of runs without errors, at most 100% of any" in said
    assert "judge calls at least 1 call to openai/own per scored run" in said
    assert "console" in said.rpartition("Scores go to")[2]


def test_check_counts_the_judges_of_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from otel_evals.scorers import hallucination, votes\n"
        "voted = votes(hallucination('openai-compatible/own'), 3)\n"
    )
    (tmp_path / "panel_of_this_folder.py").write_text(code)
    (path := tmp_path / "evals.yaml").write_text("rules: ['python:panel_of_this_folder:voted']\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "at least 3 calls to own per scored run" in command("check", path).output


def test_modules_in_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from otel_evals import scorer\n@scorer(version='1')\ndef own(run):\n    return 1.0\n"
    (tmp_path / "scorers_of_this_folder.py").write_text(code)
    (path := tmp_path / "evals.yaml").write_text("rules: ['python:scorers_of_this_folder:own']\n")
    monkeypatch.setattr("sys.path", [*sys.path])
    assert "fix: add its folder to PYTHONPATH" in command("check", path).output
    monkeypatch.chdir(tmp_path)
    assert command("check", path).exit_code == 0


def test_check_prints_every_mistake_on_a_line_and_fails(tmp_path: Path) -> None:
    (path := tmp_path / "evals.yaml").write_text("rules: [answerd]\nhold: soon\nholdd: 1\n")
    done = command("check", path)
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert [line.split(": ")[1].removeprefix(str(path)) for line in lines] == [":1:9", ":2:1", ":3:1"]
    assert "did you mean 'answered'?" in lines[0]
