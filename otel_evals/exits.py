"""Ways out that run no exit handlers: processes of multiprocessing that were forked, and Celery's workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

__all__ = ["leave_at_every_exit"]

_PRIORITY = -100  # any but None; below 0, multiprocessing has joined the process's own children by then
_hooked: list[Callable[[], object]] = []


def leave_at_every_exit(leave: Callable[[], object]) -> None:
    """Have a function of a module called at those ends of this process and its forked children.

    Nothing is imported for it: a process that ends in one of these ways has loaded what ends it.
    """
    _hook(leave)
    if hasattr(os, "register_at_fork") and leave not in _hooked:
        _hooked.append(leave)
        os.register_at_fork(after_in_child=lambda: _hook(leave))


def _hook(leave: Callable[[], object]) -> None:
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None:
        util.register_after_fork(leave, _finalize)  # a child begins by forgetting its parent's finalizers
        if process is not None and process.parent_process() is not None:
            _finalize(leave)
    celery = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(_leaver(leave), weak=False, dispatch_uid=__name__)


def _finalize(leave: Callable[[], object]) -> None:
    sys.modules["multiprocessing.util"].Finalize(None, leave, exitpriority=_PRIORITY)


def _leaver(leave: Callable[[], object]) -> Callable[..., None]:
    def receive(**_: object) -> None:
        leave()

    return receive
