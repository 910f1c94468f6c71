"""The store's own thread: gathers what the engine hands over, writes it in group commits, takes up free runs.

Neither the application nor the engine ever waits for the disk. When the file cannot be used (full, locked,
broken), scoring goes on without it: what could not be written is counted, and the log says so once.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from otel_evals.config import Config
from otel_evals.errors import StoreError
from otel_evals.store.database import open_database, transaction
from otel_evals.store.entry import Entry
from otel_evals.store.payload import encode
from otel_evals.store.spool import Spool

__all__ = ["Limits", "Writer", "limits_of"]

_logger = logging.getLogger(__name__)
_GATHER_SECONDS = 0.05
_POLL_SECONDS = 1.0
_REOPEN_SECONDS = 5.0
_UPKEEP_SECONDS = 5.0
_CLAIM = 256
_BACKLOG = 20_000

_inherited: list[object] = []
"""Connections of the parent process: a forked child must neither use nor close them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the store; see Config for their meaning."""

    max_bytes: int = 1024 * 1024 * 1024
    max_age: float = 86_400.0
    keep: float = 600.0
    lease: float = 15.0


class Writer:
    """Keeps the file in step with entries, on a thread of its own.

    Args:
        path: the store's file.
        limits: its bounds.
        post: has a function called on the engine's thread.
        room: how many more runs the engine would take.
        found: called on the engine's thread with runs that were taken up.
    """

    def __init__(
        self,
        path: str,
        limits: Limits,
        post: Callable[[Callable[[], object]], None],
        room: Callable[[], int],
        found: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._path = path
        self._limits = limits
        self._post = post
        self._room = room
        self._found = found
        self.counts: Counter[str] = Counter()
        """`written`, `taken_over`, and by reason what was lost: `not_written.*`, `evicted.*`."""
        self._changed: deque[Entry] = deque()
        self._asked: deque[tuple[str, Callable[[Sequence[Entry]], None]]] = deque()
        self._waiting: deque[Callable[[], None]] = deque()
        self._held: Counter[int] = Counter()
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._starting = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._spool: Spool | None = None
        self._sql: sqlite3.Connection | None = None
        self._in_trouble = 0
        self._reopen_at = self._upkeep_at = self._beat_at = self._claim_at = 0.0

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
            self.counts["not_written.backlog"] += 1
            self._post(partial(self._tell, entry, kept=entry.row is not None))
            return
        self._changed.append(entry)
        self._work.set()
        self.start()

    def ask(self, trace_id: str, then: Callable[[Sequence[Entry]], None]) -> None:
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
            self._answer()

    def close(self, then: Callable[[], None]) -> None:
        """Write everything, free what is still held, and end the thread."""
        self._closing = True
        self.flush(then)

    def leave_to_parent(self) -> None:
        """In a forked child: leave the parent's connection alone."""
        _inherited.append((self._sql, self._spool))

    on_told: Callable[[Entry], None] = staticmethod(lambda _: None)
    """Called on the engine's thread once it is known whether a new entry is kept."""

    # --- on the writer's thread ---

    def _run(self) -> None:
        while True:
            self._work.wait(0.0 if self._closing else self._idle_for())
            if not self._closing:
                self._hurry.wait(_GATHER_SECONDS)
            closing = self._closing
            self._work.clear()
            self._hurry.clear()
            try:
                self._step(closing)
            except Exception:
                _logger.exception("the store's thread failed; it goes on")
            self._answer()
            if closing and not self._changed:
                return

    def _idle_for(self) -> float:
        """Seconds until there is something to do without being asked."""
        longest = min(_POLL_SECONDS, self._limits.lease / 3)
        return max(0.0, min(longest, self._claim_at - time.monotonic()))

    def _step(self, closing: bool) -> None:
        batch = list(dict.fromkeys(self._changed.popleft() for _ in range(len(self._changed))))
        spool = self._opened()
        if spool is None:
            self._asked.clear()
            self._refuse(batch, "unusable")
            return
        try:
            with transaction(self._connection):
                self._upkeep(spool)
                told = [self._save(spool, entry) for entry in batch]
                answers = [(then, spool.take_done(trace_id)) for trace_id, then in self._pop_asked()]
                claimed = [] if closing else self._claimed(spool)
                if closing:
                    spool.release()
        except (sqlite3.Error, OSError) as error:
            self._failed(batch, error)
        else:
            self._succeeded(batch, told, answers, claimed)
        if closing:
            self._disconnect()

    def _save(self, spool: Spool, entry: Entry) -> int | None:
        """Write one entry; its row, or None when it has none."""
        status = entry.status
        if status.state == "done" and not self._limits.keep:
            status = replace(status, state="gone")
        if entry.row is not None:
            payload = encode(entry.spans, entry.links) if entry.grown else None
            if not spool.update(entry.row, status, payload):
                self.counts["lease_lost"] += 1
            return entry.row
        if entry.kept is False or status.state == "gone":
            return None
        try:
            payload = encode(entry.spans, entry.links)
        except (ValueError, RecursionError):
            self.counts["not_written.unserializable"] += 1
            return None
        if len(payload) > self._limits.max_bytes // 2 or self._full(spool, len(payload)):
            self.counts["not_written.full"] += 1
            self._trouble("it is full")
            return None
        return spool.insert(entry, status, payload)

    def _full(self, spool: Spool, more: int) -> bool:
        """Whether there is no room, even after the oldest free runs were evicted."""
        if spool.size + more <= self._limits.max_bytes:
            return False
        self._evict(spool, self._limits.max_bytes * 9 // 10)
        return spool.size + more > self._limits.max_bytes

    def _succeeded(
        self,
        batch: Sequence[Entry],
        rows: Sequence[int | None],
        answers: Sequence[tuple[Callable[[Sequence[Entry]], None], list[Entry]]],
        claimed: list[Entry],
    ) -> None:
        refused = False
        for entry, row in zip(batch, rows, strict=True):
            if entry.row is None:
                entry.row = row
                self.counts["written"] += row is not None
                refused |= row is None and entry.kept is None and entry.status.state == "open"
                self._post(partial(self._tell, entry, kept=row is not None))
            elif entry.status.state != "open" or entry.status.free:
                self._let_go(entry)
            entry.grown = False
        for then, found in answers:
            self._post(partial(then, found))
        if claimed:
            for entry in claimed:
                self._held[entry.status.crashes] += 1
            self._post(lambda: self._found(claimed))
        if self._in_trouble and not refused:
            _logger.warning("the store %s is in use again", self._path)
            self._in_trouble = 0

    def _failed(self, batch: Sequence[Entry], error: Exception) -> None:
        self._trouble(str(error))
        new = [entry for entry in batch if entry.row is None]
        self._refuse(new, "failed")
        # What is in the file already is tried again; at the end its lease runs out.
        if not self._closing:
            self._changed.extendleft(reversed([entry for entry in batch if entry.row is not None]))
        self._work.clear()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            self._disconnect()
        time.sleep(0.0 if self._closing else _GATHER_SECONDS)

    def _refuse(self, batch: Sequence[Entry], reason: str) -> None:
        for entry in batch:
            if entry.row is None and entry.kept is None:
                self.counts[f"not_written.{reason}"] += 1
            self._post(partial(self._tell, entry, kept=entry.row is not None))

    def _tell(self, entry: Entry, *, kept: bool) -> None:
        """On the engine's thread."""
        if entry.kept is None:
            entry.kept = kept
            self.on_told(entry)

    def _claimed(self, spool: Spool) -> list[Entry]:
        now = time.monotonic()
        if now < self._claim_at:
            return []
        limit = min(_CLAIM, self._room())
        claimed = spool.claim(limit, self._held) if limit > 0 else []
        self.counts["taken_over"] += sum(entry.status.crashes > 0 for entry in claimed)
        # More may be waiting: a full hand, or a full engine, is asked again soon.
        more = len(claimed) >= limit or any(entry.status.crashes for entry in claimed)
        self._claim_at = now + (_GATHER_SECONDS if more else _POLL_SECONDS)
        return claimed

    def _let_go(self, entry: Entry) -> None:
        crashes = entry.status.crashes
        if self._held[crashes] > 0:
            self._held[crashes] -= 1

    def _upkeep(self, spool: Spool) -> None:
        now = time.monotonic()
        if now >= self._beat_at:
            spool.beat()
            spool.expire()
            self._beat_at = now + self._limits.lease / 3
        if now >= self._upkeep_at:
            self._evict(spool, self._limits.max_bytes)
            self._upkeep_at = now + _UPKEEP_SECONDS

    def _evict(self, spool: Spool, max_bytes: int) -> None:
        limits = self._limits
        lost = spool.evict(max_bytes=max_bytes, max_age=limits.max_age, keep=limits.keep)
        for reason, count in lost.items():
            self.counts[f"evicted.{reason}"] += count
        if lost:
            _logger.warning("the store %s lost spooled runs: %s", self._path, dict(lost))

    def _pop_asked(self) -> list[tuple[str, Callable[[Sequence[Entry]], None]]]:
        return [self._asked.popleft() for _ in range(len(self._asked))]

    def _answer(self) -> None:
        while self._waiting:
            self._waiting.popleft()()

    @property
    def _connection(self) -> sqlite3.Connection:
        assert self._sql is not None
        return self._sql

    def _opened(self) -> Spool | None:
        if self._spool is not None or time.monotonic() < self._reopen_at:
            return self._spool
        try:
            self._sql = open_database(self._path)
            self._spool = Spool(self._sql, uuid.uuid4().hex, self._limits.lease)
            self._spool.limit(self._limits.max_bytes)
            self._beat_at = self._upkeep_at = self._claim_at = 0.0
        except (StoreError, sqlite3.Error) as error:
            self._trouble(str(error))
            self._disconnect()
        return self._spool

    def _disconnect(self) -> None:
        if self._sql is not None:
            with contextlib.suppress(sqlite3.Error):
                self._sql.close()
        self._sql = self._spool = None
        self._reopen_at = time.monotonic() + _REOPEN_SECONDS

    def _trouble(self, why: str) -> None:
        if not self._in_trouble:
            _logger.warning("the store %s cannot be used: %s; scoring goes on without it", self._path, why)
        self._in_trouble += 1

    def snapshot(self) -> Mapping[str, int]:
        """The counts at this moment."""
        return dict(self.counts)


def limits_of(config: Config) -> Limits:
    """The store's bounds, as configured."""
    return Limits(
        max_bytes=config.store_max_bytes,
        max_age=config.store_max_age,
        keep=config.store_keep,
        lease=config.store_lease,
    )
