"""The loop of the engine's thread, which only its main coroutine may end, and what it is given to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from otel_evals._internal.util.calls import hide_task

_T = TypeVar("_T")
_Item_contra = TypeVar("_Item_contra", contravariant=True)
_logger = logging.getLogger(__name__)
_END_SECONDS = 1.0
"""How long tasks may go on after they are cancelled at the end of their loop."""


@contextmanager
def new_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of this thread's own; unlike `asyncio.Runner`, it does not wait for tasks that refuse to end.

    A scorer that catches its cancellation would keep the thread, and all that the engine holds, for good.
    """
    loop = asyncio.new_event_loop()
    try:
        asyncio.set_event_loop(loop)
        yield loop
    finally:
        try:
            run_to_the_end(loop, _end_tasks())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """As `asyncio.run`, in a `new_loop`."""
    with new_loop() as loop:
        return loop.run_until_complete(coroutine)


def run_to_the_end(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, whatever the other tasks of the loop raise.

    A task that raises SystemExit or KeyboardInterrupt stops the loop; a scorer may gather such a task.
    Whoever awaits it is given the exception too, once the loop goes on. A scorer may also stop the loop.
    """
    main, level = loop.create_task(_hidden(coroutine)), logging.WARNING
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
            if main.done() or loop.is_closed():
                raise
            what = "stopped its loop" if isinstance(error, RuntimeError) else f"raised {type(error).__name__}"
            _logger.log(level, "a task %s in the scoring thread, which goes on", what)
            level = logging.DEBUG


async def _hidden(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what the loop is there for, hidden from what scorers do to all tasks of their loop."""
    # First, anyio finds the main task: its worker threads end with that. If they ended with the task that
    # asks for one, each call of a scorer would start a thread.
    with suppress(ImportError, AttributeError):
        from anyio._backends._asyncio import find_root_task

        find_root_task()
    hide_task()
    await coroutine


async def _end_tasks() -> None:
    """Cancel all other tasks, and wait for them, but not for long."""
    loop, left = asyncio.get_running_loop(), asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        done, left = await asyncio.wait(left, timeout=_END_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()  # nobody asks for it any more
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to spare a message
    with suppress(TimeoutError):
        await asyncio.wait_for(loop.shutdown_asyncgens(), _END_SECONDS)


class Work(Protocol[_Item_contra]):
    """What the engine's thread does. All of it is called on that thread."""

    def take(self, items: Sequence[_Item_contra]) -> None:
        """Take up to 256 items; `tick` is called afterwards."""

    def tick(self) -> float:
        """Do what is due, after each batch and when due; returns when next, in `time.monotonic` seconds."""

    async def run(self) -> None:
        """Run in the background, until cancelled: for instance delivery to destinations."""

    def end(self, items: Sequence[_Item_contra]) -> None:
        """Count what was not done, these items among it, which nobody takes any more; may be called again."""
