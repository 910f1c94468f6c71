"""A wake-up for one waiting thread that no interruption can leave locked."""

from __future__ import annotations

import threading
from contextlib import suppress


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
