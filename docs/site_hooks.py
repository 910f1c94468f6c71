"""Hooks of MkDocs: the version next to the site's name, and links from pages into the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def on_config(config: Any) -> Any:
    """Add the version, which the header and each page's title show."""
    source = (ROOT / "otel_evals" / "_internal" / "util" / "version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'"(\d[^"]*)"', source)
    config.site_name = f"{config.site_name} {version}"
    return config


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """Point links to files outside docs/ to the repository: the pages are read there too."""
    place = f"{config.repo_url}/blob/main/"
    return re.sub(r"\]\((?:\.\./)+(examples|tests|benchmarks|[A-Z]+\.md)", rf"]({place}\1", markdown)
