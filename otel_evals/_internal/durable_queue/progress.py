"""Progress of a long `otel-evals score` in a file: started again, it continues where it stopped.

An evaluation is written before it is delivered, so a judge is not asked the same question twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.durable_queue.stored_evaluations import restored, stored
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.progress import Known, Progress
from otel_evals._internal.model import Dropped, Evaluation, Outcome, Run, ScoredRun, ScorerFailure
from otel_evals._internal.util.file_locks import HAS_FILE_LOCKS, try_lock
from otel_evals._internal.util.sqlite_file import SQLiteFile
from otel_evals.errors import ConfigError, StoreError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS evaluation (
    id TEXT, turns TEXT, revision INTEGER NOT NULL, final INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (id, turns)
);
CREATE TABLE IF NOT EXISTS delivery (
    id TEXT, revision INTEGER, destination TEXT, PRIMARY KEY (id, revision, destination)
);
"""
_BUDGET, _UNAVAILABLE = "BudgetExceededError", "JudgeUnavailableError"


class FileProgress(Progress):
    """Keeps evaluations and their deliveries in a private SQLite file; ConfigError if it is in use."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = SQLiteFile(path, _SCHEMA)
        except StoreError as error:
            raise ConfigError("--resume", str(error)) from None
        self._lock = _locked(path)
        self._last: dict[str, int] = {}
        """The last revision of each conversation's evaluations in this process, by evaluation id."""

    def known(self, job: Job) -> Evaluation | None:
        """Return an evaluation that is final, or that a later state of the conversation has overtaken.

        Readers keep the newest revision, so revisions ascend with the conversation, in whatever order its
        states are scored. An evaluation that an earlier state has overtaken becomes the next revision.
        """
        id = job.evaluation_id
        newest, last = self._newest(id), self._last.get(id, 0)
        job.revision = max(job.target.revision, newest + 1)
        found = self._standing(id, job.run, newest)
        if found is not None:
            self.known_before += 1
            if found.revision < last:
                found = replace(found, revision=job.revision)
                self.ended(found, job.run)
            job.revision = found.revision
        if job.run.turns:
            self._last[id] = job.revision
        return found

    def ended(self, evaluation: Evaluation, run: Run) -> None:
        final = not isinstance(evaluation.outcome, ScorerFailure | Dropped)
        content = json.dumps(stored(evaluation))
        row = (evaluation.evaluation_id, _turns(run), evaluation.revision, final, content)
        self._rows("INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?, ?, ?)", row)

    def leaves(self, outcome: Outcome) -> str | None:
        """Return the reason to try again later: an empty budget, an unavailable judge, an interruption."""
        reason = None
        if isinstance(outcome, Dropped):
            reason = outcome.reason
        elif isinstance(outcome, ScorerFailure) and outcome.error_type in (_BUDGET, _UNAVAILABLE):
            reason = outcome.error_type
            if reason == _BUDGET:
                self.stopped = self.stopped or f"a budget is used up: {outcome.message}"
        self.left += reason is not None
        return reason

    def lacking(self, scored: ScoredRun, names: Collection[str]) -> Iterable[tuple[ScoredRun, str | None]]:
        query = "SELECT destination FROM delivery WHERE id = ? AND revision = ?"
        there = {
            (e.evaluation_id, *row)
            for e in scored.evaluations
            for row in self._rows(query, (e.evaluation_id, e.revision))
        }
        for name in names:
            lacks = tuple(e for e in scored.evaluations if (e.evaluation_id, name) not in there)
            if lacks:
                yield replace(scored, evaluations=lacks), name

    def undelivered(self, name: str) -> Sequence[Known]:
        query = (
            "SELECT id, revision FROM evaluation AS made WHERE NOT EXISTS (SELECT 1 FROM delivery "
            "WHERE id = made.id AND revision = made.revision AND destination = ?)"
        )
        return self._rows(query, (name,))

    def delivered(self, name: str, known: Iterable[Known]) -> None:
        rows = [(id, revision, name) for id, revision in known]
        self._rows("INSERT OR IGNORE INTO delivery VALUES (?, ?, ?)", *rows)

    def close(self) -> None:
        self._file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _newest(self, id: str) -> int:
        """Return the highest revision of an evaluation, in the file or in progress."""
        rows = self._rows("SELECT max(revision) FROM evaluation WHERE id = ?", (id,))
        return max([self._last.get(id, 0), *(revision or 0 for (revision,) in rows)])

    def _standing(self, id: str, run: Run, newest: int) -> Evaluation | None:
        query = "SELECT revision, final, content FROM evaluation WHERE id = ? AND turns = ?"
        for revision, final, content in self._rows(query, (id, _turns(run))):
            if final or self._last.get(id, 0) <= revision < newest:
                with suppress(ValueError):  # written by another version: evaluate again
                    return restored(json.loads(content))
        return None

    def _rows(self, statement: str, *values: Sequence[Any]) -> list[Any]:
        """Execute a statement with each of the values; return the rows of all.

        If the file cannot be used, only the evaluations in progress are scored: anything else would be scored
        and paid for again.
        """
        try:
            with self._file.transaction() as db:
                return [row for each in values for row in db.execute(statement, each)]
        except StoreError as error:
            self.stopped = self.stopped or f"what is done cannot be kept: {error}"
            return []


def _turns(run: Run) -> str:
    """Return a key for the state of a conversation; empty for a single run."""
    turns = "\0".join(f"{turn.trace_id}:{turn.root_span_id}" for turn in run.turns)
    return sha256(turns.encode("utf-8", "surrogatepass")).hexdigest()[:32] if turns else ""


def _locked(path: Path) -> int | None:
    """Lock the file until this process ends, if the system has locks; ConfigError if it is locked."""
    if not HAS_FILE_LOCKS:
        return None
    file = os.open(path, os.O_RDONLY)
    if not try_lock(file):
        os.close(file)
        raise ConfigError("--resume", f"another process is scoring with {path}")
    return file
