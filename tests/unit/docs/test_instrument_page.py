"""What the page on instrumenting by hand shows really runs, and its tables tell the truth."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import otel_evals_instrumentation as instrumentation

PAGE = Path(__file__).parents[3] / "docs" / "instrument.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_python_block_runs_as_it_stands(number: int, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(BLOCKS[number], encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_method_of_a_span_is_named() -> None:
    spans = [getattr(instrumentation, name) for name in instrumentation.__all__ if name.endswith("Span")]
    methods = {name for span in spans for name in dir(span) if name.startswith(("set_", "add_"))}
    assert [name for name in methods if f"`{name}`" not in TEXT] == []
    assert [span.__name__ for span in spans if f"`{span.__name__}`" not in TEXT] == []


def test_every_link_leads_somewhere() -> None:
    links = [link for link in re.findall(r"\[[^\]\n]+\]\(([^)#*]+)\)", TEXT) if "://" not in link]
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
