"""The tutorials do what their pages show. `python -m tests.pipeline.test_tutorials` writes their output."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_framework_pages import settled
from tests.support.servers import clean_environment
from tests.support.stub_openai import StubOpenAI

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
DOCS = Path(__file__).parents[2] / "docs"
JUDGE, ALARM = DOCS / "first-judge.md", DOCS / "monitoring.md"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a tutorial; one on a longer page is its last section."""
    text = page.read_text(encoding="utf-8").split("\n## From an alarm to a failing test\n")[-1]
    return re.findall(rf"^```(?:{language})\n(.*?)^```", text, re.M | re.S)


def command(page: Path, starts: str) -> list[str]:
    """A command of the page by its first words."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", "").splitlines()
    return shlex.split(next(line for line in lines if line.startswith(starts)))


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a page with the programs of this environment."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = clean_environment() | {"PATH": programs, "NO_COLOR": "1"} | environment
    return subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)


def judge(body: dict[str, Any]) -> dict[str, Any]:
    """Take answers with a polite word for helpful ones."""
    polite = re.search("please|thank", json.dumps(body["messages"]), re.I)
    finding = {"verdict": "met" if polite else "unmet", "reason": "" if polite else "No polite word."}
    return {"criteria": [{"criterion": n, **finding} for n in (1, 2)]}


def score_two_answers(folder: Path, server: str) -> str:
    (folder / "first_judge.py").write_text(blocks(JUDGE, "python")[0])
    done = run(["python", "first_judge.py"], folder, OPENAI_BASE_URL=server, OPENAI_API_KEY="any")
    assert (done.returncode, done.stderr) == (0, "")
    return settled(done.stdout)


def calibrate(folder: Path, server: str) -> str:
    (folder / "labels.jsonl").write_text(blocks(JUDGE, "json")[0])
    words = command(JUDGE, "otel-evals judge calibrate")
    done = run(words, folder, OPENAI_BASE_URL=server, OPENAI_API_KEY="any")
    assert done.returncode == 0, done.stderr
    return re.sub(r"\n\s*$", "\n", done.stdout)


def fail(folder: Path) -> str:
    """Run the demo and the export; return the lines of pytest that say why the test fails."""
    for words in (["otel-evals", "demo"], command(ALARM, "otel-evals export")):
        assert run(words, folder).returncode == 0
    done = run([*command(ALARM, "pytest"), "-p", "no:cacheprovider"], folder)
    assert done.returncode == 1, done.stdout
    return "".join(line + "\n" for line in done.stdout.splitlines() if line.startswith("E "))


@pytest.mark.parametrize("step", [score_two_answers, calibrate])
def test_the_first_judge_prints_what_the_page_shows(step: Callable[[Path, str], str], tmp_path: Path) -> None:
    shown = dict(zip((score_two_answers, calibrate), blocks(JUDGE, "text|console"), strict=True))
    with StubOpenAI(judge) as server:
        assert step(tmp_path, server.url) == shown[step]


def test_an_alarm_becomes_a_test_that_fails_until_the_agent_is_fixed(tmp_path: Path) -> None:
    assert fail(tmp_path) == blocks(ALARM, "text")[0]
    (tmp_path / "test_run.py").write_text(blocks(ALARM, "python")[0])
    done = run(["pytest", "test_run.py", "-p", "no:cacheprovider"], tmp_path)
    assert done.returncode == 0, done.stdout


def write() -> None:
    """Write the output of each step into its page."""
    with tempfile.TemporaryDirectory() as folder, StubOpenAI(judge) as server:
        here = Path(folder)
        for page, language, text in (
            (JUDGE, "text", score_two_answers(here, server.url)),
            (JUDGE, "console", calibrate(here, server.url)),
            (ALARM, "text", fail(here)),
        ):
            old = blocks(page, language)[0]
            whole = page.read_text(encoding="utf-8")
            page.write_text(whole.replace(f"```{language}\n{old}```", f"```{language}\n{text}```", 1))


if __name__ == "__main__":
    write()
