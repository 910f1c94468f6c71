"""Exit hooks for processes that skip `atexit`: forked children of multiprocessing, and Celery's workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

_PRIORITY = -100  # negative: multiprocessing has joined the process's own children by then
_hooked: list[Callable[[], object]] = []


def register_exit_hook(shutdown: Callable[[], object]) -> None:
    """Call a module-level function when this process or a forked child exits in one of these ways.

    Imports nothing: a process that can exit in one of these ways has loaded the module.
    """
    _hook(shutdown)
    if hasattr(os, "register_at_fork") and shutdown not in _hooked:
        _hooked.append(shutdown)
        os.register_at_fork(after_in_child=lambda: _hook(shutdown))


def _hook(shutdown: Callable[[], object]) -> None:
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None:
        util.register_after_fork(shutdown, _finalize)  # children drop inherited finalizers
        if process is not None and process.parent_process() is not None:
            _finalize(shutdown)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(lambda **_: shutdown(), weak=False, dispatch_uid=__name__)


def _finalize(shutdown: Callable[[], object]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, shutdown, exitpriority=_PRIORITY)
