"""Frames on a pipe: eight bytes of length, then that many bytes."""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct(">Q")
_MOST = 1 << 20


def write_frame(pipe: IO[bytes], frame: bytes) -> None:
    """Write a frame to an unbuffered pipe; OSError or ValueError if either end is closed."""
    left = memoryview(_LENGTH.pack(len(frame)) + frame)
    while left:
        left = left[pipe.write(left[:_MOST]) :]


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """Wait for a frame on an unbuffered pipe; None once the writer has closed it."""
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
