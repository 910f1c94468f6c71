"""The jobs of new users, as scripts that end in the state that the job asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.test_framework_pages import PLACE
from tests.support.jaeger_server import jaeger_program, jaeger_server
from tests.support.servers import clean_environment, interop_program

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "frameworks" / "scripted_model.py"
JOBS = Path(__file__).parent / "jobs"
ELSEWHERE = {"langgraph_phoenix", "openai_agents_langfuse", "vercel_ai_jaeger"}
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
        [sys.executable, MODEL, python, JOBS / f"{job}.py"],
        cwd=folder,
        env=clean_environment() | {"PATH": path} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("job", sorted({job.stem for job in JOBS.glob("*.py")} - ELSEWHERE))
def test_a_job_ends_in_the_state_that_it_asks_for(job: str, tmp_path: Path) -> None:
    run(job, tmp_path, Path(sys.executable))


def test_the_job_of_langgraph_and_phoenix(phoenix: str, tmp_path: Path) -> None:
    run("langgraph_phoenix", tmp_path, environment("frameworks"), PHOENIX_COLLECTOR_ENDPOINT=phoenix)


def test_the_job_of_openai_agents_and_langfuse(tmp_path: Path) -> None:
    run("openai_agents_langfuse", tmp_path, environment("already-langfuse"))


def test_the_job_of_the_vercel_ai_sdk_and_jaeger(tmp_path: Path) -> None:
    program, modules = jaeger_program(), Path(f"{PLACE}-frameworks-node", "node_modules")
    if program is None or not modules.exists() or shutil.which("node") is None:
        pytest.skip("run tests/interop/setup.sh first, with npm and Go on the PATH")
    (searched,) = re.findall(r"tags=(\{.+?\})", (ROOT / "docs" / "attachment.md").read_text(encoding="utf-8"))
    assert searched in (JOBS / "vercel_ai_jaeger.py").read_text(encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(modules)
    with jaeger_server(program) as (query, otlp):
        run("vercel_ai_jaeger", tmp_path, Path(sys.executable), JAEGER_URL=query, JAEGER_OTLP_URL=otlp)
