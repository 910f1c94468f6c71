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

    def work() -> tuple[Any, BaseException | None]:
        if counted is not None:
            counted.thread_began(made)
        try:
            return function(argument), None
        except BaseException as error:  # as a value: not every exception can be handed from thread to thread
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
    """Whether calling a function gives something to await, as far as its definition tells."""
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def hide_task(task: asyncio.Task[Any] | None = None) -> None:
    """Leave a task out of `asyncio.all_tasks`: what a user's function may do to all tasks is not for ours.

    Args:
        task: by default the current one.
    """
    unregister: Any = getattr(asyncio.tasks, "_unregister_task")  # noqa: B009  # as asyncio says for tasks of others
    unregister(task or asyncio.current_task())
