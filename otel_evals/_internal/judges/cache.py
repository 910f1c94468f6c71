"""A cache of judges' answers; equal concurrent questions make one call."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.judge import Judge, JudgeReply, JudgeRequest
from otel_evals._internal.model import Usage
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.util.calls import in_thread, of_this_loop
from otel_evals._internal.util.plain import read_json
from otel_evals._internal.util.sqlite_file import MEMORY, SQLiteFile
from otel_evals.errors import ConfigError, StoreError

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS judge_cache (key TEXT PRIMARY KEY, model TEXT, value TEXT, used INTEGER);
CREATE INDEX IF NOT EXISTS judge_cache_used ON judge_cache (used);
"""
# A number and no time: it orders uses exactly, even if clocks jump or two uses share an instant.
_NEXT = "(SELECT COALESCE(MAX(used), 0) + 1 FROM judge_cache)"
_FORGET = "DELETE FROM judge_cache WHERE key IN (SELECT key FROM judge_cache ORDER BY used LIMIT ?)"


class CachedJudge:
    """A judge that remembers its answers. A remembered answer costs nothing and counts no attempt.

    Questions are equal if their system message, prompt (except the fences' random marks), form and vote
    are, and the judge's `identity`: for LiteLLM's model, server, temperature and the other options. If the
    cache cannot be used (locked, full, deleted, away), the judge is asked directly: the answer is paid for
    again, but not lost.

    Args:
        judge: answers new questions.
        store: path of a SQLite file to share answers across processes and restarts; in memory by default.
        max_entries: maximum number of answers; the least recently used go first.

    Raises:
        ConfigError: `max_entries` is not positive.
        StoreError: the file cannot be used, or is not private to this user.
    """

    def __init__(self, judge: Judge, *, store: str | Path | None = None, max_entries: int = 10_000) -> None:
        if max_entries < 1:
            raise ConfigError("cache.max_entries", f"must be at least 1, not {max_entries}")
        self.judge = judge
        """Answers new questions."""
        self.model = judge.model
        self.images = bool(getattr(judge, "images", False))
        """True if the judge is shown images."""
        self._max_entries = max_entries
        self._file = SQLiteFile(MEMORY if store is None else store, _SCHEMA, wait=1.0)
        self._warned = False
        self._asking: RunVar[dict[str, _Pending]] = RunVar("otel_evals.judge.asking")  # one per event loop
        self.redact = getattr(judge, "redact", redact)

    @property
    def identity(self) -> str:
        """Everything else that answers depend on: the judge's `identity`, or its type and model."""
        own = getattr(self.judge, "identity", None)
        return own if isinstance(own, str) else f"{type(self.judge).__qualname__} {self.judge.model}"

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Return a remembered answer, wait for an equal question, or ask; failures are not remembered.

        Raises:
            JudgeError: as the judge behind it does.
        """
        key = question_key(self.identity, request)
        asking = of_this_loop(self._asking, dict)
        # A loop: after a failure, the first of those that waited asks, and the rest wait again.
        while key in asking:
            pending = asking[key]
            await pending.done.wait()
            if pending.reply is not None:
                return replace(pending.reply, usage=Usage(), cost=0.0, attempts=0)
        asking[key] = pending = _Pending()
        try:
            pending.reply = await in_thread(self._remembered, key, request)
            if pending.reply is None:
                pending.reply = await self.judge.ask(request)
                await in_thread(self._remember, key, pending.reply)
            return pending.reply
        finally:
            del asking[key]
            pending.done.set()

    def _remembered(self, key: str, request: JudgeRequest) -> JudgeReply | None:
        try:
            with self._file.transaction() as db:
                row = db.execute("SELECT model, value FROM judge_cache WHERE key = ?", (key,)).fetchone()
                if row is None:
                    return None
                db.execute(f"UPDATE judge_cache SET used = {_NEXT} WHERE key = ?", (key,))
            model, text = row
            value = read_json(text) if request.schema is None else request.schema.model_validate_json(text)
        except (StoreError, ValueError, TypeError) as error:
            self._warn(error)
            return None
        return JudgeReply(value=value, model=model, cost=0.0, attempts=0)

    def _remember(self, key: str, reply: JudgeReply) -> None:
        try:
            value = json.dumps(reply.value) if isinstance(reply.value, str) else reply.value.model_dump_json()
            with self._file.transaction() as db:
                row = (key, reply.model, value)
                db.execute(f"INSERT OR REPLACE INTO judge_cache VALUES (?, ?, ?, {_NEXT})", row)
                (count,) = db.execute("SELECT COUNT(*) FROM judge_cache").fetchone()
                db.execute(_FORGET, (max(0, count - self._max_entries),))
        # Values of other types have no JSON form, and are not remembered.
        except (StoreError, ValueError, TypeError, AttributeError) as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        # Once: a cache that is away would otherwise be named with every question.
        if not self._warned:
            _log.warning("the judge's cache is not used: %s", error)
        self._warned = True


class _Pending:
    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: JudgeReply | None = None


def question_key(identity: str, request: JudgeRequest) -> str:
    """Return hex digits that are equal for equal questions."""
    schema = request.schema.model_json_schema() if request.schema else None
    # Images count by their digests, which the prompt lists.
    parts = [identity, request.instructions, request.prompt, schema, request.sample]
    text = json.dumps(parts, sort_keys=True)
    if request.mark:
        text = text.replace(request.mark, "")
    return hashlib.sha256(text.encode()).hexdigest()
