"""The programs of examples/frameworks, with their real frameworks: they run, are scored, and print what their
page of docs/frameworks shows. `python -m tests.interop.test_framework_pages` writes both into the pages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from tests.support.gateways import GatewayProcess
from tests.support.servers import clean_environment
from tests.support.waits import eventually

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "frameworks"
PLACE = os.environ.get("OTEL_EVALS_INTEROP", str(ROOT / ".venv-interop"))
PROGRAMS = {
    "claude-agent-sdk": "claude_agent.py",
    "crewai": "crewai_agent.py",
    "google-adk": "google_adk_agent.py",
    "langgraph": "langgraph_agent.py",
    "llamaindex": "llamaindex_agent.py",
    "mastra": "mastra_agent.mjs",
    "openai-agents": "openai_agents.py",
    "pydantic-ai": "pydantic_ai_agent.py",
    "strands": "strands_agent.py",
    "vercel-ai": "vercel_ai_agent.mjs",
}
ELSEWHERE = {"genkit", "quarkus", "spring-ai"}
"""Pages without a program: frameworks in languages that no environment of the tests has."""
HERE = {"openai-agents", "pydantic-ai"}
"""Frameworks that the development environment has."""
SETTINGS = {"google-adk": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}}
"""Environment variables that the page asks for."""
RUN = re.compile(r"^\S+ · .*\n(?:  .*\n)+", re.M)
"""A run on the console."""


def page(name: str) -> Path:
    return ROOT / "docs" / "frameworks" / f"{name}.md"


def command(name: str, folder: Path) -> list[str | Path]:
    """How the program of a page is run in its framework's environment."""
    program = EXAMPLES / PROGRAMS[name]
    if program.suffix == ".mjs":
        modules = Path(f"{PLACE}-frameworks-node", "node_modules")
        if not modules.exists() or shutil.which("node") is None:
            pytest.skip("run tests/interop/setup.sh first, with npm on the PATH")
        # Node looks for packages next to the program.
        (folder / "node_modules").symlink_to(modules)
        return ["node", shutil.copy(program, folder)]
    group = "frameworks-crewai" if name == "crewai" else "frameworks"
    python = Path(sys.executable if name in HERE else f"{PLACE}-{group}/bin/python")
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    return [python, program]


def run(name: str, folder: Path, **settings: str) -> str:
    """Run a page's program with the scripted model; returns what it printed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "scripted_model.py", *command(name, folder)],
        cwd=folder,
        env=clean_environment() | {"HOME": str(folder)} | SETTINGS.get(name, {}) | settings,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def output(name: str, folder: Path) -> str:
    """The console output of a page's program: its own, or that of the gateway it sends to."""
    if "import otel_evals" in program_of(name):
        return settled(run(name, folder))
    options = yaml.safe_load((EXAMPLES / "gateway.yaml").read_text(encoding="utf-8"))
    del options["gateway"]
    with GatewayProcess(folder, **options) as gateway:
        run(name, folder, OTEL_EXPORTER_OTLP_ENDPOINT=gateway.endpoint)
        eventually(lambda: len(RUN.findall(gateway.log.read_text())) == 2)
        return settled(gateway.log.read_text())


def program_of(name: str) -> str:
    return (EXAMPLES / PROGRAMS[name]).read_text(encoding="utf-8")


def settled(text: str) -> str:
    """Put runs and scores in order, and leave out times and ids, which differ each time."""
    return "\n".join(sorted(map(settled_run, RUN.findall(text)), key=lambda run: run.splitlines()[1]))


def settled_run(text: str) -> str:
    head, asked, answered, *rest = text.splitlines(keepends=True)
    scores = sorted(re.findall(r"  [●○✗].*\n(?:      .*\n)*", "".join(rest)))
    cost = re.findall(r"  judged for .*\n", "".join(rest))
    return "".join([re.sub(r"[\d.]+ s · trace \w+", "… s · trace …", head), asked, answered, *scores, *cost])


def block(name: str, language: str) -> str:
    """The one block of a language that a page has."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", page(name).read_text(encoding="utf-8"), re.M | re.S)
    return str(found)


def language(name: str) -> str:
    return "js" if PROGRAMS[name].endswith(".mjs") else "python"


def test_every_program_has_its_page() -> None:
    pages = {path.stem for path in page("any").parent.glob("*.md")}
    assert pages == set(PROGRAMS) | ELSEWHERE
    programs = {path.name for pattern in ("*.py", "*.mjs") for path in EXAMPLES.glob(pattern)}
    assert programs - {"scripted_model.py"} == set(PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page_shows_its_program(name: str) -> None:
    assert block(name, language(name)) == program_of(name)


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_its_page_shows(name: str, tmp_path: Path) -> None:
    assert output(name, tmp_path) == block(name, "text")


def write() -> None:
    """Write program and output into the pages named, or into all."""
    for name in sys.argv[1:] or PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            printed = output(name, Path(folder))
        text = page(name).read_text(encoding="utf-8")
        for kind, content in ((language(name), program_of(name)), ("text", printed)):
            text = text.replace(f"```{kind}\n{block(name, kind)}```", f"```{kind}\n{content}```")
        page(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
