"""What docs/scorers.md shows works, and its table names fields that a run has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from otel_evals import Run, load_config

PAGE = (Path(__file__).parents[3] / "docs" / "scorers.md").read_text(encoding="utf-8")
DOC = PAGE.partition("## Conversations\n")[2]


def example(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.+?)```", DOC, re.S)
    return str(code)


def test_the_example_in_yaml_is_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(example("yaml"))
    (rule,) = load_config(tmp_path / "config.yaml").rules
    assert (rule.scope, rule.idle) == ("conversation", 600.0)


@pytest.mark.slow
def test_the_example_in_python_runs(tmp_path: Path) -> None:
    """In a process of its own, since it configures one; a decorated scorer needs a file to read."""
    code = f"{example('python')}\nimport otel_evals\nprint(sorted(otel_evals.stats().rules))"
    (tmp_path / "example.py").write_text(code)
    command = [sys.executable, str(tmp_path / "example.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['settled_quickly@conversation', 'tool_call_accuracy@conversation']"


def test_the_table_tells_of_fields_that_a_run_has() -> None:
    table = DOC.split("## What the scorer sees")[1].split("##")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert len(named) > 20
    assert {
        name for name in named if name not in Run.__dataclass_fields__ and not hasattr(Run, name)
    } == set()
