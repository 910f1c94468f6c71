"""Tells a cancellation from outside, which must go on, from one that a scorer raised by itself."""

from __future__ import annotations

import asyncio


def must_propagate(error: BaseException) -> bool:
    """Whether an exception caught in a coroutine belongs to who runs it, not to what the coroutine did.

    That is GeneratorExit, which closes it, and CancelledError where its task was asked to cancel. A
    CancelledError that a scorer raised or met in a task of its own is a failure of that scorer, as are
    SystemExit and KeyboardInterrupt, which must not end the thread that scores.
    """
    kind = type(error)  # an exception may lie about its `__class__`
    if issubclass(kind, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return issubclass(kind, GeneratorExit)


def is_cancelled(error: BaseException) -> bool:
    """Whether an exception says that the current task was asked to cancel."""
    return issubclass(type(error), asyncio.CancelledError) and must_propagate(error)
