"""The thread pool in which functions of scorers and judges run."""

from __future__ import annotations

import contextvars
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class ContextExecutor(ThreadPoolExecutor):
    """Propagates the caller's context, as `asyncio.to_thread` does, so that a scorer's calls stay marked.

    Python closes all executors before the exit handlers, in which what is left is scored: from then on, each
    function has a thread of its own.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function on some thread; its result, or what it raised, is the future's."""
        work = functools.partial(contextvars.copy_context().run, fn, *args, **kwargs)
        try:
            return super().submit(work)
        except RuntimeError:
            future: Future[Any] = Future()
            threading.Thread(target=_fulfil, args=(future, work), daemon=True).start()
            return future


def _fulfil(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:  # raised again where the result is asked for
            future.set_exception(error)
