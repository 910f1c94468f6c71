"""What a forked child must not share with its parent: locks that another thread may hold, connections.

Objects that own such things say so with `renew_after_fork`. While the process forks, their locks are held, so
that no other thread is in the middle of what they guard; in the child each makes its own anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

_LONGEST_WAIT = 1.0
"""Seconds to wait for a lock before a fork; one that is held longer is not waited for."""


class Renewable(Protocol):
    """Owns a lock, and perhaps connections, of one process."""

    @property
    def lock(self) -> threading.Lock:
        """Held by whoever uses what must not be copied halfway."""

    def renew(self) -> None:
        """In a forked child: make the lock anew, and leave the parent's connections untouched."""


_things: weakref.WeakSet[Renewable] = weakref.WeakSet()
_held: list[threading.Lock] = []


def renew_after_fork(thing: Renewable) -> None:
    """Renew an object in every child that this process forks from now on, as long as it exists."""
    _things.add(thing)


def _before() -> None:
    for thing in list(_things):
        lock = thing.lock
        if lock.acquire(timeout=_LONGEST_WAIT):
            _held.append(lock)


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    _held.clear()
    for thing in list(_things):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
