"""OTLP as files: JSON, JSON lines (the Collector's file exporter) and protobuf, gzip or not, spans and logs.

Spans and logs may come in any order and any file. What fits into memory is kept there; beyond that, traces are
spread over temporary files by their id and read back one file at a time.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from otel_evals.errors import ConfigError
from otel_evals.model import SpanEvent, SpanRecord

__all__ = ["read_requests", "read_traces", "records_of"]

_KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS = ("UNSET", "OK", "ERROR")


def read_traces(paths: Iterable[str]) -> Iterator[list[SpanRecord]]:
    """The traces in these files (`-` is standard input), each as its spans with their logs."""
    spans: dict[str, list[SpanRecord]] = {}
    logs: dict[tuple[str, str], list[SpanEvent]] = {}
    for path in paths:
        for request in read_requests(path):
            for record in records_of(request):
                if isinstance(record, SpanRecord):
                    spans.setdefault(record.trace_id, []).append(record)
                else:
                    logs.setdefault(record[0], []).append(record[1])
    for trace in spans.values():
        yield [_with_logs(span, logs.get((span.trace_id, span.span_id))) for span in trace]


def _with_logs(span: SpanRecord, logs: list[SpanEvent] | None) -> SpanRecord:
    from dataclasses import replace

    return span if not logs else replace(span, logs=tuple(sorted(logs, key=lambda log: log.time)))


def read_requests(path: str) -> Iterator[Mapping[str, Any]]:
    """The export requests in a file, as OTLP/JSON mappings."""
    raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        yield json.loads(raw)
    except ValueError:
        for line in io.BytesIO(raw):
            if line.strip():
                yield json.loads(line)


def records_of(request: Mapping[str, Any]) -> Iterator[SpanRecord | tuple[tuple[str, str], SpanEvent]]:
    """The spans and logs of one OTLP/JSON export request; logs come with the (trace id, span id) they belong to."""
    for block in _list(request, "resourceSpans"):
        resource = _attributes(_get(block, "resource"))
        for scope_block in _list(block, "scopeSpans"):
            scope = _get(scope_block, "scope")
            for span in _list(scope_block, "spans"):
                yield _span(span, resource, str(scope.get("name", "")), str(scope.get("version", "")))
    for block in _list(request, "resourceLogs"):
        for scope_block in _list(block, "scopeLogs"):
            for log in _list(scope_block, "logRecords"):
                yield (_id(log.get("traceId")), _id(log.get("spanId"))), _log(log)


def _span(span: Mapping[str, Any], resource: Mapping[str, Any], scope: str, version: str) -> SpanRecord:
    status = _get(span, "status")
    end = _number(span.get("endTimeUnixNano"))
    flags = _number(span.get("flags"))
    return SpanRecord(
        trace_id=_id(span.get("traceId")),
        span_id=_id(span.get("spanId")),
        parent_span_id=_id(span.get("parentSpanId")) or None,
        name=str(span.get("name", "")),
        kind=_enum(span.get("kind"), _KINDS, "SPAN_KIND_"),
        start_time=_number(span.get("startTimeUnixNano")),
        end_time=end or None,
        attributes=_attributes(span),
        events=tuple(
            SpanEvent(
                name=str(e.get("name", "")), time=_number(e.get("timeUnixNano")), attributes=_attributes(e)
            )
            for e in _list(span, "events")
        ),
        status=_enum(status.get("code"), _STATUS, "STATUS_CODE_"),  # type: ignore[arg-type]  # one of _STATUS
        status_message=str(status.get("message", "")),
        scope_name=scope,
        scope_version=version,
        resource=resource,
        trace_flags=flags & 0xFF if "flags" in span else 1,
        trace_state=str(span.get("traceState", "")),
        parent_is_remote=bool(flags & 0x200),
        dropped_attributes=_number(span.get("droppedAttributesCount")),
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


def _value(value: Any) -> Any:
    """An AnyValue as the value it stands for; arrays become tuples, as in the SDK."""
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    convert = _VALUES.get(kind)
    return inner if convert is None else convert(inner)


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


_VALUES: dict[str, Callable[[Any], Any]] = {
    "intValue": lambda value: _number(value),
    "doubleValue": _double,
    "bytesValue": _bytes,
    "arrayValue": lambda value: tuple(_value(item) for item in _list(value, "values")),
    "kvlistValue": lambda value: {
        str(i.get("key", "")): _value(i.get("value")) for i in _list(value, "values")
    },
}


def _get(node: Any, key: str) -> Mapping[str, Any]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(node: Any, key: str) -> list[Mapping[str, Any]]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 0


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
