"""An own scorer is compared with labels, and guards a data set in CI.

python own_judge.py    in an empty folder; exits with 0 if CI fails on the bad answer and passes without it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCORER = '''
from otel_evals import Run, scorer


@scorer
def polite(run: Run) -> bool:
    """Return True if the answer has a polite word."""
    return any(word in (run.output or "").lower() for word in ("please", "thank", "sorry"))
'''
TEST = """
import pytest
from otel_evals.testing import read_items, run_evals
from house import polite


def test_answers_are_polite():
    result = run_evals("items.jsonl", answers.get, [polite], thresholds={"polite": 0.9})
    assert result.status == "passed", result


answers = ANSWERS
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": "."}


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def check(answers: dict[str, str], code: int) -> str:
    Path("items.jsonl").write_text("".join(json.dumps({"input": each}) + "\n" for each in answers))
    Path("test_house.py").write_text(TEST.replace("ANSWERS", repr(answers)))
    return run(sys.executable, "-m", "pytest", "-q", "test_house.py", "-p", "no:cacheprovider", code=code)


Path("house.py").write_text(SCORER)
said = [("Thank you, it ships today.", 1), ("No.", 0), ("Sorry, it is late.", 1), ("Ask someone else.", 0)]
labels = [
    {"id": str(i), "input": "Hi", "output": text, "label": label} for i, (text, label) in enumerate(said)
]
Path("labels.jsonl").write_text("".join(json.dumps(each) + "\n" for each in labels))
printed = run("otel-evals", "judge", "calibrate", "labels.jsonl", "--scorer", "python:house:polite")
assert "4 of 4 examples scored" in printed
assert "accuracy 1.00" in printed
good = {f"question {number}": "Thank you." for number in range(12)}
assert "polite" in check(good | {"question 3": "No.", "question 4": "No."}, code=1)
check(good, code=0)
print("CI fails on impolite answers, and passes without them")
