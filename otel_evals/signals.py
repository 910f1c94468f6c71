"""Opt-in: leave in order on SIGTERM, and let the process end as it would have without us."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["chain_sigterm"]

_logger = logging.getLogger(__name__)


def chain_sigterm(leave: Callable[[], object], flush: Callable[[], object], timeout: float) -> bool:
    """Have everything scored on SIGTERM before whatever else the signal does.

    Where the default action was in place, `leave` is called and the signal raised again, so that the process
    still ends by SIGTERM. Where the application has a handler, it decides how the process ends: `flush` is
    called, then the handler, and `leave` at the process's end. Handlers can only be set by the main thread;
    elsewhere, and where SIGTERM is ignored, nothing is set.

    Args:
        leave: called on a thread of its own, so that a lock the main thread holds cannot block it.
        flush: called likewise; not waited for while an event loop runs, whose requests are to be answered.
        timeout: seconds to wait for either.

    Returns:
        Whether the handler was set.
    """
    if threading.current_thread() is not threading.main_thread():
        _logger.warning("SIGTERM is not handled: only the main thread can set signal handlers")
        return False
    previous: Any = signal.getsignal(signal.SIGTERM)
    if previous == signal.SIG_IGN or previous is None:
        return False

    def handle(number: int, frame: FrameType | None) -> None:
        if callable(previous):
            _begin(flush).join(0.0 if asyncio._get_running_loop() else timeout)
            previous(number, frame)
            _leave_last(leave)
        else:
            _begin(leave).join(timeout)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)
    return True


def _begin(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, name="otel-evals-leave", daemon=True)
    thread.start()
    return thread


def _leave_last(leave: Callable[[], object]) -> None:
    """Leave when the process has come to its end by itself.

    Servers such as uvicorn stop serving, restore the default action and raise SIGTERM again, which would end
    the process there and then. The main thread therefore keeps a signal that it raises itself until we left.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def let_it_end() -> None:
        leave()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    atexit.register(let_it_end)
