"""The journal of received spans: with a store, it has the acknowledged items that are not in the store yet.

A run is written to the store once its trace is complete. Until then, the selected items of each request are
in files next to the store, which survive the process. Like the store's, these writes do not wait for the
disk: a crash of the machine may lose the last moments. A file is deleted once every trace in it is decided,
and every held span in it forwarded. Each process has its own folder, locked while it runs; the next process
takes over the unlocked folders.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import struct
import time
import uuid
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals.sdk.pipeline import Source
from otel_evals.sdk.util import HAS_FILE_LOCKS, try_lock
from otel_evals_gateway._internal.receiver.decoder import FIELDS, ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import Selection

_logger = logging.getLogger(__name__)
_HEAD = struct.Struct("<BII")
"""Kind, length and checksum of an entry."""
_KINDS: dict[Signal, int] = {"traces": 1, "logs": 2}
_HELD, _FORWARDED = 3, 4
_KEY = 24
"""Bytes of a trace id and a span id."""
_SEGMENT_BYTES = 8 * 1024 * 1024
_COLLECT_SECONDS = 1.0
_MOST_BYTES = 2**30
_UNBOUNDED = 2**31


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A held span as a separate request."""

    key: bytes
    """Its trace id and span id."""
    data: bytes
    """An ExportTraceServiceRequest."""


Take = Callable[[ExportRequest], Awaitable[Selection]]


class Journal(Source):
    """Keeps nothing; the default, without a journal."""

    keeps = False

    def append(self, request: ExportRequest, selection: Selection, held: Iterable[HeldPart] = ()) -> bool:
        """Keep the selected items of a request, and its held spans; False if that is impossible."""
        return True

    def forwarded(self, keys: Collection[bytes]) -> None:
        """Drop held spans that were forwarded."""

    async def replay(self, take: Take, restore: Callable[[list[HeldPart]], object]) -> None:
        """Hand over the entries of earlier processes, and start to delete files."""

    async def collect(self) -> None:
        """Delete the files whose traces are all decided and whose held spans are all forwarded."""

    def close(self) -> None:
        """Close the files; undecided entries stay."""


@dataclass(slots=True, eq=False)
class _Segment:
    path: Path
    traces: set[str] = field(default_factory=set)
    held: set[bytes] = field(default_factory=set)
    size: int = 0


