"""Entry points of the installed packages."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from typing import Any

from otel_evals.errors import ConfigError

_OURS = "otel-evals"
_Folders = tuple[tuple[str, int], ...]


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group, also of packages installed since the last call.

    Each name is there once: another package cannot replace what is ours.
    """
    return _of_group(group, tuple((folder, _changed(folder)) for folder in sys.path))


# Python reads the files of every installed package at each call: 10 ms in an environment of 200 packages.
@lru_cache(maxsize=1)
def _all(folders: _Folders) -> Any:
    return metadata.entry_points()


@lru_cache(maxsize=32)
def _of_group(group: str, folders: _Folders) -> metadata.EntryPoints:
    found: dict[str, metadata.EntryPoint] = {}
    for point in _all(folders).select(group=group):
        if point.name not in found or _package(point) == _OURS:
            found[point.name] = point
    return metadata.EntryPoints(found.values())


def load(point: metadata.EntryPoint, field: str) -> Any:
    """Import what an entry point names.

    Raises:
        ConfigError: it cannot be imported; names the field, and the package to repair.
    """
    try:
        return point.load()
    except ImportError as error:
        problem = f"{point.name!r} needs a package that is not installed: {error}"
        raise ConfigError(field, problem) from error
    except (Exception, SystemExit) as error:
        problem = f"{point.name!r} cannot be imported: {type(error).__name__}: {error}"
        fix = f"update or uninstall the package {_package(point)}"
        raise ConfigError(field, f"{problem}; fix: {fix}") from error


def _package(point: metadata.EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def _changed(folder: str) -> int:
    """Return the time of a folder's last change, which every installation is."""
    with suppress(OSError, ValueError):
        return os.stat(folder or ".").st_mtime_ns
    return 0
