"""The queue's thread: writes changed runs in group commits, and claims free ones.

Neither the application nor the engine ever waits for the disk. If the file cannot be used (full, locked,
corrupt), scoring continues without it: unwritten runs are counted and logged once.
"""

from __future__ import annotations

import contextvars
import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from otel_evals._internal.accounting.counters import StoreStats
from otel_evals._internal.config.options import Config
from otel_evals._internal.durable_queue.payload import TooLargeError, encode
from otel_evals._internal.durable_queue.queue_file import QueueFile
from otel_evals._internal.durable_queue.stored_run import StoredRun
from otel_evals._internal.durable_queue.table import RunTable
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.sqlite_file import transaction

_logger = logging.getLogger(__name__)
_GATHER_SECONDS = 0.05
_REST = 4.0
"""Pause after a commit, as a multiple of its duration: commits take at most a fifth of the time."""
_POLL_SECONDS = 1.0
_CLAIM = 256
_BACKLOG = 20_000
_COPIES = 4
"""Copies of an encoded run in memory until SQLite has written it."""
_FORK_SECONDS = 2.0

_inherited: list[QueueFile] = []
"""Files of the parent process: a forked child must neither use nor close their connections."""

Then = Callable[[Sequence[StoredRun]], None]
_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Batch:
    """A transaction's work and results."""

    changed: list[StoredRun]
    asked: list[tuple[str, Then]]
    rows: list[int | None] = field(default_factory=list)
    answers: list[tuple[Then, list[StoredRun]]] = field(default_factory=list)
    claimed: list[StoredRun] = field(default_factory=list)
    unreadable: int = 0


