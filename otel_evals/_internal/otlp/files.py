"""Reads OTLP files: JSON, JSON lines (the Collector's file exporter) and protobuf, gzip or not.

Spans and logs may be in any order and in any file. Traces that do not fit into memory are spread over
temporary files by their id, and read back one file at a time.
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.otlp.messages import DamagedFileError, Record, records_of
from otel_evals._internal.otlp.origins import origin_of, otlp_in
from otel_evals._internal.otlp.spill import Spill
from otel_evals._internal.util.plain import read_json, read_json_at
from otel_evals.errors import ConfigError

_MEMORY = 256 * 1024 * 1024
_BLANKS = re.compile(r"\s*")
_DOCUMENT = re.compile(r"^[\[{]", re.MULTILINE)
"""A line that begins with a document rather than with a part of one."""
_FREE_BYTES = 64 * 1024 * 1024
_MOST_GROWTH = 200
"""Largest ratio of decompressed to compressed size beyond the first 64 MiB; traces have about 20."""

_UNREPORTED = 1_000
"""Foreign parts of a file that are reported only if OTLP follows: without any, one error says it all."""
_NO_OTLP = "contains no OTLP: expected JSON, JSON lines or protobuf, gzip or not"
_SCORES = (
    "has scores of the jsonl destination, not OTLP; "
    "fix: use `otel-evals runs`, `otel-evals report` or `otel-evals explain --scores`"
)


def read_traces(
    paths: Iterable[str],
    *,
    progress: Callable[[int], None] | None = None,
    memory: int = _MEMORY,
    skipped: Callable[[str, int], None] | None = None,
) -> Iterator[list[SpanRecord]]:
    """Yield the traces in files (`-` is standard input) as spans with their logs.

    Args:
        paths: the files, in any supported format.
        progress: called with the number of bytes of the files read so far.
        memory: bytes of telemetry to keep in memory before temporary files are used.
        skipped: called with a file and a line number for each line that is not OTLP. In a file without
            lines the number is that of the request.

    Raises:
        ConfigError: a file is missing, or contains no OTLP at all or the scores of a jsonl destination.
    """
    with Spill(memory) as spill:
        for path in paths:
            for size, request, position in _sized_requests(path, skipped):
                records = list(_records(request))
                for record in records:
                    trace_id = record.trace_id if isinstance(record, SpanRecord) else record[0]
                    spill.add(trace_id, record, size // len(records) + 200)
                if progress is not None:
                    progress(position())
        yield from filter(None, map(_with_logs, spill.groups()))


def read_requests(path: str, skipped: Callable[[str, int], None] | None = None) -> Iterator[Any]:
    """Yield the export requests in a file: parsed JSON, or protobuf messages.

    Args:
        path: the file; `-` is standard input.
        skipped: called with the file and a line number for each line that is not JSON.

    Raises:
        ConfigError: the file is missing or contains no OTLP at all.
    """
    return (request for _, request, _ in _sized_requests(path, skipped))


def _with_logs(records: Sequence[Record]) -> list[SpanRecord]:
    logs: dict[str, list[SpanEvent]] = {}
    for record in records:
        if not isinstance(record, SpanRecord):
            logs.setdefault(record[1], []).append(record[2])
    spans = [record for record in records if isinstance(record, SpanRecord)]
    if not logs:
        return spans
    for held in logs.values():
        held.sort(key=lambda log: log.time)
    return [replace(s, logs=tuple(logs[s.span_id])) if s.span_id in logs else s for s in spans]


def _records(request: Any) -> Iterator[Record]:
    if not hasattr(request, "SerializeToString"):
        return records_of(request)
    from otel_evals._internal.otlp.messages import protobuf_records

    return protobuf_records(request)


def _sized_requests(
    path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Any, Callable[[], int]]]:
    """Yield export requests, each with its size and a function that returns the position in the file.

    A damaged part of a file with other requests is reported and left out.
    """
    found, origin = 0, None
    unreported: list[int] = []

    def report(most: int = 0) -> None:
        if len(unreported) > most:
            for number in unreported:
                if skipped is not None:
                    skipped(path, number)
            unreported.clear()

    with _open(path) as (stream, position):
        try:
            for size, request, number in _requests(stream, path, skipped):
                if isinstance(request, dict) and "evaluations" in request:
                    raise ConfigError(path, _SCORES)
                otlp = request if hasattr(request, "SerializeToString") else otlp_in(request)
                if otlp is None:
                    origin = origin or origin_of(request)
                    unreported.append(number)
                    report(0 if found else _UNREPORTED)
                    continue
                report()
                found += 1
                yield size, otlp, position
        except DamagedFileError:
            if not found or skipped is None:
                raise
            skipped(path, found + 1)
    if not found:
        raise ConfigError(path, origin or _NO_OTLP)


@contextmanager
def _open(path: str) -> Iterator[tuple[BufferedReader, Callable[[], int]]]:
    """Open a file decompressed; also returns a function that returns the position in the file itself."""
    try:
        raw = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    reader = raw if isinstance(raw, BufferedReader) else BufferedReader(cast("Any", raw))
    try:
        packed = reader.peek(2)[:2] == b"\x1f\x8b"
        stream = BufferedReader(_Inflated(reader)) if packed else reader
        yield stream, (lambda: 0) if path == "-" else reader.tell
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


def _requests(
    stream: BufferedReader, path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Any, int]]:
    try:
        head = stream.peek(64)
        if head.lstrip()[:1] in (b"{", b"[") or head[:1] >= b" ":  # protobuf begins with a small number
            yield from _json_requests(stream, path, skipped)
        elif head:
            from otel_evals._internal.otlp.messages import protobuf_requests

            yield from protobuf_requests(stream, path, skipped)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedFileError(path, f"cannot be decompressed: {error}") from error
    except OSError as error:
        raise ConfigError(path, f"cannot be decompressed: {error}") from error


def _json_requests(
    stream: BufferedReader, path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Any, int]]:
    """Read one request per line; a file whose first line is not JSON by itself is read as one text."""
    first = stream.readline()
    if (request := _json(first)) is None:
        yield from _json_text(first + stream.read(), path, skipped)
        return
    yield len(first), request, 1
    for number, line in enumerate(stream, 2):
        if (request := _json(line)) is not None:
            yield len(line), request, number
        elif line.strip() and skipped is not None:
            skipped(path, number)


def _json(line: bytes) -> Any:
    try:
        return read_json(line)
    except ValueError:
        return None


def _json_text(
    raw: bytes, path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Any, int]]:
    """Read requests that span lines, one after the other; a broken one ends where a line begins the next."""
    text = raw.decode("utf-8-sig", "replace")
    end = found = 0
    broken: list[int] = []
    while (blank := _BLANKS.match(text, end)) and (at := blank.end()) < len(text):
        try:
            request, end = read_json_at(text, at)
        except ValueError as error:
            following = _DOCUMENT.search(text, at + 1)
            if skipped is None or (following is None and not found):
                raise ConfigError(path, f"is not valid JSON: {error}") from error
            broken.append(at)
            end = len(text) if following is None else following.start()
            continue
        found += 1
        yield end - at, request, found
    line, counted = 1, 0
    for at in broken:
        line, counted = line + text.count("\n", counted, at), at
        if skipped is not None:
            skipped(path, line)
