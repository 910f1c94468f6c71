"""The jobs of new users, as scripts that end in the state that the job asks for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import clean_environment, interop_program

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
MODEL = Path(__file__).parents[2] / "examples" / "frameworks" / "scripted_model.py"
JOBS = sorted((Path(__file__).parent / "jobs").glob("*.py"))
ELSEWHERE = {"langgraph_phoenix", "openai_agents_langfuse"}
"""Jobs that need another environment, or a server; they have tests of their own."""


def environment(name: str) -> Path:
    """The Python of an environment of setup.sh."""
    python = interop_program("python", f"-{name}")
    if python is None:
        pytest.skip("run tests/interop/setup.sh first")
    return python


def run(job: str, folder: Path, python: Path, **variables: str) -> None:
    """Run a job to its end in an empty folder, with a model that answers by script."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, MODEL, python, Path(__file__).parent / "jobs" / f"{job}.py"],
        cwd=folder,
        env=clean_environment() | {"PATH": path} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("job", [job.stem for job in JOBS if job.stem not in ELSEWHERE])
def test_a_job_ends_in_the_state_that_it_asks_for(job: str, tmp_path: Path) -> None:
    run(job, tmp_path, Path(sys.executable))


def test_the_job_of_langgraph_and_phoenix(phoenix: str, tmp_path: Path) -> None:
    run("langgraph_phoenix", tmp_path, environment("frameworks"), PHOENIX_COLLECTOR_ENDPOINT=phoenix)


def test_the_job_of_openai_agents_and_langfuse(tmp_path: Path) -> None:
    run("openai_agents_langfuse", tmp_path, environment("already-langfuse"))
