"""Modules and scorers that another process can import by name."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from operator import attrgetter
from typing import Any

from otel_evals._internal.scoring.scorer import FunctionScorer


def by_name(thing: Any) -> Any:
    """Return a reducer for a scorer made by `@scorer`, which its module has under its function's name."""
    if not isinstance(thing, FunctionScorer):
        return None
    module, name = getattr(thing.function, "__module__", ""), getattr(thing.function, "__qualname__", "")
    if "<" in name or not importable(module) or _found(module, name) is not thing:
        return None
    return _imported, (module, name)


@cache
def importable(name: str) -> bool:
    """Return True if another process can import this loaded module by name; main modules cannot."""
    module = sys.modules.get(name)
    if module is None or name in ("__main__", "__mp_main__"):
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:  # no finder finds `collections.abc`
        return True
    parent, _, _ = name.rpartition(".")
    if parent and not importable(parent):
        return False
    path = getattr(sys.modules.get(parent), "__path__", None)
    spec = next((s for f in sys.meta_path if (s := _spec(f, name, path)) is not None), None)
    return spec is not None and spec.origin == getattr(module.__spec__, "origin", None)


def _spec(finder: Any, name: str, path: Any) -> Any:
    find = getattr(finder, "find_spec", None)
    return find(name, path, None) if find is not None else None


def _found(module: str, name: str) -> Any:
    try:
        return attrgetter(name)(sys.modules[module])
    except AttributeError:
        return None


def _imported(module: str, name: str) -> Any:
    return attrgetter(name)(importlib.import_module(module))
