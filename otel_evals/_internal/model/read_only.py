"""Dicts and lists that scorers read: several rules judge the same run, and records keep it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, NoReturn

_COPY_FIRST: Final = "a run is read-only, as other scorers judge it too: copy it first, with copy.deepcopy"


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(_COPY_FIRST)


class ReadOnlyDict(dict[str, Any]):
    """A dict that refuses changes. Its copies are plain dicts."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return deepcopy(dict(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class ReadOnlyList(list[Any]):
    """A list that refuses changes. Its copies are plain lists."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return deepcopy(list(self), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


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
                dict.__setitem__(copied, key, _read_only(each))
        return copied
    for each in value:
        if type(each) in _CONTAINERS:
            value = type(value)(map(_read_only_item, value))
            break
    return ReadOnlyList(value) if type(value) is list else value


def _read_only_item(value: Any) -> Any:
    return _read_only(value) if type(value) in _CONTAINERS else value
