"""Opens the source of a report: a results store, or files of the jsonl destination.

Files are loaded into a temporary store, which is then read like any other.
"""

from __future__ import annotations

import glob
import gzip
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from otel_evals.errors import ConfigError
from otel_evals.sdk.util import read_json
from otel_evals_monitor._internal.store.database import Database, is_url
from otel_evals_monitor._internal.store.writer import ResultsStore, Written

_SQLITE = b"SQLite format 3\x00"


@dataclass
class Loaded:
    database: Database
    sources: str
    written: Written = field(default_factory=Written)
    """Counts of records from files; empty for a store."""
    broken: Counter[str] = field(default_factory=Counter)
    """Lines that are not JSON, by file."""

    @property
    def lost(self) -> int:
        return self.broken.total() + self.written.unreadable.total()


@contextmanager
def opened(places: Sequence[str]) -> Iterator[Loaded]:
    """Open one results store, or load files and patterns such as `scores-*.jsonl.gz` into a temporary one."""
    if len(places) == 1 and (is_url(places[0]) or _is_sqlite(places[0])):
        with closing(Database(places[0], create=False)) as database:
            yield Loaded(database, database.name)
        return
    files = list(files_of(places))
    with (
        tempfile.TemporaryDirectory(prefix="otel-evals-") as folder,
        closing(ResultsStore(Path(folder, "report.db"))) as store,
    ):
        loaded = Loaded(store.database, ", ".join(places))
        load_files(store, files, loaded)
        yield loaded


def load_files(store: ResultsStore, files: Iterable[str], loaded: Loaded) -> None:
    """Write the records of files into a store, and count unreadable lines in `loaded`."""
    loaded.written = store.write(record for file in files for record in _records(file, loaded.broken))


def _records(file: str, broken: Counter[str]) -> Iterator[Any]:
    try:
        for line in _lines(file):
            if not line.strip():
                continue
            try:
                yield read_json(line)
            except ValueError:
                broken[file] += 1
    except (OSError, EOFError) as error:
        # Keep the lines before the truncated end of a gzip file.
        if not isinstance(error, gzip.BadGzipFile | EOFError):
            raise ConfigError(file, f"cannot be read: {error}") from error
        broken[file] += 1


def _lines(file: str) -> Iterator[bytes]:
    with open(file, "rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        plain.seek(0)
        yield from gzip.GzipFile(fileobj=plain) if packed else plain


def files_of(places: Sequence[str]) -> Iterator[str]:
    for place in places:
        if is_url(place) or _is_sqlite(place):
            raise ConfigError(place, "is a results store; give it alone, without other files")
        if os.path.isdir(place):
            raise ConfigError(place, "is a folder; name files in it, such as 'folder/*.jsonl'")
        found = [place] if os.path.exists(place) else sorted(glob.glob(place))
        if not found:
            raise ConfigError(place, "there is no such file")
        yield from found


def _is_sqlite(place: str) -> bool:
    try:
        with open(place, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False
