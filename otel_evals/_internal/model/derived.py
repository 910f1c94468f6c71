"""Fields that are derived on first access.

Reading the content of a run costs many times more than finding its start and end, and most scorers read
little of it. A recovered record derives its missing fields; calling the class gives a record all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Final, Protocol, TypeVar

Record = TypeVar("Record")
DERIVATION: Final = "_derivation"
"""The key in a record's `__dict__` of the object that derives its missing fields."""


class Derivation(Protocol):
    """Derives missing fields of a record."""

    @property
    def failed(self) -> bool:
        """True if something could not be read; its fields are then empty."""

    def derive(self, field: str) -> Mapping[str, Any]:
        """Return a field by name, with other fields found on the way."""


class _DerivedField:
    """Class attribute of a derived field; a value of the record's own takes precedence."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, record: Any, _: Any = None) -> Any:
        if record is None:
            return self
        values = record.__dict__
        if DERIVATION not in values:
            raise AttributeError(self._name)
        for name, value in values[DERIVATION].derive(self._name).items():
            values.setdefault(name, value)  # given values take precedence, and values from a faster thread
        return values[self._name]


def derives(*names: str) -> Any:
    """Decorate a frozen dataclass some of whose fields may be derived."""

    def decorated(cls: Any) -> Any:
        for name in names:
            setattr(cls, name, _DerivedField(name))
        cls.__reduce__ = _reduced
        return cls

    return decorated


def _reduced(record: Any) -> tuple[Any, ...]:
    """Return the values other than defaults, without the derivation, for pickle and copy."""
    cls: Any = type(record)
    absent = object()
    defaults = _defaults(cls)
    values = {name: getattr(record, name) for name in _names(cls)}
    return _restored, (cls, {n: v for n, v in values.items() if v is not defaults.get(n, absent)})


def _restored(cls: Any, values: Mapping[str, Any]) -> Any:
    record = object.__new__(cls)
    object.__setattr__(record, "__dict__", {**_defaults(cls), **values})
    return record


@cache
def _defaults(cls: Any) -> Mapping[str, Any]:
    made = {f.name: f.default_factory() for f in fields(cls) if f.default_factory is not MISSING}
    return made | {f.name: f.default for f in fields(cls) if f.default is not MISSING}


def recovered(cls: type[Record], derivation: Derivation | None, given: dict[str, Any]) -> Record:
    """Create a record from values by field (it keeps the dict); other fields are derived, or defaults.

    The derivation must not refer to the record: the garbage collector does not find such cycles.
    """
    record = object.__new__(cls)
    given[DERIVATION] = derivation
    object.__setattr__(record, "__dict__", given)
    return record


def with_given(record: Record, **given: Any) -> Record:
    """Return the record with other values; unlike `dataclasses.replace`, it derives nothing."""
    known = record.__dict__
    kept = {name: known[name] for name in _names(type(record)) if name in known}
    return recovered(type(record), known.get(DERIVATION), {**kept, **given})


def _names(cls: Any) -> tuple[str, ...]:
    return tuple(cls.__dataclass_fields__)
