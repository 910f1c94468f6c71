"""Opt-in: leave in order on SIGTERM, then go on as the process would have without us."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["chain_sigterm"]

_logger = logging.getLogger(__name__)


def chain_sigterm(leave: Callable[[], object], timeout: float) -> bool:
    """Have `leave` called on SIGTERM before the handler that was there.

    Where the default action was in place, the signal is raised again afterwards, so that the process still
    ends by SIGTERM. Handlers can only be set by the main thread; elsewhere nothing is set.

    Args:
        leave: called once, on a thread of its own, so that a lock the main thread holds cannot block it.
        timeout: seconds to wait for it.

    Returns:
        Whether the handler was set.
    """
    if threading.current_thread() is not threading.main_thread():
        _logger.warning("SIGTERM is not handled: only the main thread can set signal handlers")
        return False
    previous: Any = signal.getsignal(signal.SIGTERM)

    def handle(number: int, frame: FrameType | None) -> None:
        leaving = threading.Thread(target=leave, name="otel-evals-leave", daemon=True)
        leaving.start()
        leaving.join(timeout)
        if callable(previous):
            previous(number, frame)
        elif previous == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handle)
    return True
