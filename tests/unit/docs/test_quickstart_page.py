"""What the README and the quickstart show really runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from otel_evals._internal.config.loader import build_config

ROOT = Path(__file__).parents[3]
PAGES = (
    "README.md",
    "docs/evals.md",
    "docs/judge.md",
    "docs/quickstart.md",
    "docs/scorers.md",
    "docs/statistics.md",
)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "number"), [(page, i) for page in PAGES for i in range(len(blocks(page, "python")))]
)
def test_every_python_block_runs_as_it_stands(page: str, number: int, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(blocks(page, "python")[number], encoding="utf-8")
    environment = {**os.environ, "OPENAI_API_KEY": "k"}  # the page says to set it
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_every_yaml_block_is_a_configuration(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "yaml"):
        assert build_config(**yaml.safe_load(block)).rules


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_readme_names_only_commands_that_dev_py_has() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in (*PAGES, "CONTRIBUTING.md"))
    named = set(re.findall(r"python3 dev\.py (\w+)", text))
    known = set(
        re.findall(r"^python3 dev\.py (\w+)", (ROOT / "dev.py").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {"demo", "test"} <= named <= known


def test_no_page_installs_from_an_index_on_which_there_is_no_release() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    wrong = [
        page.name for page in pages if re.search(r"pip install [^\n`]*otel-evals", page.read_text("utf-8"))
    ]
    assert wrong == []
