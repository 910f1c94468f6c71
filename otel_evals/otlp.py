"""OTLP as files: JSON, JSON lines (the Collector's file exporter) and protobuf, gzip or not, spans and logs.

Spans and logs may come in any order and in any file. What fits into memory is kept there; beyond that, traces
are spread over temporary files by their id, and those are read back one at a time.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, cast

from otel_evals.errors import ConfigError
from otel_evals.model import SpanEvent, SpanRecord
from otel_evals.spill import Spill

__all__ = ["LogRecord", "Record", "read_records", "read_traces", "records_of"]

LogRecord = tuple[str, str, SpanEvent]
"""A log record with the trace id and the span id it belongs to."""

Record = SpanRecord | LogRecord

_KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS = ("UNSET", "OK", "ERROR")
_MEMORY = 256 * 1024 * 1024


def read_traces(
    paths: Iterable[str],
    *,
    progress: Callable[[int], None] | None = None,
    memory: int = _MEMORY,
    skipped: Callable[[str, int], None] | None = None,
) -> Iterator[list[SpanRecord]]:
    """The traces in these files (`-` is standard input), each as its spans with their logs.

    Args:
        paths: the files, in any of the forms above.
        progress: called with the number of bytes of the files read so far.
        memory: bytes of telemetry to hold in memory before temporary files are used.
        skipped: called with a file and a line's number for each line that is no OTLP.

    Raises:
        ConfigError: a file is missing or holds no OTLP at all.
    """
    with Spill(memory) as spill:
        for path in paths:
            for record, size in _sized_records(path, progress, skipped):
                spill.add(record.trace_id if isinstance(record, SpanRecord) else record[0], record, size)
        for records in spill.groups():
            trace = _with_logs(cast("list[Record]", records))
            if trace:
                yield trace


def read_records(path: str) -> Iterator[Record]:
    """The spans and log records of one file, as they come.

    Raises:
        ConfigError: the file is missing or holds no OTLP at all.
    """
    return (record for record, _ in _sized_records(path, None, None))


def _with_logs(records: Sequence[Record]) -> list[SpanRecord]:
    """The spans of a trace, each with its log records, oldest first."""
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


# --- files ---


def _sized_records(
    path: str, progress: Callable[[int], None] | None, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[Record, int]]:
    """Records with their share of the bytes they stood in."""
    found = False
    with _open(path) as (stream, position):
        for size, request in _requests(stream, path, skipped):
            records = list(request)
            found = True
            yield from ((record, size // len(records) + 200) for record in records)
            if progress is not None:
                progress(position())
    if not found:
        raise ConfigError(path, "holds no OTLP: expected JSON, JSON lines or protobuf, gzip or not")


@contextmanager
def _open(path: str) -> Iterator[tuple[BufferedReader, Callable[[], int]]]:
    """The file's content without its compression, and how far the file itself was read."""
    try:
        raw = sys.stdin.buffer if path == "-" else Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror or error}") from error
    reader = raw if isinstance(raw, BufferedReader) else BufferedReader(cast("Any", raw))
    try:
        packed = reader.peek(2)[:2] == b"\x1f\x8b"
        stream = BufferedReader(cast("Any", gzip.GzipFile(fileobj=reader))) if packed else reader
        yield stream, (lambda: 0) if path == "-" else reader.tell
    finally:
        if path != "-":
            reader.close()


def _requests(
    stream: BufferedReader, path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Iterator[Record]]]:
    """Export requests as (bytes, records)."""
    try:
        head = stream.peek(64)
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
            yield from _json_requests(stream, path, skipped)
        elif head:
            from otel_evals.otlp_protobuf import protobuf_requests

            yield from protobuf_requests(stream, path)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(path, f"cannot be decompressed: {error}") from error


def _json_requests(
    stream: BufferedReader, path: str, skipped: Callable[[str, int], None] | None
) -> Iterator[tuple[int, Iterator[Record]]]:
    """One request per line; a file whose first line is no JSON by itself is read as one text."""
    first = stream.readline()
    if (request := _json(first)) is None:
        yield from _json_text(first + stream.read(), path)
        return
    yield len(first), records_of(request)
    for number, line in enumerate(stream, 2):
        if (request := _json(line)) is not None:
            yield len(line), records_of(request)
        elif line.strip() and skipped is not None:
            skipped(path, number)


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _json_text(raw: bytes, path: str) -> Iterator[tuple[int, Iterator[Record]]]:
    """Requests that are spread over lines, one after the other."""
    text = raw.decode("utf-8-sig", "replace")
    decode, at = json.JSONDecoder().raw_decode, 0
    while text[at:].lstrip():
        at = len(text) - len(text[at:].lstrip())
        try:
            request, end = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ConfigError(path, f"is not valid JSON: {error}") from error
        yield end - at, records_of(request)
        at = end


