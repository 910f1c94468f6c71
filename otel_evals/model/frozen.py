"""Frozen dataclasses that are made as fast as ordinary ones.

A frozen dataclass sets each field through `object.__setattr__`, a call per field. Reading a trace makes
dozens of records with up to forty fields, on a thread that shares the application's interpreter lock.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, cast

__all__ = ["nothing", "quick"]

Record = TypeVar("Record", bound=type)

_NOTHING: Mapping[str, Any] = {}

_SWAPS_STOP_THE_WORLD = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def nothing() -> Mapping[str, Any]:
    """An empty mapping, shared by every record that has nothing to tell."""
    return _NOTHING


def quick(cls: Record) -> Record:
    """Give a frozen dataclass an `__init__` of plain assignments; what it makes is as frozen as before.

    A default factory is called once: it has to give something that nobody changes. While its fields are set,
    an object with slots belongs to a twin of its class that is not frozen. Where threads run without the
    interpreter lock, changing an object's class halts them all; there the class stays as it is.
    """
    if _SWAPS_STOP_THE_WORLD:
        return cls
    names = [field.name for field in fields(cls)]
    scope: dict[str, Any] = {f"default_{f.name}": _default(f) for f in fields(cls)}
    if "__slots__" in cls.__dict__:
        twin = type(f"Open{cls.__name__}", (), {"__slots__": cls.__dict__["__slots__"]})
        scope.update(change=object.__setattr__, twin=twin, own=cls)
        sets = [f"self.{name} = {name}" for name in names]
        body = ["change(self, '__class__', twin)", *sets, "self.__class__ = own"]
    else:
        body = ["at = self.__dict__", *(f"at[{name!r}] = {name}" for name in names)]
    lines = [f"def __init__(self, {', '.join(_parameters(cls))}):", *(f"    {line}" for line in body)]
    exec("\n".join(lines), scope)  # the only way to a signature of one's own, as dataclasses do it
    made = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = cast("Any", cls).__init__.__annotations__
    cast("Any", cls).__init__ = made
    return cls


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _parameters(cls: Any) -> list[str]:
    told = [f.name if _default(f) is MISSING else f"{f.name}=default_{f.name}" for f in fields(cls)]
    return ["*", *told] if all(f.kw_only for f in fields(cls)) else told
