"""Calls users' functions: sync ones in a worker thread, async ones on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

_Argument = TypeVar("_Argument")


class AbandonedThreads:
    """Counts running worker threads whose caller timed out.

    Args:
        limit: maximum number of worker threads of one rule; calls that hang delay no other rule.
    """

    def __init__(self, limit: int = 40) -> None:
        self.slots = CapacityLimiter(limit)
        self.calls: set[_Call] = set()
        """Abandoned calls."""
        self._lock = threading.Lock()

    def caller_left(self, call: _Call) -> None:
        """Count a call as abandoned while its thread runs; it may not have started yet."""
        with self._lock:
            call.left = True
            if call.runs:
                self.calls.add(call)

    def thread_began(self, call: _Call) -> None:
        """Note that a thread has started a call."""
        with self._lock:
            call.runs = True
            if call.left:
                self.calls.add(call)

    def thread_ended(self, call: _Call) -> None:
        """Note that a thread has ended."""
        with self._lock:
            call.runs = False
            self.calls.discard(call)


@dataclass(slots=True, eq=False)
class _Call:
    """A call in a worker thread."""

    runs: bool = False
    left: bool = False
    """True after its caller has gone."""


abandoned_threads: ContextVar[AbandonedThreads | None] = ContextVar(
    "otel_evals_abandoned_threads", default=None
)
"""Counter for the tasks of one rule."""


async def call(function: Callable[[_Argument], Any], argument: _Argument, *, inline: bool = False) -> Any:
    """Call a sync or async function; a sync one in a worker thread, unless `inline`.

    On cancellation, a worker thread is abandoned: it ends by itself and its result is discarded.
    """
    if inline or is_async(function):
        result = function(argument)
    else:
        result = await _in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Callable[[_Argument], Any], argument: _Argument) -> Any:
    counted, made = abandoned_threads.get(), _Call()

    def work() -> tuple[Any, BaseException | None]:
        if counted is not None:
            counted.thread_began(made)
        try:
            return function(argument), None
        except BaseException as error:  # as a value: not every exception can be raised in another thread
            return None, error
        finally:
            if counted is not None:
                counted.thread_ended(made)

    slots = None if counted is None else counted.slots
    try:
        result, error = await to_thread.run_sync(work, abandon_on_cancel=True, limiter=slots)
    except asyncio.CancelledError:
        if counted is not None:
            counted.caller_left(made)
        raise
    if error is not None:
        raise error
    return result


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a function is defined to return an awaitable."""
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def hide_task(task: asyncio.Task[Any] | None = None) -> None:
    """Hide a task, by default the current one, from users' functions that use `asyncio.all_tasks`."""
    unregister: Any = getattr(asyncio.tasks, "_unregister_task")  # noqa: B009  # as asyncio says for tasks of others
    unregister(task or asyncio.current_task())
