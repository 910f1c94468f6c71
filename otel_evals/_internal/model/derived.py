"""Fields that are worked out when somebody first asks for them.

To read what was said in a run costs many times more than to know where the run begins and ends, and most
scorers ask for little of it. A record that was recovered knows what its other fields follow from; a record
that is made by calling its class has been given them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Final, Protocol, TypeVar

Record = TypeVar("Record")
DERIVATION: Final = "_derivation"
"""Under this name a record's `__dict__` has what its fields follow from, where they were not all given."""


class Derivation(Protocol):
    """What the fields of one record follow from."""

    @property
    def failed(self) -> bool:
        """Whether something could not be read when it was asked for; its fields then have nothing to tell."""

    def derive(self, field: str) -> Mapping[str, Any]:
        """The value of a field by its name, and those of the fields that were found on the way."""


class _DerivedField:
    """Stands in the class; once a record has a value of its own, that is found first."""

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
            values.setdefault(name, value)  # what was given counts, and what another thread found first
        return values[self._name]


def derives(*names: str) -> Any:
    """Decorate a frozen dataclass: these of its fields may follow from something."""

    def decorated(cls: Any) -> Any:
        for name in names:
            setattr(cls, name, _DerivedField(name))
        cls.__reduce__ = _reduced
        return cls

    return decorated


def _reduced(record: Any) -> tuple[Any, ...]:
    """For pickle and copy: the values that are no defaults, and not what they follow from."""
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
    return {f.name: _default(f) for f in fields(cls) if not f.default is f.default_factory is MISSING}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def recovered(cls: type[Record], derivation: Derivation | None, given: dict[str, Any]) -> Record:
    """A record with these values, whose other fields have their defaults or are derived.

    Args:
        cls: its class.
        derivation: what `derives` names and is not given follows from.
        given: values by field; the record keeps this dict.
    """
    record = object.__new__(cls)
    given[DERIVATION] = derivation
    object.__setattr__(record, "__dict__", given)
    return record


def with_given(record: Record, **given: Any) -> Record:
    """The record with other values; unlike `dataclasses.replace`, it derives nothing for that."""
    known = record.__dict__
    kept = {name: known[name] for name in _names(type(record)) if name in known}
    return recovered(type(record), known.get(DERIVATION), {**kept, **given})


def _names(cls: Any) -> tuple[str, ...]:
    return tuple(cls.__dataclass_fields__)
