"""Our scorers against the recorded cases of the original."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.oracle.__main__ import BUILD, judge, main
from tests.oracle.cases import Case, load

FOLDER = os.environ.get("OTEL_EVALS_ORACLE", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="OTEL_EVALS_ORACLE is not set")


@cache
def cases() -> list[Case]:
    files = sorted(Path(FOLDER).glob("*.json"))
    return [case for file in files for case in load(file) if case.scorer in BUILD]


def test_no_scorer_differs_without_a_rule() -> None:
    verdicts = {case.id: judge(case) for case in cases()}
    assert len(verdicts) > 350
    assert [line for line in verdicts.items() if line[1][0] == "different"] == []


def test_no_rule_excuses_a_wrong_score() -> None:
    """Neither where ours is equal, nor, in code, where a rule covers the case as it was recorded."""
    scored = [case for case in cases() if case.score is not None]
    plain = [case for case in scored if case.kind != "llm" or judge(case)[0] == "equal"]
    wrong = [replace(c, expected={**c.expected, "score": (c.score or 0) + 0.2}) for c in plain]
    assert [case.id for case in wrong if judge(case)[0] != "different"] == []


def test_the_command_tells_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong.json"
    path.write_text((Path(FOLDER) / "oracle.json").read_text().replace('"score": 0.67', '"score": 0.68'))
    assert main([str(path)]) == 1
    assert "different" in capsys.readouterr().out
