"""The event loop of the engine's thread, which ends only with its main coroutine, and its thread pool."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from otel_evals._internal.util.calls import KEEPS_THREADS, hide_task, threads_are_over

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)
_KEPT = 4
_END_SECONDS = 1.0
"""Seconds that tasks may continue after their cancellation at the end of their loop."""


@contextmanager
def new_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop that, unlike `asyncio.Runner`, does not wait for tasks that refuse to end.

    A scorer that catches its cancellation would keep the thread and the engine's memory forever.
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
    """Run a coroutine as `asyncio.run` does, in a `new_loop`."""
    with new_loop() as loop:
        return loop.run_until_complete(coroutine)


def run_to_the_end(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, regardless of exceptions in other tasks of the loop.

    A task that raises SystemExit or KeyboardInterrupt stops the loop; a scorer may gather such a task. Its
    awaiter receives the exception too once the loop continues. A scorer may also stop the loop.
    """
    main, level = loop.create_task(_hidden(coroutine)), logging.WARNING
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt, RuntimeError) as error:
            if main.done() or loop.is_closed():
                raise
            what = "stopped its loop" if isinstance(error, RuntimeError) else f"raised {type(error).__name__}"
            _logger.log(level, "a task %s in the scoring thread, which continues", what)
            level = logging.DEBUG


async def _hidden(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run the main coroutine, hidden from scorers that use `asyncio.all_tasks`."""
    # anyio looks up the main task first, because its worker threads end with that task. If they ended with
    # the calling task, each call of a scorer would start a thread.
    with suppress(ImportError, AttributeError):
        from anyio._backends._asyncio import find_root_task

        find_root_task()
    hide_task()
    await coroutine


async def _end_tasks() -> None:
    """Cancel all other tasks, and wait a second for them."""
    loop, left = asyncio.get_running_loop(), asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        done, left = await asyncio.wait(left, timeout=_END_SECONDS)
        for task in done:
            if not task.cancelled():
                task.exception()  # retrieved, or asyncio logs it
    for task in left:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio suppresses the message
    with suppress(TimeoutError):
        await asyncio.wait_for(loop.shutdown_asyncgens(), _END_SECONDS)


class ContextExecutor(ThreadPoolExecutor):
    """Propagates the caller's context, as `asyncio.to_thread` does: a scorer's calls stay marked.

    Python closes all executors before the exit handlers, which score the remaining runs. Each function then
    gets its own thread. Where threads cannot be started any more, those started here call the functions, and
    once they have ended, the caller does.
    """

    def keep_threads(self) -> None:
        """Start threads for the end of an interpreter that starts none then."""
        if KEEPS_THREADS:
            for _ in range(_KEPT):
                super().submit(time.sleep, 0.001)

    def _adjust_thread_count(self) -> None:
        if not (self._threads and threads_are_over()):
            super()._adjust_thread_count()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        work = functools.partial(contextvars.copy_context().run, fn, *args, **kwargs)
        try:
            return super().submit(work)
        except RuntimeError:
            future: Future[Any] = Future()
            if threads_are_over():
                _fulfil(future, work)
            else:
                threading.Thread(target=_fulfil, args=(future, work), daemon=True).start()
            return future


def _fulfil(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # raised again by `Future.result`
            future.set_exception(error)
