"""Reads OTLP files: JSON, JSON lines (the Collector's file exporter) and protobuf, gzip or not.

Spans and logs may be in any order and in any file. Traces that do not fit into memory are spread over
temporary files by their id, and read back one file at a time.
"""

from __future__ import annotations

import gzip
import pickle
import re
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader, RawIOBase
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.otlp.messages import (
    DamagedFileError,
    Record,
    protobuf_requests,
    records_of,
)
from otel_evals._internal.util.plain import read_json, read_json_at
from otel_evals.errors import ConfigError

# All are open at once, and each must fit into memory when it is read back.
_BUCKETS = 256
_MEMORY = 256 * 1024 * 1024
_BLANKS = re.compile(r"\s*")
_DOCUMENT = re.compile(r"^[\[{]", re.MULTILINE)
"""A line that begins with a document rather than with a part of one."""
_FREE_BYTES = 64 * 1024 * 1024
_MOST_GROWTH = 200
"""Largest ratio of decompressed to compressed size beyond the first 64 MiB; traces have about 20."""

_OTLP = frozenset(("resourceSpans", "resourceLogs", "resourceMetrics"))
_NO_OTLP = (
    "contains no OTLP: expected JSON, JSON lines or protobuf, gzip or not; "
    "traces of a backend are read by `otel-evals score --from NAME=URL`"
)
_SCORES = (
    "has scores of the jsonl destination, not OTLP; "
    "fix: use `otel-evals runs`, `otel-evals report` or `otel-evals explain --scores`"
)


_Skipped = Callable[[str, int], None]