class Writer:
    """Writes runs to the file on its own thread, and claims runs while the engine has room.

    `post` calls functions on the engine's thread: `claimed` with claimed runs, and `resolved` with each new
    run once it is written or lost. `room` returns how many runs, of how many bytes, the engine can take.
    """

    def __init__(
        self,
        config: Config,
        post: Callable[[Callable[[], object]], None],
        room: Callable[[], tuple[int, int]],
        claimed: Then,
        resolved: Callable[[StoredRun], None],
    ) -> None:
        self._config = config
        self._post = post
        self._room = room
        self._claimed = claimed
        self._resolved = resolved
        self._counts: Counter[str] = Counter()
        self._not_written: Counter[str] = Counter()
        self._evicted: Counter[str] = Counter()
        self._file = QueueFile(config, self._evicted)
        self._unwritten: dict[StoredRun, int] = {}
        """Bytes of new runs that are neither written nor lost yet; engine's thread only."""
        self._bytes = 0
        """Of all of them."""
        self._changed: deque[StoredRun] = deque()
        self._asked: deque[tuple[str, Then]] = deque()
        self._waiting: deque[Callable[[], None]] = deque()
        self._leased: Counter[int] = Counter()
        """Claimed runs that this process still has, by their number of crashes."""
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._starting = threading.Lock()
        self._forking = threading.Lock()
        self._pausing = False
        self._paused = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._claim_at = self._rest_until = 0.0

    def stats(self) -> StoreStats:
        """Return the counts of runs written, taken over and lost. Any thread may call it."""
        return StoreStats(
            written=self._counts["written"],
            taken_over=self._counts["taken_over"],
            lease_lost=self._counts["lease_lost"],
            not_written=dict(self._not_written),
            evicted=dict(self._evicted),
        )

    # --- from the engine's thread ---

    def start(self) -> None:
        """Start the thread, if it is not running."""
        with self._starting:
            if self._thread is None and not self._closing:
                # In a copy of this context, which has the privacy settings of the pipeline.
                main, args = contextvars.copy_context().run, (self._run,)
                thread = threading.Thread(target=main, args=args, name="otel-evals-store", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no thread left: the next run tries again
                    return
                self._thread = thread

    def save(self, run: StoredRun) -> None:
        """Write a run's status; for a new run, `run.kept` is set once it is written or lost."""
        if self._thread is None:
            self.start()
        if self._closing or self._thread is None or not self._has_room(run):
            self._count_not_written(run, "backlog")
            self._post(partial(self._resolve, [run]))
            return
        self._changed.append(run)
        if run.row is None and not self._hurry.is_set():
            self._hurry.set()
        if not self._work.is_set():
            self._work.set()

    def _has_room(self, run: StoredRun) -> bool:
        """Return True if a run may wait for the disk; the bytes of a new one count until it is written."""
        if run.kept is None:
            others = self._bytes - self._unwritten.get(run, 0)
            if others and others + run.size > self._config.max_bytes:
                return False
            self._unwritten[run], self._bytes = run.size, others + run.size
        return len(self._changed) < _BACKLOG

    def ask(self, trace_id: str, then: Then) -> None:
        """Claim the done runs of a trace; call `then` with them on the engine's thread."""
        self._asked.append((trace_id, then))
        self._work.set()
        self.start()

    def flush(self, then: Callable[[], None]) -> None:
        """Write everything now; call `then` on the writer's thread after the attempt."""
        self._waiting.append(then)
        self._hurry.set()
        self._work.set()
        if self._thread is None:
            _call_all(_popped(self._waiting))

    def close(self, then: Callable[[], None]) -> None:
        """Write everything, free the remaining runs of this process, and end the thread."""
        self._closing = True
        self.flush(then)

    def before_fork(self) -> None:
        """Have the file closed until the fork is over: SQLite's locks and caches do not survive a fork.

        The writer's own thread closes it: on free-threaded Python, SQLite's locks could otherwise outlive
        the close.
        """
        self._forking.acquire(timeout=_FORK_SECONDS)
        if self._thread is not None and self._thread.is_alive():
            self._pausing = True
            self._paused.clear()
            self._work.set()
            self._hurry.set()
            self._paused.wait(_FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Resume; the file is opened again for the next write."""
        self._pausing = False
        if self._forking.locked():
            self._forking.release()

    def after_fork_in_child(self) -> None:
        """Keep the child from closing the parent's connection, if it is still open."""
        _inherited.append(self._file)

    # --- on the writer's thread ---

    def _run(self) -> None:
        while True:
            self._work.wait(0.0 if self._closing else self._idle_for())
            if not self._closing:  # gather more to write: not at all for new runs, a little for changes
                self._hurry.wait(_GATHER_SECONDS)
                time.sleep(max(0.0, self._rest_until - time.monotonic()))
            closing, waiting = self._closing, _popped(self._waiting)
            self._work.clear()
            self._hurry.clear()
            self._pause()
            try:
                self._step(closing)
            except Exception as error:
                log_error(_logger, "the store's thread caught an error and continues", error=error)
            if closing:
                self._file.close()
            _call_all(waiting)
            if closing:
                _call_all(_popped(self._waiting))
                return

    def _pause(self) -> None:
        """Close the file and wait while the process forks."""
        if self._pausing:
            self._file.close(0.0)
            while self._pausing:
                self._paused.set()
                time.sleep(0.001)

    def _idle_for(self) -> float:
        """Return the seconds until the next poll or heartbeat."""
        longest = min(_POLL_SECONDS, self._config.store_lease / 3)
        return max(0.0, min(longest, self._claim_at - time.monotonic()))

    def _step(self, closing: bool) -> None:
        changed = [run for run in dict.fromkeys(_popped(self._changed)) if run.changed]
        batch = _Batch(changed, _popped(self._asked))
        table = self._file.opened()
        if table is None:
            self._refuse(batch, "unusable")
            return
        may_claim = not closing and time.monotonic() >= self._claim_at
        if not (batch.changed or batch.asked or closing or may_claim or self._file.upkeep_due()):
            return
        try:
            began = time.monotonic()
            self._write(table, batch, may_claim=may_claim, closing=closing)
            self._file.check()  # a file that was deleted meanwhile has accepted the rows too
            ended = time.monotonic()
            self._rest_until = ended + min(_GATHER_SECONDS, _REST * (ended - began))
        except (sqlite3.Error, OSError) as error:
            self._failed(batch, error)
        else:
            self._succeeded(batch)

    def _write(self, table: RunTable, batch: _Batch, *, may_claim: bool, closing: bool) -> None:
        assert self._file.connection is not None
        with transaction(self._file.connection):
            self._file.upkeep(table)
            batch.rows = [self._save(table, run) for run in batch.changed]
            most = self._config.max_bytes
            batch.answers = [(then, table.take_done(trace_id, most)) for trace_id, then in batch.asked]
            batch.claimed = self._claim(table) if may_claim else []
            batch.unreadable, table.unreadable = table.unreadable, 0
            if closing:
                table.release()

    def _save(self, table: RunTable, run: StoredRun) -> int | None:
        """Write one run; return its row id, or None if it is not in the file."""
        status = run.written = run.status
        if status.state == "done" and not self._config.store_keep:
            status = replace(status, state="gone")
        # Cleared before the spans are read: spans that the engine adds meanwhile are written next time.
        grown, run.grown = run.grown, False
        if run.row is not None and run.file != table.file:
            self._return_lease(run)
            run.row = None  # its file is lost
        run.file = table.file
        if run.row is not None:
            payload = self._encoded(run) if grown else None
            if not table.update(run.row, status, payload):
                self._counts["lease_lost"] += 1
            return run.row
        if run.kept is False or status.state == "gone":
            return None
        payload = self._encoded(run)
        if payload is None:
            return None
        if not self._file.has_room(table, len(payload)):
            self._count_not_written(run, "full")
            self._file.trouble("it is full")
            return None
        return table.insert(run, status, payload)

    def _encoded(self, run: StoredRun) -> bytes | None:
        try:
            return encode(run.spans, run.links, self._config.max_bytes // _COPIES)
        except TooLargeError:
            self._count_not_written(run, "too_large")
        except Exception:  # attribute values of any type may raise anything when read
            self._count_not_written(run, "unserializable")
        return None

    def _claim(self, table: RunTable) -> list[StoredRun]:
        room, most = self._room()
        limit = min(_CLAIM, room)
        claimed = table.claim(limit, most, self._leased) if limit > 0 else []
        self._counts["taken_over"] += sum(run.status.crashes > 0 for run in claimed)
        # There may be more: claim again soon if a limit was reached or suspect runs were claimed.
        full = len(claimed) >= limit or sum(run.size for run in claimed) > most // 2
        more = full or any(run.status.crashes for run in claimed)
        self._claim_at = time.monotonic() + (_GATHER_SECONDS if more else _POLL_SECONDS)
        return claimed

    def _succeeded(self, batch: _Batch) -> None:
        refused, new = False, []
        if batch.unreadable:
            self._evicted["set_aside"] += batch.unreadable
        for run, row in zip(batch.changed, batch.rows, strict=True):
            if run.row is None:
                run.row = row
                self._counts["written"] += row is not None
                refused |= row is None and run.kept is None and run.status.state == "open"
                new.append(run)
            elif run.status.state != "open" or run.status.free:
                self._return_lease(run)
        if new:
            self._post(partial(self._resolve, new))
        for then, found in batch.answers:
            self._post(partial(then, found))
        self._leased.update(run.status.crashes for run in batch.claimed)
        if batch.claimed:
            self._post(partial(self._claimed, batch.claimed))
        # A transaction without writes would succeed on a full disk as well.
        if any(row is not None for row in batch.rows) and not refused:
            self._file.fine()

    def _return_lease(self, run: StoredRun) -> None:
        self._leased[run.status.crashes] -= self._leased[run.status.crashes] > 0

    def _failed(self, batch: _Batch, error: Exception) -> None:
        self._file.failed(error)
        for run in batch.changed:
            run.grown, run.written = True, None
        self._refuse(batch, "failed")
        # Updates of existing rows are tried again; if the process ends first, their lease expires.
        if not self._closing:
            self._changed.extendleft(run for run in reversed(batch.changed) if run.row is not None)
            self._claim_at = time.monotonic() + _POLL_SECONDS

    def _refuse(self, batch: _Batch, reason: str) -> None:
        for run in batch.changed:
            if run.row is None and run.kept is None:
                self._count_not_written(run, reason)
        if batch.changed:
            self._post(partial(self._resolve, batch.changed))
        for _, then in batch.asked:
            self._post(partial(then, ()))

    def _count_not_written(self, run: StoredRun, reason: str) -> None:
        """Count a run once: it may be saved again before the engine learns that it was not written."""
        if not run.counted:
            run.counted = True
            self._not_written[reason] += 1

    def _resolve(self, runs: Sequence[StoredRun]) -> None:
        """On the engine's thread: set `kept` of new runs."""
        for run in runs:
            if run.kept is None:
                self._bytes -= self._unwritten.pop(run, 0)
                run.kept = run.row is not None
                self._resolved(run)


def _popped(queue: deque[_Item]) -> list[_Item]:
    return [queue.popleft() for _ in range(len(queue))]


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()
