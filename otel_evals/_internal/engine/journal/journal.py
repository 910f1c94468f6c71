"""Append-only segments in a folder of this process: the next process adopts what this one did not finish.

Entries survive the process at once, and a crash of the machine but for the last moments: writes do not wait
for the disk. A file is deleted once all of its keys are done. Each process has its own folder, locked while
it runs. Nothing here raises: what cannot be kept is reported, and scoring goes on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Final

from otel_evals._internal.engine.journal.segments import Entry, ForeignFileError, Segment, done

try:
    import fcntl
except ImportError:  # as on Windows
    fcntl = None  # type: ignore[assignment]

HAS_FILE_LOCKS = fcntl is not None
_logger = logging.getLogger(__name__)
_SEGMENT_BYTES: Final = 8 * 1024 * 1024
_MAX_BYTES: Final = 2**30
_FOLDER: Final = re.compile(r"\d{20}-[0-9a-f]{8}")
_ADOPTIONS: Final = 3
_STUCK_SECONDS: Final = 300.0
"""A segment is set aside if so many processes crashed with it, and none of it was done for this time."""


class Journal:
    """Keeps entries until their keys are done. Thread-safe.

    Args:
        folder: has a folder for each process.
        max_segment: bytes from which a new file is begun.
        max_bytes: bytes of all files of this process; nothing is kept beyond.
    """

    def __init__(
        self, folder: Path, *, max_segment: int = _SEGMENT_BYTES, max_bytes: int = _MAX_BYTES
    ) -> None:
        self._all = folder
        self._max_segment = max_segment
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._problems: dict[str, str] = {}
        """Why entries cannot be kept, and those of earlier processes not be read."""
        self._reported: set[str] = set()
        if not HAS_FILE_LOCKS:
            self._report("write", f"{folder} is not used: it needs file locks, which this system lacks")
        self._reset()

    def _reset(self) -> None:
        self._folder: Path | None = None
        self._current: Segment | None = None
        self._number = 0
        self._size = 0
        self._of: dict[bytes, set[Segment]] = {}
        """The segments with a key that is not done."""
        self._locks: dict[Path, IO[bytes]] = {}

    @property
    def problem(self) -> str | None:
        """Why entries are not kept, or not all of those of earlier processes; None if all is well."""
        return next((f"the journal: {each}" for each in list(self._problems.values())), None)

    def append(self, *entries: Entry) -> bool:
        """Keep entries; returns False if that is impossible."""
        with self._lock:
            if not HAS_FILE_LOCKS:
                return False
            # Bounds the disk while nothing is accepted: unfinished runs are never deleted.
            if self._size > self._max_bytes:
                self._report("write", f"{self._all} has {self._max_bytes} bytes of runs that are not done")
                return False
            try:
                segment = self._current or self._begin()
                self._write(segment, entries)
            except OSError as error:
                self._report("write", f"{self._all} cannot be written: {error}")
                return False
            self._problems.pop("write", None)
            self._know(segment, [key for entry in entries for key in entry.keys])
            if segment.size >= self._max_segment:
                self._current = None
            return True

    def done(self, *keys: bytes) -> None:
        """Note keys that are done; deletes the files that have no others."""
        with self._lock:
            for segment in {each for key in keys for each in self._of.pop(key, ())}:
                segment.keys.difference_update(keys)
                if segment.keys:
                    with contextlib.suppress(OSError):  # then they are done again after a crash
                        self._write(segment, [done(keys)])
                else:
                    self._delete(segment)

    def adopt(self) -> Iterator[Entry]:
        """Take over the folders of ended processes; yields their entries that are not done, oldest first."""
        for folder in self._unlocked():
            for path in sorted(folder.glob("*.log")):
                yield from self._adopted(path)
            with self._lock:
                self._leave(folder)

    def close(self) -> None:
        """End this process's part; what is not done stays for the next process."""
        with self._lock:
            for segment in set().union(*self._of.values()):
                # Only a crash counts as an attempt: this process has ended well.
                name = segment.path.name.split(".")[0]
                with contextlib.suppress(OSError):
                    segment.path.rename(segment.path.with_name(f"{name}.0.log"))
            for folder in [*self._locks]:
                self._leave(folder, release=True)
            self._reset()

    def after_fork_in_child(self) -> None:
        """Leave everything to the parent; the child gets a folder of its own."""
        self._lock = threading.Lock()
        for lock in self._locks.values():
            lock.close()  # the parent keeps the lock, which would outlive it here
        self._reset()

    # --- files; all with the lock ---

    def _begin(self) -> Segment:
        if self._folder is None:
            self._all.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Names sort by time, for the oldest runs to be adopted first.
            folder = self._all / f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}"
            folder.mkdir(mode=0o700)
            if not self._try_lock(folder):
                raise OSError(f"{folder} cannot be locked")
            self._folder = folder
        self._number += 1
        self._current = Segment(self._folder / f"{self._number:08}.0.log")
        return self._current

    def _know(self, segment: Segment, keys: Collection[bytes]) -> None:
        segment.keys.update(keys)
        for key in keys:
            self._of.setdefault(key, set()).add(segment)

    def _delete(self, segment: Segment) -> None:
        self._size -= segment.size
        if segment is self._current:
            self._current = None
        with contextlib.suppress(OSError):
            segment.path.unlink(missing_ok=True)
        self._leave(segment.path.parent)

    def _write(self, segment: Segment, entries: Collection[Entry]) -> None:
        before = segment.size
        segment.write(entries)
        self._size += segment.size - before

    def _unlocked(self) -> list[Path]:
        """Lock and return the folders of ended processes, oldest first."""
        with self._lock:
            try:
                folders = sorted(self._all.iterdir())
            except FileNotFoundError:
                return []
            except OSError as error:
                self._report("read", f"{self._all} cannot be read: {error}")
                return []
            ours = [each for each in folders if _FOLDER.fullmatch(each.name)]
            return [each for each in ours if each not in self._locks and self._try_lock(each)]

    def _adopted(self, path: Path) -> list[Entry]:
        number, _, adoptions = path.name.removesuffix(".log").partition(".")
        times = int(adoptions) if adoptions.isdecimal() else 0
        segment = Segment(path)
        try:
            idle = time.time() - path.stat().st_mtime
            entries = segment.read()
            if times >= _ADOPTIONS and idle >= _STUCK_SECONDS:
                segment.path = path.rename(path.with_suffix(".poison"))
                raise ForeignFileError(
                    f"{segment.path} is set aside: {times} processes crashed with its runs"
                )
            # Counted before its runs are scored: they may crash this process as well.
            segment.path = path.rename(path.with_name(f"{number}.{times + 1}.log"))
        except (OSError, ForeignFileError, ValueError) as error:
            self._report("read", f"runs of an earlier process are not scored: {error}")
            return []
        with self._lock:
            self._size += segment.size
            self._know(segment, [key for entry in entries for key in entry.keys])
            if not entries:
                self._delete(segment)
        return entries

    def _leave(self, folder: Path, *, release: bool = False) -> None:
        """Remove the folder if nothing is left in it, and unlock it."""
        lock = self._locks.get(folder)
        if lock is None or (folder == self._folder and not release):
            return
        with contextlib.suppress(OSError):
            if {each.name for each in folder.iterdir()} == {"lock"}:
                # While it is locked: another process that has opened it notices that it is gone.
                (folder / "lock").unlink()
                folder.rmdir()
                release = True
        if release:
            lock.close()
            del self._locks[folder]

    def _try_lock(self, folder: Path) -> bool:
        if not HAS_FILE_LOCKS:
            return False
        try:
            file = open(folder / "lock", "ab", opener=_private)  # noqa: SIM115 (kept open while it is locked)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the file is closed, or the process ends
            if os.path.samestat(os.fstat(file.fileno()), (folder / "lock").stat()):
                self._locks[folder] = file
                return True
        file.close()  # another process has it, or has removed it meanwhile
        return False

    def _report(self, kind: str, problem: str) -> None:
        level = logging.DEBUG if kind in self._reported else logging.ERROR
        _logger.log(level, "the journal: %s", problem)
        self._reported.add(kind)  # once: a full disk takes some entries and not others
        self._problems[kind] = problem


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, as `opener` of `open`."""
    return os.open(path, flags, 0o600)