def read_traces(
    paths: Iterable[str], *, memory: int = _MEMORY, skipped: _Skipped = lambda _path, _number: None
) -> Iterator[list[SpanRecord]]:
    """Yield the traces in files (`-` is standard input) as spans with their logs.

    Args:
        paths: the files, in any supported format.
        memory: bytes of telemetry to keep in memory before temporary files are used.
        skipped: called with a file and a line number for each line that is not OTLP. In a file without
            lines the number is that of the request.

    Raises:
        ConfigError: a file is missing, or contains no OTLP at all or the scores of a jsonl destination.
    """
    with Spill(memory) as spill:
        for path in paths:
            for size, request in export_requests(path, skipped):
                records = list(records_of(request))
                for record in records:
                    trace_id = record.trace_id if isinstance(record, SpanRecord) else record[0]
                    spill.add(trace_id, record, size // len(records) + 200)
        yield from filter(None, map(_with_logs, spill.groups()))


def _with_logs(records: Sequence[Record]) -> list[SpanRecord]:
    logs: dict[str, list[SpanEvent]] = {}
    for record in records:
        if not isinstance(record, SpanRecord):
            logs.setdefault(record[1], []).append(record[2])
    spans = [record for record in records if isinstance(record, SpanRecord)]
    if not logs:
        return spans
    for held in logs.values():
        # A record promises the oldest first; files may have any order.
        held.sort(key=lambda log: log.time)
    return [replace(s, logs=tuple(logs[s.span_id])) if s.span_id in logs else s for s in spans]


def export_requests(path: str, skipped: _Skipped = lambda _path, _number: None) -> Iterator[tuple[int, Any]]:
    """Yield export requests with their sizes.

    Parts that are damaged or not OTLP are reported and left out, if the file has other requests.
    """
    found = 0
    foreign: list[int] = []
    with open_file(path) as stream:
        try:
            for size, request, number in _requests(stream, path, skipped):
                if isinstance(request, dict) and "evaluations" in request:
                    raise ConfigError(path, _SCORES)
                otlp = request if hasattr(request, "SerializeToString") else _otlp_in(request)
                if otlp is None:
                    foreign.append(number)
                else:
                    found += 1
                    yield size, otlp
        except DamagedFileError:
            if not found:
                raise
            skipped(path, found + 1)
    if not found:
        raise ConfigError(path, _NO_OTLP)
    # Reported last: a file without any OTLP is one error, not one per line.
    for number in foreign:
        skipped(path, number)


def _otlp_in(value: Any) -> Any:
    """Return the export request in a JSON value, or the list of them; None if there is none.

    Jaeger's API returns it as `result`, Tempo's as `trace` or `batches`.
    """
    if isinstance(value, list):
        return [otlp for otlp in map(_otlp_in, value) if otlp is not None] or None
    for each in (value, value.get("result"), value.get("trace")) if isinstance(value, dict) else ():
        if isinstance(each, dict) and not _OTLP.isdisjoint(each):
            return each
        if isinstance(each, dict) and isinstance(each.get("batches"), list):
            return {"resourceSpans": each["batches"]}
    return None


@contextmanager
def open_file(path: str) -> Iterator[BufferedReader]:
    """Open a file decompressed; `-` is standard input."""
    try:
        raw = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115 - closed below
    except IsADirectoryError as error:
        raise ConfigError(path, "is a folder: name the files in it") from error
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    reader = raw if isinstance(raw, BufferedReader) else BufferedReader(cast("Any", raw))
    try:
        # By gzip's magic number: standard input has no name with an ending.
        packed = reader.peek(2)[:2] == b"\x1f\x8b"
        yield BufferedReader(_Inflated(reader)) if packed else reader
    finally:
        if path != "-":
            reader.close()


class _Inflated(RawIOBase):
    """A decompressed file; fails if it grows like a decompression bomb."""

    def __init__(self, reader: BufferedReader) -> None:
        self._reader = reader
        self._packed = self._unpacked = 0
        self._file = gzip.GzipFile(fileobj=cast("Any", self), mode="rb")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Read compressed bytes for the decompressor, and count them."""
        data = self._reader.read(size)
        self._packed += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self._file.read1(len(buffer))  # what there is before an error
        self._unpacked += len(data)
        if self._unpacked > max(_FREE_BYTES, _MOST_GROWTH * self._packed):
            raise OSError(f"it grows to more than {_MOST_GROWTH} times its size")
        buffer[: len(data)] = data
        return len(data)


def _requests(stream: BufferedReader, path: str, skipped: _Skipped) -> Iterator[tuple[int, Any, int]]:
    try:
        head = stream.peek(64)
        if head.lstrip()[:1] in (b"{", b"[") or head[:1] >= b" ":  # protobuf begins with a small number
            yield from _json_requests(stream, path, skipped)
        elif head:
            yield from protobuf_requests(stream, path, skipped)
    # BadGzipFile is an OSError: a damaged end may be skipped, other errors may not.
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFileError(path, f"cannot be decompressed: {error}") from error
    except OSError as error:
        raise ConfigError(path, f"cannot be decompressed: {error}") from error


def _json_requests(stream: BufferedReader, path: str, skipped: _Skipped) -> Iterator[tuple[int, Any, int]]:
    """Read one request per line; a file whose first line is not JSON by itself is read as one text."""
    first = stream.readline()
    if _json(first) is None:
        yield from _json_text(first + stream.read(), path, skipped)
        return
    for number, line in enumerate(chain([first], stream), 1):
        request = _json(line)
        if request is not None:
            yield len(line), request, number
        elif line.strip():
            skipped(path, number)


def _json(line: bytes) -> Any:
    try:
        return read_json(line)
    except ValueError:
        return None


def _json_text(raw: bytes, path: str, skipped: _Skipped) -> Iterator[tuple[int, Any, int]]:
    """Read requests that span lines, one after the other; a broken one ends where a line begins the next."""
    # Some editors begin a file with a byte-order mark.
    text = raw.decode("utf-8-sig", "replace")
    found, at, line, counted = 0, _after_blanks(text, 0), 1, 0
    while at < len(text):
        try:
            request, end = read_json_at(text, at)
        except ValueError as error:
            following = _DOCUMENT.search(text, at + 1)
            if following is None and not found:
                raise ConfigError(path, f"is not valid JSON: {error}") from error
            # From one break to the next: each from the start would take quadratic time.
            line, counted = line + text.count("\n", counted, at), at
            skipped(path, line)
            end = len(text) if following is None else following.start()
        else:
            found += 1
            yield end - at, request, found
        at = _after_blanks(text, end)


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return start if blanks is None else blanks.end()


class Spill:
    """Groups records by key; a context manager that closes its temporary files.

    Args:
        memory: bytes of records to keep before all are written to temporary files by key.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._held: dict[str, list[Any]] = {}
        self._size = 0
        self._files: list[IO[bytes]] = []
        self._open = ExitStack()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, key: str, record: Any, size: int) -> None:
        self._held.setdefault(key, []).append(record)
        self._size += size
        if self._size > self._memory:
            self._write_out()

    def groups(self) -> Iterator[list[Any]]:
        """Yield the records of each key once, after all were added."""
        if not self._files:
            yield from self._held.values()
            return
        self._write_out()
        for file in self._files:
            file.seek(0)
            groups: dict[str, list[Any]] = {}
            with suppress(EOFError):
                while True:
                    key, records = pickle.load(file)
                    groups.setdefault(key, []).extend(records)
            yield from groups.values()

    def _write_out(self) -> None:
        if not self._files:
            self._files = [self._open.enter_context(tempfile.TemporaryFile()) for _ in range(_BUCKETS)]  # noqa: SIM115 - the stack closes them
        for key, records in self._held.items():
            # Within a process a string's hash is constant: each key is in one file.
            pickle.dump((key, records), self._files[hash(key) % _BUCKETS], pickle.HIGHEST_PROTOCOL)
        self._held, self._size = {}, 0
