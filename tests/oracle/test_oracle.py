"""Our judge scorers against the recorded cases of the original."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle import judge_scorers
from tests.oracle.__main__ import judge, main
from tests.oracle.cases import Case, load

FOLDER = os.environ.get("OTEL_EVALS_ORACLE")
pytestmark = pytest.mark.skipif(not FOLDER, reason="OTEL_EVALS_ORACLE is not set")


def cases() -> list[Case]:
    files = sorted(Path(FOLDER or ".").glob("*.json")) if FOLDER else []
    return [case for file in files for case in load(file) if case.scorer in judge_scorers.BUILD]


def test_no_judge_scorer_differs_without_a_rule() -> None:
    verdicts = {case.id: judge(case) for case in cases()}
    assert len(verdicts) > 150
    assert [line for line in verdicts.items() if line[1][0] == "different"] == []


def test_no_rule_excuses_a_wrong_score() -> None:
    plain = [case for case in cases() if judge(case)[0] == "equal" and case.score is not None]
    wrong = [replace(c, expected={**c.expected, "score": (c.score or 0) + 0.2}) for c in plain]
    excused = [case.id for case in wrong if judge(case)[0] != "different"]
    assert excused == []


def test_the_command_tells_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(FOLDER or ".") / "oracle.json").read_text()
    path = tmp_path / "wrong.json"
    path.write_text(text.replace('"score": 0.67', '"score": 0.68'))
    assert main([str(path)]) == 1
    assert "different" in capsys.readouterr().out
