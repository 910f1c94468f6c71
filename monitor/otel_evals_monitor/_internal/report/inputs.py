"""What options of commands name: a source, a time window, the slices of a report, and links to traces."""

from __future__ import annotations

import glob
import gzip
import os
import string
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from sqlalchemy import func, select

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import moment_of, seconds_of
from otel_evals.sdk.util import read_json
from otel_evals_monitor._internal.store.database import Database, is_url
from otel_evals_monitor._internal.store.filters import EVERY, RunFilter, Window
from otel_evals_monitor._internal.store.queries import time_range
from otel_evals_monitor._internal.store.schema import HOUR, NANO, runs
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
        with open(file, "rb") as plain:
            # A gzip file is recognised by its first bytes, whatever its name is.
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            lines = gzip.GzipFile(fileobj=plain) if packed else plain
            for line in filter(bytes.strip, lines):
                try:
                    yield read_json(line)
                except ValueError:
                    broken[file] += 1
    except (gzip.BadGzipFile, EOFError, zlib.error):
        broken[file] += 1  # the lines before the truncated end are kept
    except OSError as error:
        raise ConfigError(file, f"cannot be read: {error}") from error


def files_of(places: Sequence[str]) -> Iterator[str]:
    for place in places:
        if is_url(place) or _is_sqlite(place):
            raise ConfigError(place, "is a results store; give it alone, without other files")
        if os.path.isdir(place):
            raise ConfigError(place, "is a folder; name files in it, such as 'folder/*.jsonl'")
        # An existing file may have a name that looks like a pattern.
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


def window_of(database: Database, since: str | None, until: str | None, window: str | None) -> Window:
    """Return a window from options.

    By default a window ends with the newest record of a clock that is not ahead. A window of an
    hour or more starts on the hour, since clusters are stored by the hour.
    """
    if window is None:
        found = Window(_moment(since, "--since"), _moment(until, "--until"))
        if found.since is not None and found.until is not None and found.since >= found.until:
            raise ConfigError("--until", "must be later than --since")
        return found
    if since is not None:
        raise ConfigError("--window", "replaces --since; give one of them")
    length, end = seconds_of(window, "--window"), _moment(until, "--until")
    if end is None:
        with database.reading() as connection:
            recorded = time_range(connection)
            newest = connection.execute(select(func.max(runs.c.time))).scalar() or 0
        last = recorded[1] if recorded else int(time.time())
        start, over = last - length, -(-last // HOUR) * HOUR
        end = over if newest >= over * NANO else None
        return Window(start // HOUR * HOUR if length >= HOUR else start, end)
    return Window(end - length, end)


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else moment_of(text, field)


GROUPS: Mapping[str, str] = {
    "agent": "agent_name",
    "version": "agent_version",
    "prompt": "prompt_version",
    "model": "model",
    "tenant": "tenant",
    "rule": "rule",
    "service": "service",
    "judge": "judge_model",
}
"""Names to split estimates by, with their columns."""
ATTRIBUTE = "attribute:"
"""Begin of the name of an attribute to split by."""


def names_in(by: str) -> list[str]:
    """Return the names to split by, of a text with commas."""
    return [name.strip() for name in by.split(",") if name.strip()]


def only_of(scorer: str | None, agent: str | None) -> dict[str, str]:
    """Return the columns of slices that are required; None allows any value."""
    given = {"scorer_id": scorer, "agent_name": agent}
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    window: Window = field(default_factory=Window)
    by: Sequence[str] = ()
    """Names of `GROUPS`, and one `attribute:NAME`, in addition to scorer, scorer version and agent."""
    against: str | None = None
    """`previous` compares with the window before, of equal length; other texts are a version of the agent,
    its prompt or its model."""
    only: Mapping[str, str] = field(default_factory=dict)
    """Required values of slice columns."""
    worst: int = 3
    """Number of worst runs to list per slice."""
    runs: RunFilter = EVERY
    """Only runs with this label or text."""
    patterns: int = 10
    """Number of failure patterns to find per slice; reading failing runs takes the longest."""


BACKENDS = {
    "phoenix": "/redirects/traces/{trace_id}",
    "jaeger": "/trace/{trace_id}",
    "zipkin": "/zipkin/traces/{trace_id}",
    "mlflow": "/#/traces/tr-{trace_id}",
    "langfuse": "/trace/{trace_id}",
}
"""Path of a trace's page, by backend."""
_IDS = {"trace_id", "span_id"}
_FIELDS = {*_IDS, "time"}


@dataclass(frozen=True, slots=True)
class TraceLink:
    """Builds the addresses of traces from a template; without one, there are no links."""

    template: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> TraceLink:
        """Parse an option: `jaeger=http://localhost:16686`, or an address with `{trace_id}` or `{span_id}`.

        An address may also contain `{time}` (milliseconds since the Unix epoch).
        """
        if not text:
            return cls()
        name, _, base = text.partition("=")
        if name in BACKENDS:
            text = base.rstrip("/") + BACKENDS[name]
        if urlsplit(text).scheme not in ("http", "https"):
            known = f"{', '.join(BACKENDS)}=http://..."
            raise ConfigError("--link", f"{text!r} is neither an http address nor one of {known}")
        try:
            fields = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
        except ValueError as error:
            raise ConfigError("--link", f"{text!r}: {error}") from None
        if not fields & _IDS or fields - _FIELDS:
            problem = "must contain {trace_id} or {span_id}, and may contain {time}"
            raise ConfigError("--link", f"{text!r} {problem}")
        return cls(text)

    def to(self, run: Any) -> str | None:
        """Return the address of a run's trace; `run` has `trace_id`, `span_id` and `time` in seconds."""
        if self.template is None:
            return None
        ids = {name: quote(str(getattr(run, name)), safe="") for name in ("trace_id", "span_id")}
        return self.template.format(**ids, time=int(run.time) * 1000)
