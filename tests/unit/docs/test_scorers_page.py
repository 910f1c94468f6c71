"""The scorer reference is what the docstrings say, and they say what a reader needs."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

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
    assert text == generator().page(), "run: python docs/generate_scorer_reference.py"


@pytest.mark.parametrize("name", JUDGED)
def test_a_judge_scorer_says_what_a_reader_needs(name: str) -> None:
    text = inspect.getdoc(getattr(scorers, name)) or ""
    for fact in ("Range:", "Formula:", "Needs:", "Not scored:", "Cost:"):
        assert fact in text
    for parameter in inspect.signature(getattr(scorers, name)).parameters:
        shared = f"- `{parameter}`: " in generator().HEAD
        assert shared or f"    {parameter}: " in text, f"{name} does not explain {parameter}"
