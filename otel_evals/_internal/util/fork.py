"""Renews locks and connections in forked children.

Owners of locks or connections register with `renew_after_fork`. Their locks are held during the fork: no
other thread is in a critical section, nor in an import of ours. In the child, each owner creates new ones.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack
from typing import Any

_LONGEST_WAIT = 1.0
"""Maximum seconds that a fork waits for all locks together."""


class Gate:
    """Lets any number of threads in; its `acquire` keeps further ones out and waits until all have left."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._closed = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Enter; waits while the gate is closed, but not forever: a nested section would wait for itself."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed, 2 * _LONGEST_WAIT)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def acquire(self, blocking: bool = True, timeout: float = 0.0) -> bool:
        """Close the gate; return False, with the gate open, if threads are still inside after `timeout`."""
        with self._changed:
            self._closed = True
            self._closed = self._changed.wait_for(lambda: not self._inside, max(0.0, timeout))
            return self._closed

    def release(self) -> None:
        """Open the gate."""
        with self._changed:
            self._closed = False
            self._changed.notify_all()


_things = weakref.WeakSet[Any]()
_last: list[Any] = []
_held: list[Any] = []


def renew_after_fork(thing: Any, *, last: bool = False) -> None:
    """Renew an object in every later child of this process, as long as the object exists.

    It has a `lock` of its critical sections, and `renew()`, which creates a new one in the child and leaves
    the parent's connections untouched. If it has `suspend()`, that closes connections that must not be open
    during a fork: it is called with the lock held, and the next use opens new ones.

    `last` is for a lock that is acquired while another object's lock is held: forks acquire it after those.
    """
    if last:
        _last.append(thing)
    else:
        _things.add(thing)


def _is_importing() -> bool:
    """Return True if another thread is inside an import of ours: in a child, its lock would stay taken."""
    for thread, frame in sys._current_frames().items():
        files = " ".join(each.f_code.co_filename for each, _ in walk_stack(frame))
        if "importlib._bootstrap" in files and "otel_evals" in files and thread != threading.get_ident():
            return True
    return False


def _before() -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    for thing in [*_things, *_last]:
        lock = thing.lock
        # A lock that is held for longer does not keep the process from forking.
        if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _held.append(lock)
            if hasattr(thing, "suspend"):
                with suppress(Exception):
                    thing.suspend()
    while _is_importing() and time.monotonic() < deadline:
        time.sleep(0.001)


def _in_parent() -> None:
    while _held:
        _held.pop().release()


def _in_child() -> None:
    # Not released: `renew` replaces the locks.
    _held.clear()
    for thing in [*_things, *_last]:
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
