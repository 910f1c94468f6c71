"""Calls of users' functions: sync ones in a worker thread, async ones on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

__all__ = ["AbandonedThreads", "abandoned_threads", "call", "is_async"]

_Argument = TypeVar("_Argument")


class AbandonedThreads:
    """Counts worker threads whose caller timed out and that have not ended yet.

    Args:
        limit: how many worker threads may run at once. They serve one rule only, so calls that hang hold up
            no other rule.
    """

    def __init__(self, limit: int = 40) -> None:
        self.slots = CapacityLimiter(limit)
        self.calls: set[_Call] = set()
        """Those whose thread has not ended."""
        self._lock = threading.Lock()

    def caller_left(self, call: _Call) -> None:
        """Count a call as abandoned if its thread runs, or once it does: it may never get one."""
        with self._lock:
            call.left = True
            if call.runs:
                self.calls.add(call)

    def thread_began(self, call: _Call) -> None:
        """A thread has begun with a call."""
        with self._lock:
            call.runs = True
            if call.left:
                self.calls.add(call)

    def thread_ended(self, call: _Call) -> None:
        """Count a call as abandoned no longer."""
        with self._lock:
            call.runs = False
            self.calls.discard(call)


@dataclass(slots=True, eq=False)
class _Call:
    """A call that a worker thread is to make."""

    runs: bool = False
    left: bool = False
    """Whether its caller has gone."""


abandoned_threads: ContextVar[AbandonedThreads | None] = ContextVar(
    "otel_evals_abandoned_threads", default=None
)
"""Where the tasks of one rule count the threads they abandon."""


async def call(function: Callable[[_Argument], Any], argument: _Argument, *, inline: bool = False) -> Any:
    """Call a sync or async function; a sync one in a worker thread, unless `inline`.

    When cancelled, a worker thread is abandoned: it ends by itself and its result is thrown away.
    """
    if inline or is_async(function):
        result = function(argument)
    else:
        result = await _in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[[_Argument], Any], argument: _Argument) -> Any:
    counted, made = abandoned_threads.get(), _Call()
    if counted is None:
        return await to_thread.run_sync(function, argument, abandon_on_cancel=True)

    def work() -> Any:
        counted.thread_began(made)
        try:
            return function(argument)
        finally:
            counted.thread_ended(made)

    try:
        return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=counted.slots)
    except asyncio.CancelledError:
        counted.caller_left(made)
        raise


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling a function gives something to await, as far as its definition tells."""
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
