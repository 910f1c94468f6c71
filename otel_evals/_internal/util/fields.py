"""Fields of dataclasses and msgspec structs, also of users' scorers and tools."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from msgspec import Struct


def field_names(cls: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass or struct; None for other classes."""
    if issubclass(cls, Struct):
        return cls.__struct_fields__
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else None


def field_values(value: Any) -> dict[str, Any] | None:
    """Return the fields and values of a dataclass or struct instance; None for other objects."""
    names = field_names(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}
