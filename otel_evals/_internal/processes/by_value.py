"""Pickles objects by value if another process cannot import them by name. Needs cloudpickle."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from otel_evals._internal.processes.importable import by_name, importable


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # an optional extra, untyped
    """cloudpickle's pickler, with a stricter test for importable modules."""

    def dump(self, thing: Any) -> None:
        """Pickle an object, without a lasting effect on other users of cloudpickle in this process."""
        self._by_value: list[ModuleType] = []
        try:
            super().dump(thing)
        finally:
            for module in self._by_value:
                cloudpickle.unregister_pickle_by_value(module)

    def reducer_override(self, thing: Any) -> Any:
        named = by_name(thing)
        if named is not None:
            return named
        if isinstance(thing, FunctionType | type):
            self._register(thing.__module__)
        return super().reducer_override(thing)

    def _register(self, name: str) -> None:
        """Pickle a module's functions and classes by value if other processes cannot import it."""
        module = sys.modules.get(name)
        known = module is None or module in self._by_value or name == "__main__"
        if module is not None and not known and not importable(name):
            cloudpickle.register_pickle_by_value(module)
            self._by_value.append(module)
