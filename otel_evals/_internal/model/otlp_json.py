"""Reads the spans and log records in OTLP/JSON export requests."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, cast

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.read_only import read_only

LogRecord = tuple[str, str, SpanEvent]
"""A log record with the trace id and the span id it belongs to."""

Record = SpanRecord | LogRecord

KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS = ("UNSET", "OK", "ERROR")


def records_of(request: Any) -> Iterator[Record]:
    """Yield the spans and log records in an OTLP/JSON export request, or in a list of requests."""
    for part in request if isinstance(request, list) else (request,):
        for block in _list(part, "resourceSpans"):
            resource = read_only(_attributes(_get(block, "resource")))
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
        kind=_enum(span.get("kind"), KINDS, "SPAN_KIND_"),
        start_time=_number(span.get("startTimeUnixNano")),
        end_time=_number(span.get("endTimeUnixNano")) or None,
        attributes=_attributes(span),
        events=tuple(map(_event, _list(span, "events"))),
        status=cast("Literal['UNSET', 'OK', 'ERROR']", _enum(status.get("code"), STATUS, "STATUS_CODE_")),
        status_message=str(status.get("message", "")),
        scope_name=scope,
        scope_version=version,
        resource=resource,
        trace_flags=flags & 0xFF or 1,  # most exporters leave them out, and export sampled spans only
        trace_state=str(span.get("traceState", "")),
        parent_is_remote=bool(flags & 0x200),
        dropped_attributes=_number(span.get("droppedAttributesCount")),
        links=tuple((_id(link.get("traceId")), _id(link.get("spanId"))) for link in _list(span, "links")),
    )


def _event(event: Mapping[str, Any]) -> SpanEvent:
    return SpanEvent(
        name=str(event.get("name", "")),
        time=_number(event.get("timeUnixNano")),
        attributes=_attributes(event),
        dropped_attributes=_number(event.get("droppedAttributesCount")),
    )


def _log(log: Mapping[str, Any]) -> SpanEvent:
    attributes = _attributes(log)
    return SpanEvent(
        name=str(log.get("eventName") or attributes.get("event.name") or ""),
        time=_number(log.get("timeUnixNano")) or _number(log.get("observedTimeUnixNano")),
        attributes=attributes,
        body=_value(log.get("body")),
        dropped_attributes=_number(log.get("droppedAttributesCount")),
    )


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    return {str(a.get("key", "")): _value(a.get("value")) for a in _list(node, "attributes")}


def _value(value: Any, depth: int = 0) -> Any:
    """Return the value of an AnyValue; arrays become tuples, as in the SDK."""
    if not isinstance(value, Mapping) or not value or depth > _DEPTH:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return tuple(_value(item, depth + 1) for item in _list(inner, "values"))
    if kind == "kvlistValue":
        return {
            str(item.get("key", "")): _value(item.get("value"), depth + 1) for item in _list(inner, "values")
        }
    try:
        return _VALUES[kind](inner) if kind in _VALUES else inner
    except (TypeError, ValueError):
        return inner


def _number(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


_VALUES: dict[str, Callable[[Any], Any]] = {
    "intValue": _number,
    "doubleValue": float,
    "bytesValue": base64.b64decode,
}
_DEPTH = 60


def _get(node: Any, key: str) -> Mapping[str, Any]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _list(node: Any, key: str) -> list[Mapping[str, Any]]:
    value = node.get(key) if isinstance(node, Mapping) else None
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _enum(value: Any, names: tuple[str, ...], prefix: str) -> str:
    """Return the name of an enum given by number or name."""
    if isinstance(value, str):
        name = value.removeprefix(prefix)
        return name if name in names else names[0]
    number = _number(value)
    return names[number] if 0 <= number < len(names) else names[0]


def _id(value: Any) -> str:
    """Return an id as lower-case hex; accepts base64, protobuf's own JSON form."""
    if not isinstance(value, str) or not value:
        return ""
    if len(value) in (24, 12) and value.endswith("="):
        try:
            return base64.b64decode(value, validate=True).hex()
        except ValueError:
            return value
    return value.lower()
