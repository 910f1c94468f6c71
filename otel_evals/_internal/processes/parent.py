"""The parent process as a child process sees it: set-up of the child, and the child's end of the pipes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from queue import Queue
from typing import IO

from opentelemetry import context

from otel_evals._internal.recursion import mark

_LENGTH = struct.Struct(">Q")
_MOST = 1 << 20
_NICE = 5
_LAST_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1
_IGNORED = (signal.SIGINT, signal.SIGTERM)


def write_frame(pipe: IO[bytes], frame: bytes) -> None:
    """Write a frame: its length in eight bytes, then its content. OSError or ValueError on a closed pipe."""
    left = memoryview(_LENGTH.pack(len(frame)) + frame)
    while left:
        left = left[pipe.write(left[:_MOST]) :]


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """Wait for a frame; None once the writer has closed the pipe."""
    head = _read(pipe, _LENGTH.size)
    return None if head is None else _read(pipe, _LENGTH.unpack(head)[0])


def _read(pipe: IO[bytes], size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        piece = pipe.read(min(size - len(pieces), _MOST))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


class Parent:
    """The child's end of the pipes. Create it on the main thread, before anything else.

    A thread reads the frames, so the process exits when its parent does, even if the main thread is busy; on
    Linux the kernel kills it even if no Python thread can run.
    """

    def __init__(self) -> None:
        _ignore_signals()
        self._in, self._out = _private(0, "rb"), _private(1, "wb")
        _detach_standard_streams()
        _end_with_parent()
        _yield_to_application()
        context.attach(mark())
        self._frames: Queue[bytes | None] = Queue()
        threading.Thread(target=self._listen, name="otel-evals-pipe", daemon=True).start()

    def receive(self) -> bytes | None:
        """Wait for a frame; None once the parent has closed the pipe."""
        return self._frames.get()

    def send(self, reply: bytes) -> None:
        with contextlib.suppress(OSError):
            write_frame(self._out, reply)

    def _listen(self) -> None:
        while (frame := read_frame(self._in)) is not None:
            self._frames.put(frame)
        self._frames.put(None)
        time.sleep(_LAST_SECONDS)
        os._exit(0)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block SIGINT and SIGTERM on this thread, and thereby in child processes that it starts.

    A signal to the parent's process group, or to every process of a service, would end the child while its
    interpreter starts. The child unblocks them once it ignores them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ignore_signals() -> None:
    """Ignore Ctrl-C and a supervisor's SIGTERM to the whole group: the parent still needs this process."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _IGNORED)


def _private(fd: int, mode: str) -> IO[bytes]:
    return open(os.dup(fd), mode, buffering=0)


def _detach_standard_streams() -> None:
    """Redirect a scorer's output to stderr and its input from /dev/null, since the pipes are in use."""
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
