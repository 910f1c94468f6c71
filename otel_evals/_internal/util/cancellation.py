"""Distinguishes a cancellation of our task from one that a scorer raised."""

from __future__ import annotations

import asyncio


def must_propagate(error: BaseException) -> bool:
    """Return True for GeneratorExit, and for CancelledError if the current task is cancelled.

    Any other CancelledError is a failure of the scorer that raised it, as are SystemExit and
    KeyboardInterrupt, which must not end the thread that scores.
    """
    kind = type(error)  # an exception may lie about its `__class__`
    if issubclass(kind, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return issubclass(kind, GeneratorExit)


def is_cancelled(error: BaseException) -> bool:
    return issubclass(type(error), asyncio.CancelledError) and must_propagate(error)
