"""The table of stored runs: insert, update, claim, release, evict. One connection on one thread."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from otel_evals._internal.durable_queue.payload import decode
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, load_status

_CLAIMED_TOGETHER = (1_000_000, 16, 4, 1)
"""Runs that a process may hold at a time, by their number of crashes: fewer suspects point to the cause."""

MAX_CRASHES = len(_CLAIMED_TOGETHER)
"""A run becomes a dead letter after this many crashes."""

_COLUMNS = "id, trace_id, attempts, crashes, revision, reason, jobs, payload"
_STEP = 256


class RunTable:
    """One process's operations on the table; after `lease` seconds without a heartbeat it counts as ended."""

    def __init__(self, connection: sqlite3.Connection, owner: str, lease: float, file: int = 0) -> None:
        self._sql = connection
        self._owner = owner
        self._lease = lease
        self._boot = boot_id()
        self.file = file
        """Number of the file, if earlier ones at the path were lost: row ids are unique in one only."""
        self.unreadable = 0
        """Unreadable rows that became dead letters."""
        self._page_size = int(self._one("PRAGMA page_size"))

    @property
    def size(self) -> int:
        """Bytes in use as of the last commit."""
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return int(pages) * self._page_size

    def limit(self, max_bytes: int) -> None:
        """Have SQLite refuse growth beyond 125 % of this size."""
        self._sql.execute(f"PRAGMA max_page_count = {max(64, max_bytes * 5 // 4 // self._page_size)}")

    def beat(self) -> None:
        self._sql.execute(
            "INSERT INTO owner (id, pid, boot, seen) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET seen = excluded.seen",
            (self._owner, os.getpid(), self._boot, time.monotonic()),
        )

    def insert(self, run: StoredRun, status: RunStatus, payload: bytes) -> int:
        cursor = self._sql.execute(
            "INSERT INTO run (state, since, owner, due, attempts, crashes, revision, reason, jobs, trace_id,"
            " payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*self._values(status), run.trace_id, payload),
        )
        return int(cursor.lastrowid or 0)

    def update(self, row: int, status: RunStatus, payload: bytes | None) -> bool:
        """Update a run's row; False if another process has taken it over."""
        if status.state == "gone":
            cursor = self._sql.execute("DELETE FROM run WHERE id = ? AND owner = ?", (row, self._owner))
        else:
            cursor = self._sql.execute(
                "UPDATE run SET state = ?, since = CASE state WHEN ?1 THEN since ELSE ? END, owner = ?,"
                " due = ?, attempts = ?, crashes = ?, revision = ?, reason = ?, jobs = ?,"
                " payload = coalesce(?, payload) WHERE id = ? AND owner = ?",
                (*self._values(status), payload, row, self._owner),
            )
        return cursor.rowcount > 0

    def expire(self) -> int:
        """Free the runs of processes whose lease has expired; return their number."""
        now = time.monotonic()
        gone = [
            owner
            for owner, boot, seen in self._sql.execute("SELECT id, boot, seen FROM owner").fetchall()
            if owner != self._owner and (boot != self._boot or abs(now - seen) > self._lease)
        ]
        freed = 0
        for owner in gone:
            freed += self._sql.execute(
                "UPDATE run SET owner = NULL, due = 0, crashes = crashes + 1,"
                " reason = 'its process ended' WHERE owner = ?",
                (owner,),
            ).rowcount
            self._sql.execute("DELETE FROM owner WHERE id = ?", (owner,))
        if freed:
            self._sql.execute(
                "UPDATE run SET state = 'dead_letter', since = ?,"
                " reason = crashes || ' processes ended while they scored it'"
                " WHERE state = 'open' AND owner IS NULL AND crashes >= ?",
                (time.time(), MAX_CRASHES),
            )
        return freed

    def claim(self, limit: int, most: int, held: Mapping[int, int]) -> list[StoredRun]:
        """Claim up to `limit` free runs of `most` bytes that are due.

        `held` counts the runs of this process, by crashes.
        """
        taken: list[StoredRun] = []
        for crashes, together in enumerate(_CLAIMED_TOGETHER):
            room = min(limit - len(taken), together - held.get(crashes, 0))
            left = most - sum(run.size for run in taken)
            if room > 0 and left > 0:
                taken += self._take(
                    left,
                    "state = 'open' AND owner IS NULL AND (due <= ? OR due > ?) AND crashes = ?"
                    " ORDER BY due, id LIMIT ?",
                    (time.time(), time.time() + 86_400, crashes, room),
                )
        return taken

    def take_done(self, trace_id: str, most: int) -> list[StoredRun]:
        """Claim the scored runs of a trace that are kept for late spans: the newest, up to `most` bytes."""
        return self._take(most, "trace_id = ? AND state = 'done' ORDER BY id DESC", (trace_id,))

    def release(self) -> int:
        """Free the runs of this process, and remove the process; return their number."""
        freed = self._sql.execute(
            "UPDATE run SET owner = NULL, due = 0, reason = 'its process shut down' WHERE owner = ?",
            (self._owner,),
        ).rowcount
        self._sql.execute("DELETE FROM owner WHERE id = ?", (self._owner,))
        return freed

    def evict(self, *, max_bytes: int, max_age: float, keep: float) -> Counter[str]:
        """Delete old runs, then excess ones: done runs, then dead letters, then waiting runs.

        Return the number of lost runs by reason; done runs were scored and are no loss.
        """
        lost: Counter[str] = Counter()
        now = time.time()
        self._delete("state = 'done' AND owner IS NULL AND since < ?", (now - keep,))
        for state in ("dead_letter", "open"):
            lost["age"] += self._delete(
                f"state = '{state}' AND owner IS NULL AND since < ?", (now - max_age,)
            )
        for state in ("done", "dead_letter", "open"):
            while self.size > max_bytes:
                where = (
                    f"id IN (SELECT id FROM run WHERE state = '{state}' AND owner IS NULL"
                    f" ORDER BY since LIMIT {_STEP})"
                )
                deleted = self._delete(where, ())
                if not deleted:
                    break
                lost["size"] += deleted if state != "done" else 0
        return +lost

    def _take(self, most: int, where: str, values: tuple[Any, ...]) -> list[StoredRun]:
        """Claim runs of up to `most` bytes together, or one run."""
        found = self._sql.execute(f"SELECT id, length(payload) FROM run WHERE {where}", values).fetchall()
        sizes = accumulate(size for _, size in found)
        rows = [row for (row, _), size in zip(found, sizes, strict=True) if size <= most] or [
            row for row, _ in found[:1]
        ]
        self._sql.executemany(
            "UPDATE run SET owner = ?, since = CASE state WHEN 'open' THEN since ELSE ? END,"
            " state = 'open' WHERE id = ?",
            [(self._owner, time.time(), row) for row in rows],
        )
        read = f"SELECT {_COLUMNS} FROM run WHERE id ="
        return list(self._decoded(self._row(f"{read} {row}") for row in rows))

    def _decoded(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[StoredRun]:
        for row, trace_id, attempts, crashes, revision, reason, jobs, payload in rows:
            try:
                spans, links = decode(payload)
                status = load_status(
                    jobs, attempts=attempts, crashes=crashes, revision=revision, reason=reason
                )
            except Exception as error:  # nested too deep or of another shape: other rows stay readable
                self._sql.execute(
                    "UPDATE run SET state = 'dead_letter', owner = NULL, reason = ? WHERE id = ?",
                    (f"it cannot be read: {type(error).__name__}: {error}"[:500], row),
                )
                self.unreadable += 1
            else:
                yield StoredRun(
                    trace_id, spans, links, status, row=row, file=self.file, size=len(payload), kept=True
                )

    def _values(self, status: RunStatus) -> tuple[Any, ...]:
        return (
            status.state,
            time.time(),
            None if status.free or status.state != "open" else self._owner,
            status.due,
            status.attempts,
            status.crashes,
            status.revision,
            status.reason,
            status.dump(),
        )

    def _delete(self, where: str, values: tuple[Any, ...]) -> int:
        return self._sql.execute(f"DELETE FROM run WHERE {where}", values).rowcount

    def _one(self, sql: str) -> Any:
        return self._row(sql)[0]

    def _row(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._sql.execute(sql).fetchone()
        return row


def boot_id() -> str:
    """Return an id that changes with every boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
