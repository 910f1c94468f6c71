"""The journal of received spans: with a store, what was acknowledged and is not in the store yet is here.

A run is written to the store once its trace is complete. Until then, what may be sampled of each request
stands in files beside the store, which survive the process. They are written without waiting for the disk, as
the store is: a crash of the machine may lose the last moments. A file is deleted once every trace in it is
decided, and every held span in it forwarded. Each process has a folder of its own, locked while it lives; the
next process takes over the folders whose lock is free.
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
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals.sdk.util import HAS_FILE_LOCKS, try_lock
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import Selection
from otel_evals_gateway._internal.request_parts import request_of
from otel_evals_gateway._internal.scoring_engine import Scoring

__all__ = ["FileJournal", "HeldPart", "Journal", "Replayed", "open_journal"]

_logger = logging.getLogger(__name__)
_HEAD = struct.Struct("<BII")
"""Kind, length and checksum of an entry."""
_KINDS: dict[Signal, int] = {"traces": 1, "logs": 2}
_HELD, _FORWARDED = 3, 4
_KEY = 24
"""Bytes of a trace id and a span id."""
_SEGMENT_BYTES = 8 * 1024 * 1024
_COLLECT_SECONDS = 1.0
_STORE_SECONDS = 5.0
_UNBOUNDED = 2**31


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A span that is held, as a request of its own."""

    key: bytes
    """Its trace id and span id."""
    data: bytes
    """An ExportTraceServiceRequest."""


class Replayed(Protocol):
    """What takes the entries of an earlier process."""

    def select(self, request: ExportRequest) -> Selection:
        """What of a request may be judged."""

    async def judge(self, signal: str, selection: Selection) -> None:
        """Give the stages what may be judged."""

    def restore(self, held: Iterable[HeldPart]) -> None:
        """Go on to hold spans until they are forwarded."""


class Journal:
    """Keeps nothing; the default, without a store."""

    keeps = False
    """Whether anything is kept."""

    def append(self, request: ExportRequest, selection: Selection, held: Iterable[HeldPart] = ()) -> bool:
        """Keep what may be judged of a request, and its held spans; whether that was possible."""
        return True

    def forwarded(self, keys: Collection[bytes]) -> None:
        """Held spans were forwarded."""

    async def replay(self, to: Replayed) -> None:
        """Read what earlier processes left, and begin to delete what is done with."""

    async def collect(self) -> None:
        """Delete what is done with."""

    def close(self) -> None:
        """Close the files; what is not done with stays."""


@dataclass(slots=True, eq=False)
class _Segment:
    path: Path
    traces: set[str] = field(default_factory=set)
    held: set[bytes] = field(default_factory=set)
    size: int = 0


class FileJournal(Journal):
    """Keeps entries in files.

    Args:
        folder: of the journals of all processes of a store.
        scoring: knows which traces are decided.
        most: bytes that the files of this process may have together.

    Raises:
        ConfigError: the folder cannot be used.
    """

    keeps = True

    def __init__(self, folder: Path, scoring: Scoring, most: int) -> None:
        self._all = folder
        self._scoring = scoring
        self._most = most
        self._segments: list[_Segment] = []
        self._current: IO[bytes] | None = None
        self._locks: list[tuple[IO[bytes], Path]] = []
        self._adopted: list[Path] = []
        self._number = 0
        self._collecting: asyncio.Task[None] | None = None
        try:
            self._folder = self._own_folder()
        except OSError as error:
            raise ConfigError("store", f"{folder} cannot be used: {error}") from error

    def append(self, request: ExportRequest, selection: Selection, held: Iterable[HeldPart] = ()) -> bool:
        """Keep what may be judged of a request, and its held spans; whether that was possible."""
        entries = [(_KINDS[request.signal], request_of(request, selection))]
        parts = list(held)
        entries += [(_HELD, part.key + part.data) for part in parts]
        if not self._write(entries):
            return False
        segment = self._segments[-1]
        segment.traces |= selection.traces
        segment.held.update(part.key for part in parts)
        return True

    def forwarded(self, keys: Collection[bytes]) -> None:
        """Held spans were forwarded."""
        if keys:
            self._write([(_FORWARDED, b"".join(keys))])
            for segment in self._segments:
                segment.held.difference_update(keys)

    async def replay(self, to: Replayed) -> None:
        """Read what earlier processes left, and begin to delete what is done with."""
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
                    await self._again(to, kind, payload, segment)
            self._segments.insert(0, segment)
        for part, segment in held.values():
            segment.held.add(part.key)
        to.restore([part for part, _ in held.values()])
        self._collecting = asyncio.ensure_future(self._collect_always())

    async def collect(self) -> None:
        """Delete the segments whose traces are all decided and whose held spans are all forwarded."""
        candidates = [segment for segment in self._segments if not segment.held]
        if not candidates or self._scoring.putting:
            return
        if self._current is not None and candidates[-1] is self._segments[-1]:
            self._rotate()
        began = {id(segment) for segment in candidates}
        still = await asyncio.to_thread(self._scoring.engine.open_traces, _STORE_SECONDS)
        if still is None:
            return
        for segment in candidates:
            segment.traces &= still
            if not segment.traces and not segment.held and id(segment) in began:
                self._segments.remove(segment)
                segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; what is not done with stays."""
        if self._collecting is not None:
            self._collecting.cancel()
        self._rotate()
        for lock, folder in self._locks:
            with contextlib.suppress(OSError):
                if not any(folder.glob("*.log")):
                    (folder / "lock").unlink()
                    folder.rmdir()
            lock.close()

    async def _again(self, to: Replayed, kind: int, payload: bytes, segment: _Segment) -> None:
        signal: Signal = "traces" if kind == _KINDS["traces"] else "logs"
        selection = to.select(decode(ExportRequest(signal, payload), _UNBOUNDED))
        segment.traces |= selection.traces
        await to.judge(signal, selection)

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
            self._rotate()  # what was written in part ends the old file
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
        """The files of processes that have ended, oldest first."""
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


def open_journal(config: Config, scoring: Scoring) -> Journal:
    """The journal of a configuration: beside its store, or one that keeps nothing.

    Raises:
        ConfigError: its folder cannot be used, or the system has no file locks.
    """
    if config.store is None:
        return Journal()
    if not HAS_FILE_LOCKS:
        raise ConfigError("store", "the gateway's needs file locks, which this system lacks; leave it out")
    folder = config.store.with_name(f"{config.store.name}.received")
    scoring.gatherer.keeps_open = True
    return FileJournal(folder, scoring, config.store_max_bytes)


def _entries(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole entries of a file; the last one may have been cut off."""
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
