"""A destination that writes one line of JSON per scored run, and a reader of such files."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.json import Encoder

from otel_evals._internal.deliver.record import run_record
from otel_evals._internal.model import ScoredRun
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.plain import read_json, write_json
from otel_evals.errors import ConfigError, DestinationError

_log = logging.getLogger(__name__)
_encode = Encoder().encode


class JsonlDestination:
    """Appends scored runs to a file, one JSON object per line; several processes may share the file.

    Each batch is written to the operating system before it counts as exported. After a failed write the
    whole batch is written again: readers recognise duplicates by `evaluation_id`.
    """

    name = "jsonl"
    batch_size = 512
    """Scored runs in a batch, which is one write."""

    def __init__(self, path: str | os.PathLike[str], *, content: bool = True) -> None:
        """Set the file, which is opened with the first batch.

        Args:
            path: the file; its folder must exist.
            content: whether to write inputs, outputs, explanations, prompts and contexts.

        Raises:
            ConfigError: the folder does not exist or may not be written to, or the path is a folder.
        """
        self.path = self._path = Path(path).absolute()  # also after a later chdir
        """The file."""
        self._content = content
        self._file: BinaryIO | None = None
        self._torn = False
        if self._path.is_dir():
            raise ConfigError("path", f"{str(self._path)!r} is a folder; name a file in it")
        if not self._path.parent.is_dir():
            raise ConfigError(
                "path", f"the folder {str(self._path.parent)!r} does not exist; create it first"
            )
        place = self._path if self._path.exists() else self._path.parent
        if not os.access(place, os.W_OK):
            raise ConfigError(
                "path", f"{str(place)!r} cannot be written by this user; change its permissions"
            )

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        """Append a batch.

        Raises:
            DestinationError: the file could not be written; retryable, since disk space may be freed.
        """
        try:
            await in_thread(self._write, batch)
        except OSError as error:
            raise DestinationError(f"cannot write {self._path}: {error}", retryable=True) from error

    async def shutdown(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _write(self, batch: Sequence[ScoredRun]) -> None:
        file = self._file = self._file or self._open()
        lines = b"".join(_line(scored, content=self._content) for scored in batch)
        view = memoryview(b"\n" + lines if self._torn else lines)
        # One write per batch: lines of several processes do not interleave.
        self._torn = True
        # A write of raw files may be short.
        while view:
            view = view[file.write(view) :]
        self._torn = False

    def _open(self) -> BinaryIO:
        """Open for appending; after a last line that a crash cut off, writing starts on a new line."""
        file = open(self._path, "ab+", buffering=0)  # noqa: SIM115 (kept open until shutdown)
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            self._torn = file.read(1) != b"\n"
        return file


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Read scored runs from a file of a JsonlDestination, as plain dicts, oldest first.

    The file may be compressed by gzip. A line that was cut off by a crash is skipped and logged, as is a
    damaged end.
    """
    # Imported late: an application that only writes does not need it.
    from otel_evals._internal.otlp.files import open_file

    with open_file(str(path)) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    yield read_json(line)
                except ValueError:
                    _log.warning("%s: line %d is not complete; skipped", path, number)
        except (EOFError, OSError, zlib.error) as error:
            _log.warning("%s: the rest is skipped: %s", path, error)


def _line(scored: ScoredRun, *, content: bool) -> bytes:
    record = run_record(scored, content=content)
    try:
        return _encode(record) + b"\n"
    except (UnicodeEncodeError, TypeError):  # a lone surrogate of broken input; a subclass of str
        return write_json(record).encode("utf-8", "replace") + b"\n"
