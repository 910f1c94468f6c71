"""Our code-only scorers against the recorded cases of the original."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.oracle import code_scorers
from tests.oracle.__main__ import judge
from tests.oracle.cases import Case, load

FOLDER = os.environ.get("OTEL_EVALS_ORACLE")
pytestmark = pytest.mark.skipif(not FOLDER, reason="OTEL_EVALS_ORACLE is not set")


def cases() -> list[Case]:
    files = sorted(Path(FOLDER or ".").glob("*.json"))
    return [case for file in files for case in load(file) if case.scorer in code_scorers.BUILD]


def test_no_code_scorer_differs_without_a_rule() -> None:
    verdicts = {case.id: judge(case) for case in cases()}
    assert len(verdicts) > 200
    assert [line for line in verdicts.items() if line[1][0] == "different"] == []


def test_no_rule_excuses_a_score_that_the_original_does_not_give() -> None:
    """Neither where ours is equal, nor where a rule covers the case as it was recorded."""
    scored = [case for case in cases() if case.score is not None]
    wrong = [replace(c, expected={**c.expected, "score": (c.score or 0) + 0.2}) for c in scored]
    assert [case.id for case in wrong if judge(case)[0] != "different"] == []
