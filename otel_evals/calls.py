"""Calling what users hand in: sync functions in a worker thread, async ones on the loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

__all__ = ["Strays", "call", "strays"]

_Argument = TypeVar("_Argument")


class Strays:
    """Counts worker threads that were left behind by a timeout and have not ended yet.

    Args:
        most: how many worker threads may be waited for at once. They are nobody else's: whoever fills them
            with calls that hang holds only itself up.
    """

    def __init__(self, most: int = 40) -> None:
        self.slots = CapacityLimiter(most)
        self._threads: set[object] = set()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._threads)

    def leave(self, thread: threading.Event) -> None:
        """A caller has gone; its thread is a stray unless it has just ended."""
        with self._lock:
            if not thread.is_set():
                self._threads.add(thread)

    def end(self, thread: threading.Event) -> None:
        """A thread has done its work, whether anybody waits for it or not."""
        with self._lock:
            thread.set()
            self._threads.discard(thread)


strays: ContextVar[Strays | None] = ContextVar("otel_evals_strays", default=None)
"""Where threads left behind are counted, for the tasks of one lane."""


async def call(function: Callable[[_Argument], Any], argument: _Argument, *, inline: bool = False) -> Any:
    """Call a sync or async function; a sync one in a worker thread, unless `inline`.

    When cancelled, a worker thread is left to end by itself and its result is thrown away.
    """
    if inline or _is_async(function):
        result = function(argument)
    else:
        result = await _in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[[_Argument], Any], argument: _Argument) -> Any:
    counted, ended = strays.get(), threading.Event()
    slots = None if counted is None else counted.slots

    def work() -> Any:
        try:
            return function(argument)
        finally:
            if counted is not None:
                counted.end(ended)

    try:
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=slots)
    except asyncio.CancelledError:
        if counted is not None:
            counted.leave(ended)
        raise


def _is_async(function: Callable[..., Any]) -> bool:
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
