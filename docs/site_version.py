"""A hook of MkDocs: shows the package's version next to the site's name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "otel_evals" / "_internal" / "version.py"


def on_config(config: Any) -> Any:
    """Add the version, which the header and each page's title show."""
    (version,) = re.findall(r'"(\d[^"]*)"', SOURCE.read_text(encoding="utf-8"))
    config.site_name = f"{config.site_name} {version}"
    return config
