"""The store's own thread: gathers what the engine hands over, writes it in group commits, takes up free runs.

Neither the application nor the engine ever waits for the disk. When the file cannot be used (full, locked,
broken), scoring goes on without it: what could not be written is counted, and the log says so once.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from otel_evals.store.database import transaction
from otel_evals.store.entry import Entry
from otel_evals.store.file import Limits, StoreFile
from otel_evals.store.payload import encode
from otel_evals.store.spool import Spool

__all__ = ["Writer"]

_logger = logging.getLogger(__name__)
_GATHER_SECONDS = 0.05
_REST = 4.0
"""Rests so many times as long as a commit took: no more than a fifth of the time goes into them."""
_POLL_SECONDS = 1.0
_CLAIM = 256
_BACKLOG = 20_000
_FORK_SECONDS = 2.0

_inherited: list[StoreFile] = []
"""Connections of the parent process: a forked child must neither use nor close them."""

Then = Callable[[Sequence[Entry]], None]
_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Batch:
    """What is done in one transaction, and what came of it."""

    changed: list[Entry]
    asked: list[tuple[str, Then]]
    rows: list[int | None] = field(default_factory=list)
    answers: list[tuple[Then, list[Entry]]] = field(default_factory=list)
    claimed: list[Entry] = field(default_factory=list)


class Writer:
    """Keeps the file in step with entries, on a thread of its own.

    Args:
        path: the store's file.
        limits: its bounds.
        post: has a function called on the engine's thread.
        room: how many more runs the engine would take.
        found: called on the engine's thread with runs that were taken up.
        told: called on the engine's thread once it is known whether a new entry is kept.
    """

    def __init__(
        self,
        path: str,
        limits: Limits,
        post: Callable[[Callable[[], object]], None],
        room: Callable[[], int],
        found: Then,
        told: Callable[[Entry], None],
    ) -> None:
        self._limits = limits
        self._post = post
        self._room = room
        self._found = found
        self._told = told
        self._counts: Counter[str] = Counter()
        self._file = StoreFile(path, limits, self._counts)
        self._changed: deque[Entry] = deque()
        self._asked: deque[tuple[str, Then]] = deque()
        self._waiting: deque[Callable[[], None]] = deque()
        self._held: Counter[int] = Counter()
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._starting = threading.Lock()
        self._forking = threading.Lock()
        self._pausing = False
        self._paused = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._claim_at = self._rest_until = 0.0

    def stats(self) -> Mapping[str, int]:
        """`written`, `taken_over`, `lease_lost`, and what was lost: `not_written.*`, `evicted.*`."""
        return dict(self._counts)

    # --- from the engine's thread ---

    def start(self) -> None:
        """Start the thread, if it does not run yet."""
        with self._starting:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="otel-evals-store", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is shutting down
                    self._thread = None
                    self._closing = True

    def save(self, entry: Entry) -> None:
        """Have an entry's status written. `entry.kept` tells later whether a new one could be."""
        if self._closing or len(self._changed) >= _BACKLOG:
            self._counts["not_written.backlog"] += 1
            self._post(partial(self._tell, [entry]))
            return
        self._changed.append(entry)
        if entry.row is None and not self._hurry.is_set():
            self._hurry.set()
        if not self._work.is_set():
            self._work.set()
        if self._thread is None:
            self.start()

    def ask(self, trace_id: str, then: Then) -> None:
        """Take up the kept runs of a trace; `then` is called with them on the engine's thread."""
        self._asked.append((trace_id, then))
        self._work.set()
        self.start()

    def flush(self, then: Callable[[], None]) -> None:
        """Write everything at once; `then` is called on the writer's thread when that was tried."""
        self._waiting.append(then)
        self._hurry.set()
        self._work.set()
        if self._thread is None:
            _call_all(_popped(self._waiting))

    def close(self, then: Callable[[], None]) -> None:
        """Write everything, free what is still held, and end the thread."""
        self._closing = True
        self.flush(then)

    def before_fork(self) -> None:
        """Have the file closed until the fork is over: SQLite's locks and notes do not survive one.

        Its own thread closes it: on another one it would not end at once, where there is no interpreter lock.
        """
        self._forking.acquire(timeout=_FORK_SECONDS)
        if self._thread is not None and self._thread.is_alive():
            self._pausing = True
            self._paused.clear()
            self._work.set()
            self._hurry.set()
            self._paused.wait(_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Go on; the file is opened again when there is something to write."""
        self._pausing = False
        if self._forking.locked():
            self._forking.release()

    def leave_to_parent(self) -> None:
        """In a forked child: should a connection of the parent still be open, leave it alone."""
        _inherited.append(self._file)

    # --- on the writer's thread ---

    def _run(self) -> None:
        while True:
            self._work.wait(0.0 if self._closing else self._idle_for())
            if not self._closing:
                self._gather()
            closing, waiting = self._closing, _popped(self._waiting)
            self._work.clear()
            self._hurry.clear()
            self._pause()
            try:
                self._step(closing)
            except Exception:
                _logger.exception("the store's thread failed; it goes on")
            if closing:
                self._file.close()
            _call_all(waiting)
            if closing:
                _call_all(_popped(self._waiting))
                return

    def _pause(self) -> None:
        """While the process forks, without the file."""
        if self._pausing:
            self._file.pause()
            while self._pausing:
                self._paused.set()
                time.sleep(0.001)

    def _gather(self) -> None:
        """What is new is written at once where nothing was written just before; what changes can wait."""
        self._hurry.wait(_GATHER_SECONDS)
        time.sleep(max(0.0, self._rest_until - time.monotonic()))

    def _idle_for(self) -> float:
        """Seconds until there is something to do without being asked."""
        longest = min(_POLL_SECONDS, self._limits.lease / 3)
        return max(0.0, min(longest, self._claim_at - time.monotonic()))

    def _step(self, closing: bool) -> None:
        batch = _Batch(list(dict.fromkeys(_popped(self._changed))), _popped(self._asked))
        spool = self._file.opened()
        if spool is None:
            self._refuse(batch.changed, "unusable")
            for _, then in batch.asked:
                self._post(partial(then, ()))
            return
        may_claim = not closing and time.monotonic() >= self._claim_at
        if not (batch.changed or batch.asked or closing or may_claim or self._file.upkeep_due()):
            return
        try:
            began = time.monotonic()
            self._write(spool, batch, may_claim=may_claim, closing=closing)
            ended = time.monotonic()
            self._rest_until = ended + min(_GATHER_SECONDS, _REST * (ended - began))
        except (sqlite3.Error, OSError) as error:
            self._failed(batch, error)
        else:
            self._succeeded(batch)

    def _write(self, spool: Spool, batch: _Batch, *, may_claim: bool, closing: bool) -> None:
        assert self._file.connection is not None
        with transaction(self._file.connection):
            self._file.upkeep(spool)
            batch.rows = [self._save(spool, entry) for entry in batch.changed]
            batch.answers = [(then, spool.take_done(trace_id)) for trace_id, then in batch.asked]
            batch.claimed = self._claim(spool) if may_claim else []
            if closing:
                spool.release()

    def _save(self, spool: Spool, entry: Entry) -> int | None:
        """Write one entry; its row, or None when it has none."""
        status = entry.status
        if status.state == "done" and not self._limits.keep:
            status = replace(status, state="gone")
        # Cleared before the spans are read: what the engine adds from now on is written the next time.
        grown, entry.grown = entry.grown, False
        if entry.row is not None:
            payload = encode(entry.spans, entry.links) if grown else None
            if not spool.update(entry.row, status, payload):
                self._counts["lease_lost"] += 1
            return entry.row
        if entry.kept is False or status.state == "gone":
            return None
        try:
            payload = encode(entry.spans, entry.links)
        except (ValueError, RecursionError):
            self._counts["not_written.unserializable"] += 1
            return None
        if not self._file.has_room(spool, len(payload)):
            self._counts["not_written.full"] += 1
            self._file.trouble("it is full")
            return None
        return spool.insert(entry, status, payload)

    def _claim(self, spool: Spool) -> list[Entry]:
        limit = min(_CLAIM, self._room())
        claimed = spool.claim(limit, self._held) if limit > 0 else []
        self._counts["taken_over"] += sum(entry.status.crashes > 0 for entry in claimed)
        # More may be waiting: a full hand, or a full engine, is asked again soon.
        more = len(claimed) >= limit or any(entry.status.crashes for entry in claimed)
        self._claim_at = time.monotonic() + (_GATHER_SECONDS if more else _POLL_SECONDS)
        return claimed

    def _succeeded(self, batch: _Batch) -> None:
        refused, told = False, []
        for entry, row in zip(batch.changed, batch.rows, strict=True):
            if entry.row is None:
                entry.row = row
                self._counts["written"] += row is not None
                refused |= row is None and entry.kept is None and entry.status.state == "open"
                told.append(entry)
            elif entry.status.state != "open" or entry.status.free:
                self._held[entry.status.crashes] -= self._held[entry.status.crashes] > 0
        if told:
            self._post(partial(self._tell, told))
        for then, found in batch.answers:
            self._post(partial(then, found))
        self._held.update(entry.status.crashes for entry in batch.claimed)
        if batch.claimed:
            self._post(partial(self._found, batch.claimed))
        # A transaction that wrote nothing succeeds on a full disk too.
        if any(row is not None for row in batch.rows) and not refused:
            self._file.fine()

    def _failed(self, batch: _Batch, error: Exception) -> None:
        self._file.failed(error)
        for entry in batch.changed:
            entry.grown = True
        self._refuse(batch.changed, "failed")
        for _, then in batch.asked:
            self._post(partial(then, ()))
        # What is in the file already is tried again; at the end its lease runs out.
        if not self._closing:
            self._changed.extendleft(entry for entry in reversed(batch.changed) if entry.row is not None)
            self._claim_at = time.monotonic() + _POLL_SECONDS

    def _refuse(self, entries: Sequence[Entry], reason: str) -> None:
        for entry in entries:
            if entry.row is None and entry.kept is None:
                self._counts[f"not_written.{reason}"] += 1
        if entries:
            self._post(partial(self._tell, entries))

    def _tell(self, entries: Sequence[Entry]) -> None:
        """On the engine's thread: whether new entries are kept is known now."""
        for entry in entries:
            if entry.kept is None:
                entry.kept = entry.row is not None
                self._told(entry)


def _popped(queue: deque[_Item]) -> list[_Item]:
    return [queue.popleft() for _ in range(len(queue))]


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()
