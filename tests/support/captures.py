"""Captures of real frameworks: our own small ones, and the folders that OTEL_EVALS_CAPTURES names."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OWN = Path(__file__).parents[1] / "captures" / "data"
FOLDERS = [Path(name) for name in os.environ.get("OTEL_EVALS_CAPTURES", "").split(os.pathsep) if name]


def entries() -> Iterator[tuple[Path, Any]]:
    """Each capture that a manifest lists, with its folder."""
    for folder in FOLDERS:
        for entry in json.loads((folder / "MANIFEST.json").read_text()):
            yield folder, entry


def paths_of(folder: Path, entry: Any) -> list[str]:
    return [str(folder / name) for name in (entry["file"], entry.get("logs_file")) if name]


def everything() -> Iterator[list[str]]:
    """The files of each capture, our own ones too."""
    yield from ([str(path)] for path in sorted(OWN.glob("*.otlp.json")))
    yield from (paths_of(folder, entry) for folder, entry in entries())
