"""Tells a cancellation from outside, which must go on, from one that a scorer raised by itself."""

from __future__ import annotations

import asyncio

__all__ = ["is_cancelled", "must_propagate"]


def must_propagate(error: BaseException) -> bool:
    """Whether an exception caught in a coroutine belongs to who runs it, not to what the coroutine did.

    That is GeneratorExit, which closes it, and CancelledError where its task was asked to cancel. A
    CancelledError that a scorer raised or met in a task of its own is a failure of that scorer, as are
    SystemExit and KeyboardInterrupt, which must not end the thread that scores.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def is_cancelled(error: BaseException) -> bool:
    """Whether an exception says that the current task was asked to cancel."""
    return isinstance(error, asyncio.CancelledError) and must_propagate(error)
