"""Renews locks and connections in forked children.

Owners of locks or connections register with `renew_after_fork`. Their locks are held during the fork: no
other thread is in a critical section. In the child, each owner creates new ones.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

_LONGEST_WAIT = 1.0
"""Maximum seconds to wait for each lock before a fork."""


class Renewable(Protocol):
    """Owner of a lock, and perhaps of connections."""

    @property
    def lock(self) -> threading.Lock:
        """Lock of its critical sections."""

    def renew(self) -> None:
        """Create a new lock in a forked child, and leave the parent's connections untouched."""


_things: weakref.WeakSet[Renewable] = weakref.WeakSet()
_held: list[threading.Lock] = []


def renew_after_fork(thing: Renewable) -> None:
    """Renew an object in every later child of this process, as long as the object exists."""
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