class FileJournal(Journal):
    """Keeps entries in files of up to `most` bytes; ConfigError if the folder cannot be used."""

    keeps = True

    def __init__(self, folder: Path) -> None:
        self._all = folder
        self._most = _MOST_BYTES
        self._done: deque[str] = deque()
        self._segments: list[_Segment] = []
        self._current: IO[bytes] | None = None
        self._locks: list[tuple[IO[bytes], Path]] = []
        self._number = 0
        self._collecting: asyncio.Task[None] | None = None
        try:
            self._folder = self._own_folder()
        except OSError as error:
            raise ConfigError("journal", f"{folder} cannot be used: {error}") from error

    def append(self, request: ExportRequest, selection: Selection, held: Iterable[HeldPart] = ()) -> bool:
        entries = [(_KINDS[request.signal], _selected(request, selection))]
        parts = list(held)
        entries += [(_HELD, part.key + part.data) for part in parts]
        if not self._write(entries):
            return False
        segment = self._segments[-1]
        segment.traces |= selection.traces
        segment.held.update(part.key for part in parts)
        return True

    def forwarded(self, keys: Collection[bytes]) -> None:
        if keys:
            self._write([(_FORWARDED, b"".join(keys))])
            for segment in self._segments:
                segment.held.difference_update(keys)

    async def replay(self, take: Take, restore: Callable[[list[HeldPart]], object]) -> None:
        held: dict[bytes, tuple[HeldPart, _Segment]] = {}
        for path in self._adopt():
            segment = _Segment(path, size=path.stat().st_size)
            for kind, payload in _entries(path):
                if kind == _HELD:
                    part = HeldPart(payload[:_KEY], payload[_KEY:])
                    held[part.key] = part, segment
                elif kind == _FORWARDED:
                    for at in range(0, len(payload), _KEY):
                        held.pop(payload[at : at + _KEY], None)
                else:
                    signal: Signal = "traces" if kind == _KINDS["traces"] else "logs"
                    selection = await take(decode(ExportRequest(signal, payload), _UNBOUNDED))
                    segment.traces |= selection.traces
            self._segments.insert(0, segment)
        for part, segment in held.values():
            segment.held.add(part.key)
        restore([part for part, _ in held.values()])
        self._collecting = asyncio.ensure_future(self._collect_always())

    def done(self, trace_id: str) -> None:
        self._done.append(trace_id)

    async def collect(self) -> None:
        done = {self._done.popleft() for _ in range(len(self._done))}
        for segment in list(self._segments):
            segment.traces -= done
            if not segment.traces and not segment.held:
                if self._current is not None and segment is self._segments[-1]:
                    self._rotate()
                self._segments.remove(segment)
                segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._collecting is not None:
            self._collecting.cancel()
        self._rotate()
        for lock, folder in self._locks:
            with contextlib.suppress(OSError):
                if not any(folder.glob("*.log")):
                    (folder / "lock").unlink()
                    folder.rmdir()
            lock.close()

    async def _collect_always(self) -> None:
        while True:
            await asyncio.sleep(_COLLECT_SECONDS)
            try:
                await self.collect()
            except Exception:
                _logger.exception("the journal of received spans could not be cleared")

    # --- files ---

    def _write(self, entries: Iterable[tuple[int, bytes]]) -> bool:
        data = b"".join(_HEAD.pack(kind, len(p), zlib.crc32(p)) + p for kind, p in entries)
        if sum(segment.size for segment in self._segments) + len(data) > self._most:
            return False
        try:
            file = self._current or self._next()
            file.write(data)
        except OSError:
            _logger.exception("the journal of received spans cannot be written")
            self._rotate()  # the old file ends with a partial entry
            return False
        self._segments[-1].size += len(data)
        if self._segments[-1].size >= _SEGMENT_BYTES:
            self._rotate()
        return True

    def _next(self) -> IO[bytes]:
        self._number += 1
        path = self._folder / f"{self._number:08}.log"
        self._current = path.open("ab", buffering=0)
        self._segments.append(_Segment(path))
        return self._current

    def _rotate(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    def _own_folder(self) -> Path:
        self._all.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            folder = self._all / f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
            folder.mkdir(mode=0o700)
            if self._lock(folder):
                return folder

    def _adopt(self) -> list[Path]:
        """Take over the files of ended processes, oldest first."""
        found: list[Path] = []
        for folder in sorted(self._all.iterdir()):
            if folder != self._folder and folder.is_dir() and self._lock(folder):
                found += sorted(folder.glob("*.log"))
        return found

    def _lock(self, folder: Path) -> bool:
        try:
            file = (folder / "lock").open("ab")
        except OSError:
            return False
        if not try_lock(file.fileno()):
            file.close()
            return False
        if not os.path.samestat(os.fstat(file.fileno()), (folder / "lock").stat()):  # removed meanwhile
            file.close()
            return False
        self._locks.append((file, folder))
        return True


def open_journal(config: Config) -> Journal:
    """Return the configured journal; ConfigError without file locks for it."""
    if config.journal is None:
        return Journal()
    if not HAS_FILE_LOCKS:
        raise ConfigError("journal", "needs file locks, which this system lacks; leave it out")
    return FileJournal(config.journal)


def _selected(request: ExportRequest, selection: Selection) -> bytes:
    """Return a request with only the selected spans or log records."""
    if len(selection.places) == selection.seen:
        return request.plain
    blocks, scopes, records = FIELDS[request.signal]
    part: Any = type(request.message)()
    block: Any = None
    scoped: Any = None
    at = -1, -1
    for r, s, i in selection.places:
        from_block = getattr(request.message, blocks)[r]
        from_scope = getattr(from_block, scopes)[s]
        if r != at[0]:
            block = getattr(part, blocks).add()
            block.resource.CopyFrom(from_block.resource)
        if (r, s) != at:
            scoped = getattr(block, scopes).add()
            scoped.scope.CopyFrom(from_scope.scope)
            at = r, s
        getattr(scoped, records).append(getattr(from_scope, records)[i])
    return bytes(part.SerializeToString())


def _entries(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the whole entries of a file; a crash may have cut off the last one."""
    data = path.read_bytes()
    at = 0
    while at + _HEAD.size <= len(data):
        kind, length, checksum = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        payload = data[at : at + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            break
        yield kind, payload
        at += length
