"""The scorer reference is what the docstrings say, and they say what a reader needs."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from otel_evals import scorers

DOCS = Path(__file__).parents[3] / "docs"
JUDGED = [name for name in scorers.__all__ if "model" in inspect.signature(getattr(scorers, name)).parameters]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate_scorer_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    text = (DOCS / "scorer-reference.md").read_text(encoding="utf-8")
    assert text == generator().page(), generator().FIX


def test_every_built_in_scorer_is_entered_everywhere() -> None:
    assert [path.name for path in generator().outdated()] == [], generator().FIX


def test_a_new_scorer_is_entered_by_its_function_alone(tmp_path: Path, monkeypatch: Any) -> None:
    """A copy of the package with one more function: each place is named that lacks it."""
    made = generator()
    text = '"""New."""\n\n\ndef brevity() -> FunctionScorer:\n    """Short.\n\n    Range: 0..1.\n    """\n'
    for path in made.FOLDER.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "brief.py").write_text(text)
    monkeypatch.setattr(made, "FOLDER", tmp_path)
    changed = {path.name: text for path, text in made.outdated().items()}
    assert set(changed) == {"__init__.py", "pyproject.toml"}
    assert '"scorers.brief": "brevity"' in changed["__init__.py"]
    assert 'brevity = "otel_evals.scorers:brevity"' in changed["pyproject.toml"]


@pytest.mark.parametrize("name", JUDGED)
def test_a_judge_scorer_says_what_a_reader_needs(name: str) -> None:
    text = inspect.getdoc(getattr(scorers, name)) or ""
    for fact in ("Range:", "Formula:", "Needs:", "Not scored:", "Cost:"):
        assert fact in text
    for parameter in inspect.signature(getattr(scorers, name)).parameters:
        shared = f"- `{parameter}`: " in generator().HEAD
        assert shared or f"    {parameter}: " in text, f"{name} does not explain {parameter}"
