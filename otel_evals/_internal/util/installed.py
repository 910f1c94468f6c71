"""Installed packages: their entry points, and commands of this environment as they can be pasted."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import metadata
from importlib.metadata import distribution
from shlex import quote
from typing import Any
from urllib.parse import urlsplit

from otel_evals.errors import ConfigError

_OURS = "otel-evals"


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group.

    Each name is there once: another package cannot replace what is ours.
    """
    return _of_group(group, tuple(sys.path))


# Python reads the files of every installed package at each call: 10 ms in an environment of 200 packages.
@lru_cache(maxsize=1)
def _all(folders: tuple[str, ...]) -> Any:
    return metadata.entry_points()


@lru_cache(maxsize=32)
def _of_group(group: str, folders: tuple[str, ...]) -> metadata.EntryPoints:
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
    except (Exception, SystemExit) as error:
        problem = f"{point.name!r} cannot be imported: {type(error).__name__}: {error}"
        fix = f"update or uninstall the package {_package(point)}"
        raise ConfigError(field, f"{problem}; fix: {fix}") from error


def _package(point: metadata.EntryPoint) -> str:
    return "" if point.dist is None else point.dist.name


def install_hint(extras: str) -> str:
    """Return the command for these extras, comma separated, from the place otel-evals was installed from.

    That place is an index, a checkout (editable or not), a wheel or an archive.
    """
    direct = json.loads(distribution(_OURS).read_text("direct_url.json") or "{}")
    return f"{_installer()} {_requirement(direct, extras)}"


@contextmanager
def extra(name: str, field: str, *, package: str | None = None) -> Iterator[None]:
    """Raise ConfigError with the command for an extra, or for a package, if an import inside fails."""
    try:
        yield
    except ImportError as error:
        hint = install_hint(name) if package is None else package_hint(package)
        raise ConfigError(field, f"needs {error.name}: {hint}") from None


def package_hint(package: str) -> str:
    """Return the command for another package."""
    return f"{_installer()} {package}"


def _requirement(direct: dict[str, Any], extras: str) -> str:
    url = str(direct.get("url", ""))
    if "dir_info" in direct:
        from urllib.request import url2pathname  # slow to import

        editable = "-e " * bool(direct["dir_info"].get("editable"))
        return f"{editable}'{url2pathname(urlsplit(url).path)}[{extras}]'"
    if "vcs_info" in direct:
        url = f"{direct['vcs_info']['vcs']}+{url}@{direct['vcs_info']['commit_id']}"
    return f"'otel-evals[{extras}] @ {url}'" if url else f"'otel-evals[{extras}]'"


def _installer() -> str:
    """Return the start of the command: uv if it installed us, and the pip of this environment otherwise."""
    if (distribution(_OURS).read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {quote(sys.executable)}"
    return f"{quote(sys.executable)} -m pip install"


def this_command() -> str:
    """Return `otel-evals` if the PATH has the one of this environment, and its path otherwise."""
    ours = os.path.join(os.path.dirname(sys.executable), "otel-evals")
    return "otel-evals" if shutil.which("otel-evals") == ours else quote(ours)
