"""A package outside the repository registers a scorer and a destination, which a configuration names.

python own_package.py    in an empty folder; exits with 0 if its scorer scores a file for its destination
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "house"
version = "1.0"

[project.entry-points.otel_evals_scorer]
polite = "house:polite"

[project.entry-points.otel_evals_destination]
list = "house:ListDestination"
"""
MODULE = '''
from otel_evals import Run, Scorer, scorer
from otel_evals.destinations import Unaccepted


def polite(words: tuple[str, ...] = ("please", "thank")) -> Scorer:
    """Return 1 if the answer has a polite word.

    Args:
        words: what counts as polite.
    """

    @scorer(id="polite", version="1")
    def score(run: Run) -> bool:
        return any(word in (run.output or "").lower() for word in words)

    return score


class ListDestination:
    """Appends a line for each score to a file."""

    name = "list"

    def __init__(self, path: str) -> None:
        self._path = path

    async def export(self, batch) -> list[Unaccepted]:
        with open(self._path, "a") as file:
            for scored in batch:
                for each in scored.evaluations:
                    file.write(f"{scored.run.trace_id} {each.scorer_id} {each.outcome.value}\\n")
        return []

    async def shutdown(self) -> None:
        pass
'''
RULES = """\
rules:
  - scorer: polite
    options: {words: [thank]}
destinations:
  - list: {path: scores.txt}
"""


def run(*words: str, code: int = 0) -> str:
    environment = {**os.environ, "PYTHONPATH": "installed"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def span(number: int, answer: str) -> dict[str, object]:
    said = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": answer}]}])
    texts = {"gen_ai.operation.name": "invoke_agent", "gen_ai.output.messages": said}
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "invoke_agent",
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000001000000000",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }


Path("package").mkdir()
Path("package/pyproject.toml").write_text(PROJECT)
Path("package/house.py").write_text(MODULE)
offline = ("--no-index", "--no-deps", "--no-build-isolation", "--target", "installed")
run(sys.executable, "-m", "pip", "install", "--quiet", *offline, "./package")
assert "polite" in run("otel-evals", "scorers", "list")
assert "words" in run("otel-evals", "scorers", "show", "polite")
assert "list" in run("otel-evals", "destinations", "list")
Path("rules.yaml").write_text(RULES)
run("otel-evals", "config", "check", "rules.yaml")
spans = [span(1, "Thank you, it ships today."), span(2, "No.")]
request = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "app"}, "spans": spans}]}]}
Path("traces.json").write_text(json.dumps(request))
run("otel-evals", "score", "traces.json", "--config", "rules.yaml")
received = sorted(Path("scores.txt").read_text().splitlines())
assert received == [f"{1:032x} polite 1.0", f"{2:032x} polite 0.0"], received
Path("rules.yaml").write_text(RULES.replace("words: [thank]", "word: thank"))
assert "did you mean 'words'" in run("otel-evals", "config", "check", "rules.yaml", code=2)
print("registered, listed, configured, and its scores received")
