"""Pickles scorers for another process: by name if it can import them, otherwise by value.

The other process does not run the program's main module. Functions and classes from there, from a closure or
from a module without an importable name are pickled by value, which needs cloudpickle.
"""

from __future__ import annotations

import io
import pickle
from types import FunctionType
from typing import Any

from otel_evals._internal.processes.importable import by_name, importable
from otel_evals._internal.util.install_hint import package_hint


class NotPortableError(Exception):
    """An object cannot be sent to another process; the message has the reason and the fix."""


def pack(thing: Any) -> bytes:
    """Pickle an object for `pickle.loads` in a process with the same packages and `sys.path`, or raise."""
    buffer = io.BytesIO()
    try:
        from otel_evals._internal.processes.by_value import Pickler as ByValue
    except ImportError:
        pickler: pickle.Pickler = _ByName(buffer, pickle.HIGHEST_PROTOCOL)
        fix = f"move it to the top level of an importable module, or {package_hint('cloudpickle')}"
    else:
        pickler = ByValue(buffer, pickle.HIGHEST_PROTOCOL)
        fix = "build it from plain values, and open files, locks and connections on first use"
    try:
        pickler.dump(thing)
    except Exception as error:  # a __reduce__ may raise anything
        raise NotPortableError(f"cannot be sent to another process ({error}); {fix}") from error
    return buffer.getvalue()


class _ByName(pickle.Pickler):
    """Raises the error here if the other process cannot import an object."""

    def reducer_override(self, thing: Any) -> Any:
        named = by_name(thing)
        if named is not None:
            return named
        if isinstance(thing, FunctionType | type) and not importable(thing.__module__):
            raise pickle.PicklingError(f"{thing.__qualname__!r} is defined in {thing.__module__!r}")
        return NotImplemented
