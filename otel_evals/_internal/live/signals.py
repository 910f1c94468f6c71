"""Graceful ends of processes: SIGTERM (opt-in), and processes that skip `atexit`.

Forked children of multiprocessing and Celery's workers skip `atexit`.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_logger = logging.getLogger(__name__)
_PRIORITY = -100  # negative: multiprocessing has joined the process's own children by then
_Call = Callable[[], object]


class OneAtATime:
    """A lock that signal handlers can use: a handler that interrupts its owner postpones its work.

    A handler runs on the main thread between two instructions. Waiting for a lock that the main thread holds
    would be a deadlock.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()
        self._inside: set[int] = set()
        self._postponed: list[_Call] = []

    def __enter__(self) -> None:
        self._inside.add(threading.get_ident())  # before the lock: a handler may interrupt this very line
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        self._inside.discard(threading.get_ident())
        # Python runs signal handlers on the main thread only.
        if threading.current_thread() is threading.main_thread():
            while self._postponed:
                self._postponed.pop(0)()

    def postpone(self, function: _Call) -> bool:
        """If the calling thread holds the lock, call the function after its release, and return True."""
        if threading.get_ident() not in self._inside:
            return False
        self._postponed.append(function)
        return True


def chain_sigterm(
    shutdown: _Call,
    flush: _Call,
    timeout: float,
    stopping: OneAtATime,
) -> bool:
    """Install a SIGTERM handler that scores everything before the signal takes effect.

    Without a handler of the application, `shutdown` is called and the signal raised again; the process ends
    by SIGTERM. Otherwise `flush` is called, then the application's handler, and `shutdown` when the process
    exits. Both run on a new thread, because the main thread may hold a lock that they need, and are waited
    for up to `timeout` seconds; an event loop, which has requests to answer, does not wait for `flush`. A
    signal while `stopping` is held takes effect afterwards.

    Returns False and sets no handler if SIGTERM is ignored, and on other threads than the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        _logger.warning("SIGTERM is not handled: only the main thread can set signal handlers")
        return False
    previous: Any = signal.getsignal(signal.SIGTERM)
    if previous == signal.SIG_IGN or previous is None:
        return False

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.postpone(lambda: handle(number, frame)):
            return
        if callable(previous):
            _begin(flush).join(0.0 if asyncio._get_running_loop() else timeout)
            previous(number, frame)
            _shutdown_last(shutdown)
        else:
            _begin(shutdown).join(timeout)
            signal.signal(number, signal.SIG_DFL)
            # Raised again: the parent process sees that the signal has ended this one.
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)
    return True


def _begin(function: _Call) -> threading.Thread:
    thread = threading.Thread(target=function, name="otel-evals-sigterm", daemon=True)
    thread.start()
    return thread


def _shutdown_last(shutdown: _Call) -> None:
    """Shut down when the process exits by itself.

    Servers such as uvicorn stop serving, restore the default action and raise SIGTERM again, which would end
    the process before its exit handlers run. SIGTERM is therefore blocked on the main thread until then.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def shutdown_then_unblock() -> None:
        shutdown()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    atexit.register(shutdown_then_unblock)


def register_exit_hook(shutdown: _Call) -> None:
    """Call a module-level function when this process or a forked child ends without `atexit`.

    Imports nothing: a process that can end so has loaded the module in question.
    """
    _hook(shutdown)
    _hook_children(shutdown)


@functools.cache  # fork handlers cannot be removed, so each function has one
def _hook_children(shutdown: _Call) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _hook(shutdown))


def _hook(shutdown: _Call) -> None:
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None:
        util.register_after_fork(shutdown, _finalize)  # children drop inherited finalizers
        if process is not None and process.parent_process() is not None:
            _finalize(shutdown)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        # Not weak, since nothing else refers to the lambda; its id connects it once.
        celery.worker_process_shutdown.connect(lambda **_: shutdown(), weak=False, dispatch_uid=__name__)


def _finalize(shutdown: _Call) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, shutdown, exitpriority=_PRIORITY)
