"""The code on every page runs, and every YAML block is a configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from otel_evals._internal.cli.backends import backends
from otel_evals._internal.config.loader import build_config

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = {
    "docs/monitoring.md-1": "as a test, by tests/pipeline/test_tutorials.py",
    "docs/existing-tracing.md": "with their libraries, by tests/interop/test_already.py",
    "docs/first-judge.md-0": "with a model server, by tests/pipeline/test_tutorials.py",
    "docs/frameworks/": "with their frameworks, by tests/interop/test_framework_pages.py",
    "docs/backends/README.md": "against a server, by tests/unit/docs/test_destinations_page.py",
    "docs/backends/": "with their libraries, by tests/interop/test_already.py",
    "docs/deploy.md-4": "with a gateway, by tests/pipeline/test_gateway_sidecar.py",
}
"""Pages and blocks whose Python runs in another test."""
OTHERS = {"receivers", "processors", "exporters", "service", "spec"}
"""Sections that only the files of a Collector or of Kubernetes have."""


def blocks(language: str) -> dict[str, str]:
    """The fenced blocks of all pages by page and number."""
    found = {}
    for page in PAGES:
        fenced = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
        found |= {f"{page.relative_to(ROOT)}-{number}": str(each) for number, each in enumerate(fenced)}
    return found


PYTHON = {name: code for name, code in blocks("python").items() if not name.startswith(tuple(ELSEWHERE))}
QUICK = {"README.md-0"}
"""Run in the first tier; each block takes a process."""
YAML = {name: each for name, each in blocks("yaml").items() if not OTHERS & set(yaml.safe_load(each))}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in PYTHON],
)
def test_every_python_block_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """In a process of its own, since it may configure one; a decorated scorer needs a file to read."""
    script = tmp_path / "block.py"
    script.write_text(PYTHON[name], encoding="utf-8")
    environment = {**os.environ, "OPENAI_API_KEY": "k"}  # the pages say to set it
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", YAML)
def test_every_yaml_block_is_a_configuration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for variable in {each for backend in backends().values() for each in backend.needs}:
        monkeypatch.setenv(variable, "any" if variable.startswith("WANDB") else "http://127.0.0.1:9")
    (tmp_path / "my_package").mkdir()
    hook = "def take_out_names(text: str) -> str: return text"
    (tmp_path / "my_package" / "redaction.py").write_text(hook)
    (tmp_path / "company.pem").touch()
    text = YAML[name].replace("/var/lib/otel-evals", str(tmp_path)).replace("/etc/ssl", str(tmp_path))
    options = yaml.safe_load(text)
    assert build_config(**{"rules": ["answered"]} | options).rules
