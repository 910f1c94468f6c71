"""docs/architecture.md shows the tree as it is, and the way of a span in the order in which it is gone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOTS = ("otel_evals", "instrumentation", "exporters")


def named_folders() -> Iterator[Path]:
    """Each folder of the tree, from its name and the indentation of its line."""
    (tree,) = re.findall(r"## The tree\n\n```text\n(.+?)```", PAGE, re.S)
    above: list[tuple[int, Path]] = []
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip())
        above = [(depth, folder) for depth, folder in above if depth < indent]
        for name in re.findall(r"([\w/]+)/(?=,? |$)", line.strip().split("  ")[0]):
            folder = (above[-1][1] if above else ROOT) / name
            yield folder
        above.append((indent, folder))


def source_folders() -> set[Path]:
    """Every folder that holds Python modules of the package or of its plug-ins."""
    return {module.parent for name in ROOTS for module in (ROOT / name).rglob("*.py")}


def way() -> list[str]:
    """The files that the page's table has, in its order."""
    return re.findall(r"^\| \d+ \| `([^`]+)` \|", PAGE, re.M)


def test_the_tree_has_every_folder_and_no_other() -> None:
    """Of the package and its plug-ins; of the rest, all that are named exist."""
    named = set(named_folders())
    assert {str(folder) for folder in named if not folder.is_dir()} == set()
    packages = {ROOT / "otel_evals", ROOT / "instrumentation" / "otel_evals_instrumentation"}
    assert source_folders() - named == set()
    assert packages <= named


def test_every_file_that_is_named_exists() -> None:
    for file in re.findall(r"`([\w/]+\.py)`", PAGE):
        assert (ROOT / "otel_evals" / file).is_file() or (ROOT / file.split()[0]).is_file(), file


def test_a_span_meets_the_files_in_the_order_of_the_page() -> None:
    """Traced at run time: each file of the table is entered, for the first time after the one before it."""
    script = ROOT / "benchmarks" / "way_of_a_span.py"
    done = subprocess.run(
        [sys.executable, script, "--list"], capture_output=True, text=True, check=True, timeout=60
    )
    entered = list(dict.fromkeys(re.findall(r" otel_evals/([\w/]+\.py)", done.stdout)))
    files = way()
    assert len(files) > 15
    assert [file for file in files if file not in entered] == []
    assert files == sorted(files, key=entered.index)
    (hops,) = re.findall(r"^(\d+) hops between", done.stdout, re.M)
    assert int(hops) <= 98  # 94, and a busy machine may look at the clock more often


def test_the_links_of_the_page_lead_somewhere() -> None:
    for page in re.findall(r"\]\(([\w-]+\.md)", PAGE):
        assert (ROOT / "docs" / page).is_file(), page
