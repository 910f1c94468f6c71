"""Pickles scorers for another process: by name if importable there, else by value.

The other process does not run the program's main module. What is defined there, in a closure, or in a module
that cannot be imported by name is pickled by value, which needs cloudpickle.
"""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any

from otel_evals._internal.processes.importable import by_name, importable

__all__ = ["NotPortableError", "pack"]

_EXTRA = "move it to the top level of a module that can be imported, or pip install 'otel-evals[process]'"


class NotPortableError(Exception):
    """An object cannot be sent to another process; the message says why and what helps."""


def pack(thing: Any) -> bytes:
    """Pickle an object for `pickle.loads` in any process with the same packages and `sys.path`.

    Raises:
        NotPortableError: some part of it can be pickled neither by name nor by value.
    """
    buffer = io.BytesIO()
    try:
        from otel_evals._internal.processes.by_value import Pickler as ByValue
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
    """Refuses what the other process could not import, so that the error is raised here."""

    def reducer_override(self, thing: Any) -> Any:
        named = by_name(thing)
        if named is not None:
            return named
        if isinstance(thing, FunctionType | type) and not importable(thing.__module__):
            raise pickle.PicklingError(f"{thing.__qualname__!r} is defined in {thing.__module__!r}")
        return NotImplemented
