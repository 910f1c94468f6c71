"""How long something keeps the interpreter's lock, measured so that a busy machine does not count."""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType
from typing import Any

__all__ = ["LongestCall", "Pause"]

_GIVES_WAY = ("_regex", "regex", "_ssl", "ssl")
"""Modules whose calls give the lock up while they work, as we call them."""


class Pause:
    """The longest time that another thread waited for the interpreter. Use as a context manager."""

    def __enter__(self) -> Pause:
        self.longest, self._done = 0.0, False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self) -> None:
        last = time.perf_counter()
        while not self._done:
            time.sleep(0.0005)
            now = time.perf_counter()
            self.longest, last = max(self.longest, now - last), now

    def __exit__(self, *_: object) -> None:
        self._done = True
        self._thread.join()


class LongestCall:
    """The call into C that took the most processor time, in this thread and those that it starts.

    Python code gives way every few milliseconds; a call into C does not before it is done. Processor time is
    the thread's own, so that neither other programs nor other threads count. Use as a context manager.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.name = ""
        self._own = threading.local()

    def __enter__(self) -> LongestCall:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, called: Any) -> None:
        own = self._own
        if event == "c_call":
            own.began = time.thread_time()
            return
        began, own.began = getattr(own, "began", None), None
        if began is None or event not in ("c_return", "c_exception"):  # Python code within it gave way
            return
        seconds, searcher = time.thread_time() - began, type(getattr(called, "__self__", None))
        if seconds > self.seconds and not searcher.__module__.startswith(_GIVES_WAY):
            self.seconds = seconds
            self.name = f"{called!r:.60} in {frame.f_code.co_qualname}, line {frame.f_lineno}"
