"""The base of all records: frozen, read-only, with fields that are derived on first access."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, ClassVar, Final, NoReturn, Protocol, TypeVar

import msgspec

_COPY_FIRST: Final = "a run is read-only, as other scorers judge it too: copy it first, with copy.deepcopy"


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(_COPY_FIRST)


class _ReadOnly:
    """A container that refuses changes. Its copies are plain ones."""

    __slots__ = ()
    _plain: ClassVar[Any]
    __setitem__ = __delitem__ = _refuse

    def __copy__(self) -> Any:
        return self._plain(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self._plain(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickle sets item after item, which is refused.
        return type(self), (self._plain(self),)


class ReadOnlyDict(_ReadOnly, dict[str, Any]):
    """A dict that refuses changes."""

    __slots__ = ()
    _plain = dict
    __ior__ = clear = pop = popitem = setdefault = update = _refuse


class ReadOnlyList(_ReadOnly, list[Any]):
    """A list that refuses changes."""

    __slots__ = ()
    _plain = list
    __iadd__ = __imul__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse


_CONTAINERS: Final = frozenset((dict, list, tuple))


def read_only(value: Any) -> Any:
    """Return a value with read-only dicts and lists in place of plain ones; cyclic values are unchanged."""
    if type(value) not in _CONTAINERS:
        return value
    try:
        return _read_only(value)
    except RecursionError:
        return value


def _read_only(value: Any) -> Any:
    if type(value) is dict:
        copied = ReadOnlyDict(value)
        for key, each in value.items():
            if type(each) in _CONTAINERS:
                # The copy itself refuses changes.
                dict.__setitem__(copied, key, _read_only(each))
        return copied
    # Most lists have plain items, and are not copied item by item.
    for each in value:
        if type(each) in _CONTAINERS:
            value = type(value)(map(_read_only_item, value))
            break
    return ReadOnlyList(value) if type(value) is list else value


def _read_only_item(value: Any) -> Any:
    return _read_only(value) if type(value) in _CONTAINERS else value


_NOTHING: Mapping[str, Any] = ReadOnlyDict()


def nothing() -> Mapping[str, Any]:
    """Return an empty mapping, the same for every record."""
    return _NOTHING


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the model's records; `msgspec.structs` has `replace`, `asdict` and `fields` for them.

    The garbage collector skips them: a record refers only to values created before it, so none is in a cycle.
    """


_Record = TypeVar("_Record")
Fields = Mapping[str, Any]
"""Values of a record by field."""
DERIVATION: Final = "_derivation"
"""The key in a record's `__dict__` of the object that derives its missing fields."""


class Derivation(Protocol):
    """Derives missing fields of a record."""

    @property
    def failed(self) -> bool:
        """True if something could not be read; its fields are then empty."""

    def derive(self, field: str) -> Fields:
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


def _restored(cls: Any, values: Fields) -> Any:
    record = object.__new__(cls)
    object.__setattr__(record, "__dict__", {**_defaults(cls), **values})
    return record


@cache
def _defaults(cls: Any) -> Fields:
    made = {f.name: f.default_factory() for f in fields(cls) if f.default_factory is not MISSING}
    return made | {f.name: f.default for f in fields(cls) if f.default is not MISSING}


def recovered(cls: type[_Record], derivation: Derivation | None, given: dict[str, Any]) -> _Record:
    """Create a record from values by field (it keeps the dict); other fields are derived, or defaults.

    The derivation must not refer to the record: the garbage collector does not find such cycles.
    """
    record = object.__new__(cls)
    given[DERIVATION] = derivation
    # Its `__init__` would set the fields to be derived to their defaults.
    object.__setattr__(record, "__dict__", given)
    return record


def with_given(record: _Record, **given: Any) -> _Record:
    """Return the record with other values; unlike `dataclasses.replace`, it derives nothing."""
    known = record.__dict__
    # Fields only: cached sizes and ids may not fit the other values.
    kept = {name: known[name] for name in _names(type(record)) if name in known}
    return recovered(type(record), known.get(DERIVATION), {**kept, **given})


def _names(cls: Any) -> tuple[str, ...]:
    return tuple(cls.__dataclass_fields__)
