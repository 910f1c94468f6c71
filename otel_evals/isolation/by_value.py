"""Sends by value what has no name that another process could import. Needs cloudpickle."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from otel_evals.isolation.portable import by_name, importable

__all__ = ["Pickler"]


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # an optional extra, untyped
    """cloudpickle's, except that modules count as importable only where they are."""

    def dump(self, thing: Any) -> None:
        """Write a thing; what else uses cloudpickle in this process is left as it was."""
        self._odd: list[ModuleType] = []
        try:
            super().dump(thing)
        finally:
            for module in self._odd:
                cloudpickle.unregister_pickle_by_value(module)

    def reducer_override(self, thing: Any) -> Any:
        """Send scorers by name where they have one; functions and classes of odd modules by value."""
        named = by_name(thing)
        if named is not None:
            return named
        if isinstance(thing, FunctionType | type):
            self._send_by_value_if_odd(thing.__module__)
        return super().reducer_override(thing)

    def _send_by_value_if_odd(self, name: str) -> None:
        module = sys.modules.get(name)
        if module is not None and module not in self._odd and name != "__main__" and not importable(name):
            cloudpickle.register_pickle_by_value(module)
            self._odd.append(module)
