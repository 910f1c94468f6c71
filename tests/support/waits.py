"""How long tests wait for threads, processes and servers: long, as only a failing test waits to the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["MILLIS", "SECONDS", "eventually"]

SECONDS = 100.0
"""Long on a busy machine too, and less than pytest's timeout, whose message would not name the condition."""
MILLIS = int(SECONDS * 1_000)

T = TypeVar("T")


def eventually(found: Callable[[], T], ready: Callable[[T], object] = bool, seconds: float = SECONDS) -> T:
    """Wait until a value is ready, by default until it is true; return it."""
    deadline = time.monotonic() + seconds
    while not ready(value := found()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {value!r}"
        time.sleep(0.01)
    return value
