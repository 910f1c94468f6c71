"""docs/glossary.md: every word is defined where the page says, and no word stands for two things."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| `([\w.]+)` in `([\w/.]+)` \|$", PAGE, re.M)


def definitions(tree: ast.Module) -> set[str]:
    """Names that a module defines, those in its classes with the class before them."""
    found: set[str] = set()
    for node in tree.body:
        names = _names(node)
        found |= names
        if isinstance(node, ast.ClassDef):
            inner = {name for each in ast.walk(node) for name in _names(each)}
            found |= {f"{node.name}.{name}" for name in inner}
    return found


def _names(node: ast.AST) -> set[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
            return {name}
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return {name}
    return set()


def test_every_row_is_read() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| word")]
    assert len(rows) == len(ROWS) > 50


@pytest.mark.parametrize(("word", "name", "file"), [(row[0], row[3], row[4]) for row in ROWS])
def test_a_word_is_defined_where_the_page_says(word: str, name: str, file: str) -> None:
    tree = ast.parse((ROOT / "otel_evals" / file).read_text(encoding="utf-8"))
    assert name in definitions(tree), word


def test_one_word_one_thing() -> None:
    """Neither a word nor a definition comes twice."""
    assert [word for word, count in Counter(row[0] for row in ROWS).items() if count > 1] == []
    assert [name for name, count in Counter(row[3] for row in ROWS).items() if count > 1] == []
