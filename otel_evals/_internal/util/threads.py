"""Threads of the operating system, also where gevent has replaced Python's threads, and their wake-up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def are_greenlets() -> bool:
    """Return True if gevent has replaced Python's threads."""
    patched = getattr(sys.modules.get("gevent.monkey"), "is_module_patched", None)
    return patched is not None and patched("threading")


class OSThread(threading.Thread):
    """A daemon thread that gevent does not replace."""

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...], name: str) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._greenlet = are_greenlets()
        self._call = target, args
        self._over = threading.Event()

    def start(self) -> None:
        if self._greenlet:
            gevent: Any = sys.modules["gevent.monkey"]
            gevent.get_original("_thread", "start_new_thread")(self._run_to_end, ())
        else:
            super().start()

    def _run_to_end(self) -> None:
        target, args = self._call
        try:
            target(*args)
        finally:
            self._over.set()

    def is_alive(self) -> bool:
        return not self._over.is_set() if self._greenlet else super().is_alive()

    def join(self, timeout: float | None = None) -> None:
        if self._greenlet:
            self._over.wait(timeout)
        else:
            super().join(timeout)


class Wakeup:
    """Set by any thread, waited for by one.

    `threading.Event` and `Condition` take their lock in Python code: an asynchronous exception in between
    leaves it locked, and a signal handler that needs it waits for ever. This lock is the signal itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it is set
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Wait until it is set, and reset it; returns False after a timeout."""
        return self._lock.acquire(timeout=min(max(0.0, seconds), threading.TIMEOUT_MAX))
