"""The table of spooled runs: what is written, taken up, released and evicted. One connection, one thread."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from otel_evals.store.entry import Entry, Status, load_status
from otel_evals.store.payload import decode

__all__ = ["MAX_CRASHES", "Spool", "boot_id"]

_TOGETHER = (1_000_000, 16, 4, 1)
"""How many runs of each number of crashes are taken up at a time: the more suspect, the more alone."""

MAX_CRASHES = len(_TOGETHER)
"""A run that this many processes ended on is set aside."""

_COLUMNS = "id, trace_id, attempts, crashes, revision, reason, jobs, payload"
_STEP = 256


class Spool:
    """What one process does with the file; times are seconds since the Unix epoch.

    Args:
        connection: from `open_database`.
        owner: this process's unique id.
        lease: seconds without a sign of life after which a process counts as ended.
    """

    def __init__(self, connection: sqlite3.Connection, owner: str, lease: float) -> None:
        self._sql = connection
        self._owner = owner
        self._lease = lease
        self._boot = boot_id()
        self._page_size = int(self._one("PRAGMA page_size"))

    @property
    def size(self) -> int:
        """Bytes in use, in the file as it was last committed."""
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return int(pages) * self._page_size

    def limit(self, max_bytes: int) -> None:
        """Never let the file grow much beyond a size, whatever happens."""
        self._sql.execute(f"PRAGMA max_page_count = {max(64, max_bytes * 5 // 4 // self._page_size)}")

    def beat(self) -> None:
        """Give a sign of life."""
        self._sql.execute(
            "INSERT INTO owner (id, pid, boot, seen) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET seen = excluded.seen",
            (self._owner, os.getpid(), self._boot, time.monotonic()),
        )

    def insert(self, entry: Entry, status: Status, payload: bytes) -> int:
        """Write a run that is not in the file yet; returns its row."""
        cursor = self._sql.execute(
            "INSERT INTO run (state, since, owner, due, attempts, crashes, revision, reason, jobs, trace_id,"
            " payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*self._values(status), entry.trace_id, payload),
        )
        return int(cursor.lastrowid or 0)

    def update(self, row: int, status: Status, payload: bytes | None) -> bool:
        """Bring a run's row up to date; False when another process has taken it over meanwhile."""
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
        """Free what processes hold that have ended; returns the number of runs."""
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
            self._set_aside_poison()
        return freed

    def claim(self, limit: int, held: Mapping[int, int]) -> list[Entry]:
        """Take up free runs that are due.

        Args:
            limit: how many at most.
            held: how many of each number of crashes this process holds already.
        """
        taken: list[Entry] = []
        for crashes, together in enumerate(_TOGETHER):
            room = min(limit - len(taken), together - held.get(crashes, 0))
            if room > 0:
                taken += self._take(
                    "state = 'open' AND owner IS NULL AND (due <= ? OR due > ?) AND crashes = ?"
                    " ORDER BY due, id LIMIT ?",
                    (time.time(), time.time() + 86_400, crashes, room),
                )
        return taken

    def take_done(self, trace_id: str) -> list[Entry]:
        """Take up the runs of a trace that were scored and are still kept."""
        return self._take("trace_id = ? AND state = 'done'", (trace_id,))

    def release(self) -> int:
        """Free everything this process holds, and forget the process; returns the number of runs."""
        freed = self._sql.execute(
            "UPDATE run SET owner = NULL, due = 0, reason = 'its process left' WHERE owner = ?",
            (self._owner,),
        ).rowcount
        self._sql.execute("DELETE FROM owner WHERE id = ?", (self._owner,))
        return freed

    def evict(self, *, max_bytes: int, max_age: float, keep: float) -> Counter[str]:
        """Delete what is too old, then what does not fit: kept runs first, then those aside, then free ones.

        Returns:
            How many runs were lost with it, by reason; kept ones that were scored are no loss.
        """
        lost: Counter[str] = Counter()
        now = time.time()
        self._delete("state = 'done' AND owner IS NULL AND since < ?", (now - keep,))
        for state in ("aside", "open"):
            lost["age"] += self._delete(
                f"state = '{state}' AND owner IS NULL AND since < ?", (now - max_age,)
            )
        for state in ("done", "aside", "open"):
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

    def close(self) -> None:
        """Close the connection."""
        self._sql.close()

    def _take(self, where: str, values: tuple[Any, ...]) -> list[Entry]:
        rows = self._sql.execute(f"SELECT {_COLUMNS} FROM run WHERE {where}", values).fetchall()
        if rows:
            self._sql.executemany(
                "UPDATE run SET owner = ?, since = CASE state WHEN 'open' THEN since ELSE ? END,"
                " state = 'open' WHERE id = ?",
                [(self._owner, time.time(), row[0]) for row in rows],
            )
        return list(self._entries(rows))

    def _entries(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Entry]:
        for row, trace_id, attempts, crashes, revision, reason, jobs, payload in rows:
            try:
                spans, links = decode(payload)
                status = load_status(
                    jobs, attempts=attempts, crashes=crashes, revision=revision, reason=reason
                )
            except ValueError as error:
                self._sql.execute(
                    "UPDATE run SET state = 'aside', owner = NULL, reason = ? WHERE id = ?", (str(error), row)
                )
            else:
                yield Entry(trace_id, spans, links, status, row=row, kept=True)

    def _set_aside_poison(self) -> None:
        self._sql.execute(
            "UPDATE run SET state = 'aside', since = ?, reason = crashes || ' processes ended while they"
            " scored it' WHERE state = 'open' AND owner IS NULL AND crashes >= ?",
            (time.time(), MAX_CRASHES),
        )

    def _values(self, status: Status) -> tuple[Any, ...]:
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
        return self._sql.execute(sql).fetchone()[0]


def boot_id() -> str:
    """Tells one start of the machine from the next, where the system says so; else empty."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
