"""The fields of dataclasses and of msgspec's structs, which scorers and tools of users are made of too."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from msgspec import Struct


def field_names(cls: type) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass or struct; None if a class is neither."""
    if issubclass(cls, Struct):
        return cls.__struct_fields__
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else None


def field_values(value: Any) -> dict[str, Any] | None:
    """The fields of an instance of a dataclass or struct with their values; None for anything else."""
    names = field_names(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}
