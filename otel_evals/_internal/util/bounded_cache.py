"""A cache keyed by text from elsewhere, with bounds for entries and lengths of keys."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_LONGEST_KEY: Final = 1_000


class BoundedCache(dict[Key, Value]):
    """A dict of at most `limit` entries, the oldest of which makes way for a new one.

    Use it wherever names from spans, headers, files or answers are keys: anybody can send new ones for
    ever. Texts above 1,000 characters are not kept. Reading is as fast as from any dict, and several threads
    may use it.
    """

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        if isinstance(key, str) and len(key) > _LONGEST_KEY:
            return
        while len(self) >= self.limit and key not in self:
            try:
                self.pop(next(iter(self)), None)
            except (StopIteration, RuntimeError):  # another thread has changed it meanwhile
                continue
        super().__setitem__(key, value)

    def setdefault(self, key: Key, default: Value = None) -> Value:  # type: ignore[assignment]
        """Return the value of a key, which becomes the default if there is none."""
        value = self.get(key, default)
        self[key] = value
        return value

    def update(self, *_: Any, **__: Any) -> None:
        """Raise, as this would pass by the bound."""
        raise TypeError("set one entry at a time")
