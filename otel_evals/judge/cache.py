"""Asking the same thing once: one call for questions asked at the same time, and a memory of answers."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from otel_evals.errors import ConfigError
from otel_evals.judge.socket import Judge, JudgeReply, JudgeRequest
from otel_evals.model import Usage

__all__ = ["CachedJudge"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS judge_cache (key TEXT PRIMARY KEY, model TEXT, value TEXT, used INTEGER);
CREATE INDEX IF NOT EXISTS judge_cache_used ON judge_cache (used);
"""


class CachedJudge:
    """A judge that remembers its answers. A remembered answer costs nothing and counts no attempt.

    Questions are the same when model, system message, prompt (but for the fences' random marks), form and
    vote are.

    Args:
        judge: who is asked what is not remembered.
        store: path of a SQLite file to remember in across processes and restarts; in memory when None.
        max_entries: how many answers are kept; the longest unused go first.

    Raises:
        ConfigError: `max_entries` is not positive.
    """

    def __init__(self, judge: Judge, *, store: str | Path | None = None, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise ConfigError("cache.max_entries", f"must be at least 1, not {max_entries}")
        self._judge = judge
        self._memory = _Memory(str(store) if store is not None else ":memory:", max_entries)
        self._asking: RunVar[dict[str, _Pending]] = RunVar("otel_evals.judge.asking")  # one per event loop
        self.redact = getattr(judge, "redact", None)
        if self.redact is None:
            del self.redact

    @property
    def model(self) -> str:
        """The model asked."""
        return self._judge.model

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from memory, from a question under way, or by asking.

        Raises:
            JudgeError: as the judge behind it does; failures are not remembered.
        """
        key = question_key(self.model, request)
        asking = self._asking.get(None)
        if asking is None:
            asking = {}
            self._asking.set(asking)
        while (pending := asking.get(key)) is not None:
            await pending.done.wait()
            if pending.reply is not None:
                return _free(pending.reply)
        asking[key] = pending = _Pending()
        try:
            found = await to_thread.run_sync(self._memory.get, key)
            if found is not None:
                pending.reply = _free(_reply(found, request))
            else:
                pending.reply = await self._judge.ask(request)
                await to_thread.run_sync(self._memory.put, key, pending.reply)
            return pending.reply
        finally:
            del asking[key]
            pending.done.set()


class _Pending:
    """A question under way."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: JudgeReply | None = None


def question_key(model: str, request: JudgeRequest) -> str:
    """What makes two questions the same, as hex digits."""
    schema = request.schema.model_json_schema() if request.schema else None
    parts = [model, request.instructions, request.prompt, schema, request.sample]
    text = json.dumps(parts, sort_keys=True)
    if request.mark:
        text = text.replace(request.mark, "")
    return hashlib.sha256(text.encode()).hexdigest()


def _free(reply: JudgeReply) -> JudgeReply:
    return JudgeReply(value=reply.value, model=reply.model, usage=Usage(), cost=0.0, attempts=0)


def _reply(found: tuple[str, str], request: JudgeRequest) -> JudgeReply:
    model, text = found
    value = json.loads(text) if request.schema is None else request.schema.model_validate_json(text)
    return JudgeReply(value=value, model=model)


class _Memory:
    """Answers by key, in SQLite."""

    def __init__(self, path: str, max_entries: int) -> None:
        self._lock = threading.Lock()
        self._max_entries = max_entries
        self._db = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)
        self._path = path

    def __reduce__(self) -> Any:
        """In another process: the same file, or an empty memory."""
        return type(self), (self._path, self._max_entries)

    def get(self, key: str) -> tuple[str, str] | None:
        with self._lock:
            row: Any = self._db.execute(
                "SELECT model, value FROM judge_cache WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                self._db.execute(f"UPDATE judge_cache SET used = {_NEXT} WHERE key = ?", (key,))
        return None if row is None else (row[0], row[1])

    def put(self, key: str, reply: JudgeReply) -> None:
        value = json.dumps(reply.value) if isinstance(reply.value, str) else reply.value.model_dump_json()
        with self._lock:
            self._db.execute(
                f"INSERT OR REPLACE INTO judge_cache VALUES (?, ?, ?, {_NEXT})", (key, reply.model, value)
            )
            count = self._db.execute("SELECT COUNT(*) FROM judge_cache").fetchone()[0]
            self._db.execute(
                "DELETE FROM judge_cache WHERE key IN (SELECT key FROM judge_cache ORDER BY used LIMIT ?)",
                (max(0, count - self._max_entries),),
            )


_NEXT = "(SELECT COALESCE(MAX(used), 0) + 1 FROM judge_cache)"
