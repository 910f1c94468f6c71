"""What every process of ours does first: it takes the pipes for itself and outlives no parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from queue import Queue
from typing import IO

from opentelemetry import context

from otel_evals.isolation.frames import read_frame, write_frame
from otel_evals.marking import mark

__all__ = ["Inside"]

_NICE = 5
_MOST_FRAMES = 64
_LAST_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1


class Inside:
    """The child's end of the pipes. Make it on the main thread, before anything else.

    Frames are read on a thread of their own, so that the parent's end is noticed whatever the main thread
    does; Linux kills the process even when no thread of Python's gets to run.
    """

    def __init__(self) -> None:
        _ignore_signals()
        self._in, self._out = _private(0, "rb"), _private(1, "wb")
        _detach_standard_streams()
        _end_with_parent()
        _yield_to_application()
        context.attach(mark())
        self._frames: Queue[bytes | None] = Queue(_MOST_FRAMES)
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="otel-evals-pipe", daemon=True).start()

    def receive(self) -> bytes | None:
        """Wait for a frame; None when the parent wants no more."""
        return self._frames.get()

    def send(self, reply: bytes) -> None:
        """Send a frame; from any thread."""
        with self._sending, contextlib.suppress(OSError):
            write_frame(self._out, reply)

    def _listen(self) -> None:
        while (frame := read_frame(self._in)) is not None:
            self._frames.put(frame)
        self._frames.put(None)
        time.sleep(_LAST_SECONDS)
        os._exit(0)


def _ignore_signals() -> None:
    """Ctrl-C and a supervisor's SIGTERM are for the parent; it still needs us while it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _private(fd: int, mode: str) -> IO[bytes]:
    return open(os.dup(fd), mode, buffering=0)


def _detach_standard_streams() -> None:
    """What a scorer prints goes to the parent's stderr; what it reads is empty."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        parent = os.getppid()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _yield_to_application() -> None:
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(_NICE)