# --- OTLP/JSON ---


def records_of(request: Any) -> Iterator[Record]:
    """The spans and log records of one OTLP/JSON export request, given as a mapping, or a list of such."""
    for part in request if isinstance(request, list) else (request,):
        for block in _list(part, "resourceSpans"):
            resource = _attributes(_get(block, "resource"))
            for scope_block in _list(block, "scopeSpans"):
                scope = _get(scope_block, "scope")
                name, version = str(scope.get("name", "")), str(scope.get("version", ""))
                for span in _list(scope_block, "spans"):
                    yield _span(span, resource, name, version)
        for block in _list(part, "resourceLogs"):
            for scope_block in _list(block, "scopeLogs"):
                for log in _list(scope_block, "logRecords"):
                    yield _id(log.get("traceId")), _id(log.get("spanId")), _log(log)


def _span(span: Mapping[str, Any], resource: Mapping[str, Any], scope: str, version: str) -> SpanRecord:
    status = _get(span, "status")
    flags = _number(span.get("flags"))
    return SpanRecord(
        trace_id=_id(span.get("traceId")),
        span_id=_id(span.get("spanId")),
        parent_span_id=_id(span.get("parentSpanId")) or None,
        name=str(span.get("name", "")),
        kind=_enum(span.get("kind"), _KINDS, "SPAN_KIND_"),
        start_time=_number(span.get("startTimeUnixNano")),
        end_time=_number(span.get("endTimeUnixNano")) or None,
        attributes=_attributes(span),
        events=tuple(map(_event, _list(span, "events"))),
        status=cast("Literal['UNSET', 'OK', 'ERROR']", _enum(status.get("code"), _STATUS, "STATUS_CODE_")),
        status_message=str(status.get("message", "")),
        scope_name=scope,
        scope_version=version,
        resource=resource,
        trace_flags=flags & 0xFF if "flags" in span else 1,
        trace_state=str(span.get("traceState", "")),
        parent_is_remote=bool(flags & 0x200),
        dropped_attributes=_number(span.get("droppedAttributesCount")),
    )


def _event(event: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        name=str(event.get("name", "")),
        time=_number(event.get("timeUnixNano")),
        attributes=_attributes(event),
    )


def _log(log: Mapping[str, Any]) -> SpanEvent:
    attributes = _attributes(log)
    return SpanEvent(
        name=str(log.get("eventName") or attributes.get("event.name") or ""),
        time=_number(log.get("timeUnixNano")) or _number(log.get("observedTimeUnixNano")),
        attributes=attributes,
        body=_value(log.get("body")),
    )


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    return {str(a.get("key", "")): _value(a.get("value")) for a in _list(node, "attributes")}


def _value(value: Any, depth: int = 0) -> Any:
    """An AnyValue as the value it stands for; arrays become tuples, as in the SDK."""
    if not isinstance(value, Mapping) or not value or depth > _DEPTH:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return tuple(_value(item, depth + 1) for item in _list(inner, "values"))
    if kind == "kvlistValue":
        return {
            str(item.get("key", "")): _value(item.get("value"), depth + 1) for item in _list(inner, "values")
        }
    convert = _VALUES.get(kind)
    return inner if convert is None else convert(inner)


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0


def _double(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value)
    except (TypeError, ValueError):
        return value


_VALUES: dict[str, Callable[[Any], Any]] = {"intValue": _number, "doubleValue": _double, "bytesValue": _bytes}
_DEPTH = 60


def _get(node: Any, key: str) -> Mapping[str, Any]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(node: Any, key: str) -> list[Mapping[str, Any]]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _enum(value: Any, names: tuple[str, ...], prefix: str) -> str:
    """An enum as its number or its name."""
    if isinstance(value, str):
        name = value.removeprefix(prefix)
        return name if name in names else names[0]
    number = _number(value)
    return names[number] if 0 <= number < len(names) else names[0]


def _id(value: Any) -> str:
    """An id as lower-case hex; base64 (protobuf's own JSON form) is understood too."""
    if not isinstance(value, str) or not value:
        return ""
    if len(value) in (24, 12) and value.endswith("="):
        try:
            return base64.b64decode(value, validate=True).hex()
        except ValueError:
            return value
    return value.lower()
