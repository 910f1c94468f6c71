"""The page on what can be recovered says what the captures say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.captures import FOLDERS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")
def test_the_page_is_as_freshly_generated() -> None:
    spec = importlib.util.spec_from_file_location("generate_recovery", DOCS / "generate_recovery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fresh = module.generate(FOLDERS)
    assert (DOCS / "recovery.md").read_text() == fresh, "run docs/generate_recovery.py"
