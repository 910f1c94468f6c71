"""Packs what users hand in for another process, which imports what it can and gets the rest by value.

The other process does not run the program's main module. What is defined there, in a closure, or in a module
that cannot be imported by its name travels by value, which needs cloudpickle.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from functools import cache
from operator import attrgetter
from types import FunctionType
from typing import Any

from otel_evals.scorer import FunctionScorer

__all__ = ["NotPortableError", "pack"]

_EXTRA = "move it to the top level of a module that can be imported, or pip install 'otel-evals[process]'"


class NotPortableError(Exception):
    """It cannot be sent to another process; the message says why and what helps."""


def pack(thing: Any) -> bytes:
    """A thing as bytes that `pickle.loads` can read in any process with the same packages and `sys.path`.

    Raises:
        NotPortableError: some part of it can be sent neither by its name nor by value.
    """
    buffer = io.BytesIO()
    try:
        from otel_evals.isolation.by_value import Pickler as ByValue
    except ImportError:
        pickler: pickle.Pickler = _ByName(buffer, pickle.HIGHEST_PROTOCOL)
        fix = _EXTRA
    else:
        pickler = ByValue(buffer, pickle.HIGHEST_PROTOCOL)
        fix = (
            "have it built from plain values, and open files, locks and connections when they are first used"
        )
    try:
        pickler.dump(thing)
    except Exception as error:  # whatever a __reduce__ may raise
        raise NotPortableError(f"cannot be sent to another process ({error}); {fix}") from error
    return buffer.getvalue()


class _ByName(pickle.Pickler):
    """Refuses what the other process could not import, instead of leaving it to find out."""

    def reducer_override(self, thing: Any) -> Any:
        named = by_name(thing)
        if named is not None:
            return named
        if isinstance(thing, FunctionType | type) and not importable(thing.__module__):
            raise pickle.PicklingError(f"{thing.__qualname__!r} is defined in {thing.__module__!r}")
        return NotImplemented


def by_name(thing: Any) -> Any:
    """How to send a scorer made by `@scorer`: it stands in its module under its function's name."""
    if not isinstance(thing, FunctionScorer):
        return None
    module, name = getattr(thing.function, "__module__", ""), getattr(thing.function, "__qualname__", "")
    if "<" in name or not importable(module) or _found(module, name) is not thing:
        return None
    return _imported, (module, name)


@cache
def importable(name: str) -> bool:
    """Whether a module that is loaded here could be imported by its name elsewhere, main modules excepted."""
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
