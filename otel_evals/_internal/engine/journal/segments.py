"""The files of a journal: entries that are appended, each with the keys of what has to be done with it."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

_MAGIC = b"otel-evals journal 2\n"
_HEAD = struct.Struct("<II")
"""Length and checksum of what follows."""
_DONE = "done"


class ForeignFileError(Exception):
    """The file was not written by a journal, or by another version."""


class Entry(NamedTuple):
    """Something to be done, such as a request whose spans have to be scored."""

    kind: str
    payload: bytes
    keys: Collection[bytes]
    """The entry is done once all of them are."""


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Entry)


def done(keys: Iterable[bytes]) -> Entry:
    """Return an entry that says that the earlier entries with these keys are done."""
    return Entry(_DONE, b"", tuple(keys))


def _decoded(data: bytes) -> tuple[list[Entry], int]:
    """Return the whole entries and where they end; a crash may have cut off the last one."""
    entries, end = list[Entry](), len(_MAGIC)
    while end + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, end)
        body = data[end + _HEAD.size : end + _HEAD.size + length]
        # After a broken entry, nothing says where the next one begins. A crash of the machine may leave
        # zeros, whose checksum is right.
        if not body or len(body) < length or zlib.crc32(body) != checksum:
            break
        end += _HEAD.size + length
        entries.append(_decoder.decode(body))
    # A file without the whole magic ends before `end`.
    return entries, min(end, len(data))


@dataclass(slots=True, eq=False)
class Segment:
    """A file with entries, of which some are not done."""

    path: Path
    keys: set[bytes] = field(default_factory=set)
    """The keys that are not done."""
    size: int = 0

    def write(self, entries: Iterable[Entry]) -> None:
        """Append entries, which then survive the process."""
        bodies = list(map(_encoder.encode, entries))
        framed = [_HEAD.pack(len(body), zlib.crc32(body)) + body for body in bodies]
        data = b"".join([b"" if self.size else _MAGIC, *framed])
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            written = os.write(file, data)
            if written < len(data):
                # A part of an entry would hide all entries behind it.
                os.ftruncate(file, self.size)
                raise OSError(f"only {written} of {len(data)} bytes could be written")
            self.size += written
        finally:
            os.close(file)

    def read(self) -> list[Entry]:
        """Return the entries with keys that are not done; ForeignFileError for other files."""
        data = self.path.read_bytes()
        if not data.startswith(_MAGIC):
            # A crash may have cut off the magic: such a file has no entry.
            if not _MAGIC.startswith(data):
                raise ForeignFileError(f"{self.path} was not written by this version's journal")
            data = b""
        read, self.size = _decoded(data)
        if self.size < self.path.stat().st_size:
            os.truncate(self.path, self.size)  # later entries must not follow a part of one
        entries: list[Entry] = []
        finished: dict[bytes, int] = {}
        for entry in read:
            if entry.kind == _DONE:
                # Only for the entries so far: a key may come again, and is then not done.
                finished |= dict.fromkeys(entry.keys, len(entries))
            else:
                entries.append(entry)
        left = []
        for number, entry in enumerate(entries):
            keys = [key for key in entry.keys if finished.get(key, 0) <= number]
            if keys:
                left.append(entry._replace(keys=keys))
                self.keys.update(keys)
        return left
