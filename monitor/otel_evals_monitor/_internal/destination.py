"""Destination that stores scored runs in a results store: a SQLite file or PostgreSQL."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_evals.destinations import Unaccepted, run_record
from otel_evals.errors import ConfigError, DestinationError, StoreError
from otel_evals.model import ScoredRun
from otel_evals.sdk.config import seconds
from otel_evals.sdk.util import extra, in_thread, redact

if TYPE_CHECKING:
    from otel_evals_monitor._internal.store.writer import ResultsStore

_log = logging.getLogger(__name__)
_MOST_WAITING = 1_000
_SELDOM = 60.0
_MOST_MEDIA_BYTES = 1_000_000
# The pattern of `is_url`, whose module imports SQLAlchemy.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.]+:/", re.IGNORECASE)
_SERVER = re.compile(r"postgres(ql)?(\+\w+)?://", re.IGNORECASE)


class ResultsDestination:
    """Writes scored runs into a results store, for `otel-evals report` and `otel-evals monitor`.

    The store contains each evaluation once, in its newest revision, also if a batch is sent again. Processes
    may share a store. Secrets are redacted before content is written.
    """

    name = "results"
    batch_size = 256
    """Scored runs per batch and transaction."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        content: bool = True,
        media_bytes: int = 0,
        max_age: float | str | None = None,
    ) -> None:
        """Configure the store, which opens with the first batch.

        Args:
            path: a SQLite file, created with its folder if missing.
            url: a PostgreSQL database instead of a file: `postgresql://user:password@host/name`.
            content: whether to keep messages, explanations and prompts.
            media_bytes: size up to which images are kept for the page, at most 1,000,000. References to
                images and sounds are always part of the content.
            max_age: seconds after a run's end, or a duration such as `30d`, after which it is deleted; its
                rollups stay. No limit by default.

        Raises:
            ConfigError: not exactly one of `path` and `url` is given, the file cannot be written, a limit is
                not positive, or SQLAlchemy is not installed.
        """
        if (path is None) == (url is None):
            raise ConfigError("path", "give either path, for a SQLite file, or url, for PostgreSQL")
        if url is not None and not _SERVER.match(url):
            raise ConfigError("url", "must begin with postgresql://; fix: give a file as path")
        with extra("cli", "results"):
            # Fails now instead of with the first batch. A child that is forked while another thread imports
            # would wait for the import for ever.
            from otel_evals_monitor._internal.store import labels, picks, retention  # noqa: F401
        self.place = _file(path) if path is not None else str(url)
        """The store: a path, or a URL."""
        if not 0 <= media_bytes <= _MOST_MEDIA_BYTES:
            raise ConfigError("media_bytes", f"must be from 0 to {_MOST_MEDIA_BYTES}, not {media_bytes}")
        self._content, self._media_bytes = content, media_bytes
        self._max_age = None if max_age is None else _age(max_age)
        self._trim_at = 0.0
        self._store: ResultsStore | None = None
        self._opening = threading.Lock()
        # One thread keeps the order, since later feedback replaces earlier. It starts with the first.
        self._late = ThreadPoolExecutor(1, "otel-evals-feedback")
        # Bounds the feedback in memory while the store is slow.
        self._waiting = threading.Semaphore(_MOST_WAITING)

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        """Write a batch; returns the evaluations of runs that cannot be stored.

        Raises:
            DestinationError: the store failed; retryable, since servers and disks recover.
        """
        try:
            return await in_thread(self._write, batch)
        except StoreError as error:
            self._reopen()
            raise DestinationError(str(error), retryable=True) from error

    def feedback(
        self, trace_id: str, value: float | bool, *, name: str, comment: str | None, source: str
    ) -> bool:
        """Store a user's feedback on a separate thread; return False if too much is waiting.

        Never blocks or raises; see `add_feedback` for the arguments.
        """
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            self._late.submit(self._keep, trace_id, value, name, comment, source)
        except RuntimeError:  # the interpreter is shutting down
            self._waiting.release()
            return False
        return True

    async def keep_picks(self, rows: Sequence[Any]) -> None:
        """Store the picks of rules, for the sampler check."""

        def write() -> None:
            from otel_evals_monitor._internal.store.picks import keep_picks

            keep_picks(self._opened().database, rows)

        await in_thread(write, abandon_on_cancel=True)

    async def shutdown(self) -> None:
        """Close the store."""
        # Waits for queued feedback, which needs the store.
        await in_thread(self._late.shutdown)
        if self._store is not None:
            await in_thread(self._store.close)

    def _keep(self, trace_id: str, value: float, name: str, comment: str | None, source: str) -> None:
        from otel_evals_monitor._internal.store.labels import add_feedback

        try:
            kept = redact(comment) if comment and self._content else None
            database = self._opened().database
            add_feedback(database, trace_id, value, name=name, comment=kept, source=source)
        except Exception as error:
            _log.warning("Feedback on trace %s was lost: %s", trace_id, error)
        finally:
            self._waiting.release()

    def _write(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        from otel_evals_monitor._internal.store.retention import keep_within

        records = [
            run_record(scored, content=self._content, media_bytes=self._media_bytes) for scored in batch
        ]
        store = self._opened()
        refused: list[Unaccepted] = []
        if store.write(records).unreadable:
            # Written again one by one, which changes nothing, to find the runs that were left out.
            for scored, record in zip(batch, records, strict=True):
                for problem in store.write([record]).unreadable:
                    error = DestinationError(f"cannot store: {problem}", retryable=False)
                    refused += [Unaccepted(each, error) for each in scored.evaluations]
        if self._max_age is not None and time.monotonic() >= self._trim_at:
            # Set first, so a deletion that fails is not tried again with every batch.
            self._trim_at = time.monotonic() + _SELDOM
            keep_within(store.database, self._max_age)
        return refused

    def _reopen(self) -> None:
        """Open the store again with the next batch: its file may have been deleted or replaced."""
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _opened(self) -> ResultsStore:
        from otel_evals_monitor._internal.store.writer import ResultsStore

        with self._opening:
            if self._store is None:
                self._store = ResultsStore(self.place, content=self._content)
            return self._store


def _file(path: str | os.PathLike[str]) -> Path:
    if _ADDRESS.match(str(path)):
        raise ConfigError("path", "is an address, not a file; fix: give it as url")
    place = Path(path).absolute()
    present = next(filter(os.path.exists, (place, *place.parents)), place)
    if os.path.isdir(present) == (present == place) or not os.access(present, os.W_OK):
        raise ConfigError("path", f"{str(place)!r} must be a file that this user may write; see {present}")
    return place


def _age(given: float | str) -> float:
    try:
        age = float(seconds(given))
    except ValueError as error:
        raise ConfigError("max_age", str(error)) from None
    if not age > 0:
        raise ConfigError("max_age", "must be greater than zero")
    return age
