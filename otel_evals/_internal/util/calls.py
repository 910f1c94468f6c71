"""Calls users' functions: sync ones in a worker thread, async ones on the event loop."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from anyio import CapacityLimiter, fail_after, move_on_after, to_thread
from anyio.lowlevel import RunVar

_Argument = TypeVar("_Argument")
_CLEANUP_SECONDS = 0.5
_Result = TypeVar("_Result")


class AbandonedThreads:
    """Counts running worker threads whose caller timed out."""

    def __init__(self, limit: int | None = None) -> None:
        self.slots = None if limit is None else CapacityLimiter(limit)
        """None for those that anyio has for all callers."""
        self.calls: set[_Call] = set()
        """Abandoned calls."""
        self._lock = threading.Lock()

    def note(self, call: _Call, **changes: bool) -> None:
        """Change `runs` or `left` of a call, which counts while both are true; its caller may leave first."""
        with self._lock:
            for name, value in changes.items():
                setattr(call, name, value)
            if call.runs and call.left:
                self.calls.add(call)
            else:
                self.calls.discard(call)


@dataclass(slots=True, eq=False)
class _Call:
    runs: bool = False
    left: bool = False
    """True after its caller has gone."""


abandoned_threads: ContextVar[AbandonedThreads] = ContextVar("otel_evals_abandoned_threads")
"""Counter for the tasks of one rule."""
_others = AbandonedThreads()
"""Counter for all other tasks, which nobody reads."""


async def call(function: Callable[[_Argument], Any], argument: _Argument, *, inline: bool = False) -> Any:
    """Call a sync or async function; a sync one in a worker thread, unless `inline`.

    On cancellation, a worker thread is abandoned: it ends by itself and its result is discarded.
    """
    if inline or is_async(function):
        result = function(argument)
    else:
        result = await _counted_in_thread(function, argument)
    return await result if inspect.isawaitable(result) else result


async def _counted_in_thread(function: Callable[[_Argument], Any], argument: _Argument) -> Any:
    counted, made = abandoned_threads.get(_others), _Call()

    def work() -> tuple[Any, BaseException | None]:
        counted.note(made, runs=True)
        try:
            return function(argument), None
        except BaseException as error:  # as a value: not every exception can be raised in another thread
            return None, error
        finally:
            counted.note(made, runs=False)

    try:
        result, error = await in_thread(work, abandon_on_cancel=True, limiter=counted.slots)
    except asyncio.CancelledError:
        counted.note(made, left=True)
        raise
    if error is not None:
        raise error
    return result


async def outcome_of(ask: Callable[[], Awaitable[Any]], seconds: float | None = None) -> Any:
    """Await users' code in a separate task; return its result, or the exception, such as a TimeoutError.

    The code may cancel its current task. Only a cancellation of the caller's task is raised.
    """

    async def contained() -> Any:
        try:
            with fail_after(seconds):
                return await ask()
        except BaseException as error:  # as a value: SystemExit would end the loop
            return error

    task = asyncio.ensure_future(contained())
    hide_task(task)
    try:
        # `wait` raises only if the caller's own task is cancelled.
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        with move_on_after(_CLEANUP_SECONDS, shield=True):  # code that ignores its cancellation goes on
            await asyncio.wait({task})
        raise
    return asyncio.CancelledError("it cancelled itself") if task.cancelled() else task.result()


async def in_thread(
    function: Callable[..., _Result],
    *arguments: Any,
    abandon_on_cancel: bool = False,
    limiter: CapacityLimiter | None = None,
) -> _Result:
    """Call a function in a worker thread, as `anyio.to_thread.run_sync` does.

    Where an ending interpreter starts no more threads, the threads of the loop's executor call it.
    """
    if not threads_are_over():
        return await to_thread.run_sync(
            function, *arguments, abandon_on_cancel=abandon_on_cancel, limiter=limiter
        )
    async with limiter or nullcontext():
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


KEEPS_THREADS = sys.version_info[:2] == (3, 12)
"""True for Python 3.12, which starts no thread while it ends: not even for the runs of the last lines."""


def threads_are_over() -> bool:
    """Return True while this interpreter ends and starts no more threads."""
    return KEEPS_THREADS and getattr(threading, "_SHUTTING_DOWN", False) is True


def is_async(function: Callable[..., Any]) -> bool:
    """Return True if a function is defined to return an awaitable."""
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


class _Here(threading.local):
    """The hidden tasks of this thread's loops."""

    def __init__(self) -> None:
        self.tasks = weakref.WeakSet[asyncio.Task[Any]]()


_hidden = _Here()


def hide_task(task: Any) -> None:
    """Hide a task from users' functions that use `asyncio.all_tasks`."""
    asyncio._unregister_task(task)  # as asyncio says for tasks of others
    _hidden.tasks.add(task)


def hidden_task(loop: Any, coroutine: Any, **options: Any) -> Any:
    """Create a task that users' functions do not find, as a loop's task factory."""
    task = asyncio.Task(coroutine, loop=loop, **options)
    hide_task(task)
    return task


def of_this_loop(variable: RunVar[_Result], make: Callable[[], _Result]) -> _Result:
    """Return the running event loop's value of a variable, made on first use."""
    try:
        return variable.get()
    except LookupError:
        variable.set(made := make())
        return made


def hidden_tasks() -> set[asyncio.Task[Any]]:
    """Return the other hidden tasks of the running loop that have not ended."""
    loop, current = asyncio.get_running_loop(), asyncio.current_task()
    return {t for t in _hidden.tasks if t.get_loop() is loop and not t.done() and t is not current}


def must_propagate(error: BaseException) -> bool:
    """Return True for GeneratorExit, and for CancelledError if the current task is cancelled.

    Any other CancelledError is a failure of the scorer that raised it, as are SystemExit and
    KeyboardInterrupt, which must not end the thread that scores.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)
