"""Threads of the operating system, also where gevent has replaced Python's threads by greenlets.

An event loop in a greenlet would be the running loop of the application's thread, whose own `asyncio.run`
would fail.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
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
