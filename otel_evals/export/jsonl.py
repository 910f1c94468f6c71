"""A destination that writes one line of JSON per scored run, and the way to read them back."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import anyio.to_thread

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.export.record import run_record
from otel_evals.model import ScoredRun

__all__ = ["JsonlDestination", "read_jsonl"]

_log = logging.getLogger(__name__)


class JsonlDestination:
    """Appends scored runs to a file, one JSON object per line; several processes may share the file.

    Each batch is written to the operating system before it counts as exported. After a failed write the
    whole batch is written again: readers tell repeats by `evaluation_id`.
    """

    name = "jsonl"

    def __init__(self, path: str | os.PathLike[str], *, content: bool = True) -> None:
        """Name the file; it is opened with the first batch.

        Args:
            path: the file; its folder must exist.
            content: whether to write what was said: inputs, outputs, explanations, prompts, contexts.

        Raises:
            ConfigError: the folder does not exist, or the path is a folder.
        """
        self._path = Path(path)
        self._content = content
        self._file: BinaryIO | None = None
        self._torn = False
        self._known: dict[str, int] = {}
        self._known_to = 0
        if self._path.is_dir():
            raise ConfigError("path", f"{self._path} is a folder; name a file in it")
        if not self._path.parent.is_dir():
            raise ConfigError("path", f"the folder {self._path.parent} does not exist; create it first")

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Append a batch.

        Raises:
            DestinationError: the file could not be written; another try may find room.
        """
        try:
            await anyio.to_thread.run_sync(partial(self._write, batch), abandon_on_cancel=True)
        except OSError as error:
            raise DestinationError(f"cannot write {self._path}: {error}", retryable=True) from error

    async def holds(self, evaluation_ids: Collection[str], revision: int) -> bool:
        """Whether the file has all of these evaluations, of this revision or a later one."""
        return await anyio.to_thread.run_sync(self._holds, frozenset(evaluation_ids), revision)

    async def shutdown(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, batch: Sequence[ScoredRun]) -> None:
        file = self._file = self._file or self._open()
        lines = b"".join(_line(scored, content=self._content) for scored in batch)
        view = memoryview(b"\n" + lines if self._torn else lines)
        # One write for the whole batch keeps the lines of several processes apart.
        self._torn = True
        while view:
            view = view[file.write(view) :]
        self._torn = False

    def _holds(self, evaluation_ids: frozenset[str], revision: int) -> bool:
        """Read what is new since the last look and remember it by id; several threads may do so at once."""
        if self._path.exists():
            with open(self._path, "rb") as file:
                read_to = file.seek(self._known_to)
                for line in file:
                    if line.endswith(b"\n"):
                        read_to += len(line)
                        self._known.update(_revisions(line))
            self._known_to = read_to
        return all(self._known.get(each, 0) >= revision for each in evaluation_ids)

    def _open(self) -> BinaryIO:
        """Open for appending; a last line cut off by a crash is left alone on its line."""
        file = open(self._path, "ab+", buffering=0)  # noqa: SIM115 (kept open until shutdown)
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            self._torn = file.read(1) != b"\n"
        return file


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Scored runs from a file that a JsonlDestination wrote, as plain dicts, oldest first.

    A line that was cut off by a crash is skipped and logged.
    """
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError:
                _log.warning("%s: line %d is not complete; skipped", path, number)


def _revisions(line: bytes) -> dict[str, int]:
    """The evaluations of a line, with their revisions; none of a line cut off."""
    try:
        return {e["evaluation_id"]: e["revision"] for e in json.loads(line)["evaluations"]}
    except (ValueError, KeyError, TypeError):
        return {}


def _line(scored: ScoredRun, *, content: bool) -> bytes:
    text = json.dumps(run_record(scored, content=content), ensure_ascii=False, allow_nan=False)
    # A lone surrogate, as broken input brings, has no UTF-8 form.
    return text.encode("utf-8", "replace") + b"\n"
