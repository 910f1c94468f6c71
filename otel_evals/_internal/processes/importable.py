"""What another process could import by name: modules, and the scorers defined in them."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from operator import attrgetter
from typing import Any

from otel_evals._internal.scoring.scorer import FunctionScorer

__all__ = ["by_name", "importable"]


def by_name(thing: Any) -> Any:
    """How to unpickle a scorer made by `@scorer`: it is in its module under its function's name."""
    if not isinstance(thing, FunctionScorer):
        return None
    module, name = getattr(thing.function, "__module__", ""), getattr(thing.function, "__qualname__", "")
    if "<" in name or not importable(module) or _found(module, name) is not thing:
        return None
    return _imported, (module, name)


@cache
def importable(name: str) -> bool:
    """Whether a module that is loaded here could be imported by name elsewhere; main modules could not."""
    module = sys.modules.get(name)
    if module is None or name in ("__main__", "__mp_main__"):
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:  # `collections.abc` is found by no finder
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
