"""Public modules whose names are loaded on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_names(namespace: dict[str, Any], where: Mapping[str, str | None]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module.

    Args:
        namespace: the module's `globals()`, which keep a name once it is loaded.
        where: the module that defines each name; None for a submodule.
    """

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        module = where[name]
        own = import_module(module or f"{namespace['__name__']}.{name}")
        namespace[name] = value = own if module is None else getattr(own, name)
        return value

    return load
