"""Links and commands of the README and of other pages exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    """Links between the pages of the site are checked when it is built."""
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_the_readme_names_only_commands_that_dev_py_has() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
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


def test_the_pages_keep_their_limits() -> None:
    """24,400 words outside tables and code, without the generated pages; README and CHANGELOG by lines."""
    generated = {"scorer-reference.md", "configuration.md", "recovery.md"}
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "reference" not in page.parts]
    words = 0
    for page in pages:
        if page.name not in generated:
            text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
            lines = [line for line in text.splitlines() if not line.lstrip().startswith("|")]
            words += len(" ".join(lines).split())
    assert words <= 24_400
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 40
