"""Docs and examples show public modules only: what they import, users may import."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.public_api import exported, public_modules

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
PROGRAMS = sorted((ROOT / "examples").rglob("*.py"))
PUBLIC = {module.__name__: {*exported(module)} for module in public_modules()}


def code_of(path: Path) -> Iterator[str]:
    """Yield a program, or the Python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield text
    else:
        yield from (textwrap.dedent(block) for block in re.findall(r"```python[^\n]*\n(.*?)```", text, re.S))


def imported(code: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import; no name for `import module`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def is_public(module: str, name: str) -> bool:
    if not module.startswith("otel_evals"):
        return True
    return module in PUBLIC and (not name or name in PUBLIC[module] or f"{module}.{name}" in PUBLIC)


@pytest.mark.parametrize("path", [*PAGES, *PROGRAMS], ids=lambda path: str(path.relative_to(ROOT)))
def test_code_imports_public_names_only(path: Path) -> None:
    private = [each for code in code_of(path) for each in imported(code) if not is_public(*each)]
    assert private == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_text_names_public_modules_only(path: Path) -> None:
    """Dotted names in prose and in YAML, such as `python:package.module:name`."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"otel_evals\w*(?:\.\w+)*\._\w+", text) == []
    named = re.findall(r"python:(otel_evals[\w.]*):(\w+)", text)
    assert [each for each in named if not is_public(*each)] == []
