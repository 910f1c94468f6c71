"""Reads the spans and log records in OTLP messages, JSON and protobuf, and files of the latter."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from typing import Any, Literal, cast

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.records import read_only
from otel_evals.errors import ConfigError

LogRecord = tuple[str, str, SpanEvent]
"""A log record with the trace id and the span id it belongs to."""

Record = SpanRecord | LogRecord

# By number in OTLP, where 0 is unspecified and may be taken for INTERNAL.
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
        events=tuple(map(_json_event, _list(span, "events"))),
        status=cast("Literal['UNSET', 'OK', 'ERROR']", _enum(status.get("code"), STATUS, "STATUS_CODE_")),
        status_message=str(status.get("message", "")),
        scope_name=scope,
        scope_version=version,
        resource=resource,
        trace_flags=flags & 0xFF or 1,  # most exporters leave them out, and export sampled spans only
        trace_state=str(span.get("traceState", "")),
        # OTLP's SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK.
        parent_is_remote=bool(flags & 0x200),
        dropped_attributes=_number(span.get("droppedAttributesCount")),
        links=tuple((_id(link.get("traceId")), _id(link.get("spanId"))) for link in _list(span, "links")),
    )


def _json_event(event: Mapping[str, Any]) -> SpanEvent:
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
        body=_json_value(log.get("body")),
        dropped_attributes=_number(log.get("droppedAttributesCount")),
    )


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    return {str(a.get("key", "")): _json_value(a.get("value")) for a in _list(node, "attributes")}


def _json_value(value: Any, depth: int = 0) -> Any:
    """Return the value of an AnyValue; arrays become tuples, as in the SDK."""
    if not isinstance(value, Mapping) or not value or depth > _DEPTH:
        return None
    kind, inner = next(iter(value.items()))
    if kind == "arrayValue":
        return tuple(_json_value(item, depth + 1) for item in _list(inner, "values"))
    if kind == "kvlistValue":
        return {
            str(item.get("key", "")): _json_value(item.get("value"), depth + 1)
            for item in _list(inner, "values")
        }
    try:
        return _VALUES[kind](inner) if kind in _VALUES else inner
    except (TypeError, ValueError):
        return inner


def _number(value: Any) -> int:
    try:
        # Protobuf's JSON has 64-bit numbers as strings: JavaScript's cannot hold them.
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


_VALUES: dict[str, Callable[[Any], Any]] = {
    "intValue": _number,
    "doubleValue": float,
    "bytesValue": base64.b64decode,
}
# A sender may nest values until a recursion exhausts the stack.
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
    # Later versions of OTLP may add values.
    return names[number] if 0 <= number < len(names) else names[0]


def _id(value: Any) -> str:
    """Return an id as lower-case hex; accepts base64, protobuf's own JSON form."""
    if not isinstance(value, str) or not value:
        return ""
    # 16 and 8 bytes in base64; hex has no padding.
    if len(value) in (24, 12) and value.endswith("="):
        try:
            return base64.b64decode(value, validate=True).hex()
        except ValueError:
            return value
    return value.lower()


class DamagedFileError(ConfigError):
    """A part of a file cannot be read, such as the end of one whose writer was killed."""


# Tag of an export request's first field: a file that begins with it is one request, without its size.
_FIRST_FIELD = b"\n"
# A damaged size would ask for up to 4 GB of memory.
_LARGEST = 512 * 1024 * 1024


def protobuf_requests(
    stream: BufferedReader, path: str, skipped: Callable[[str, int], None]
) -> Iterator[tuple[int, Any, int]]:
    """Yield the export requests of a protobuf file with their sizes in bytes and their numbers.

    `skipped` is called with the file and the number of each request after the first that is not OTLP.

    Raises:
        ConfigError: `opentelemetry-proto` is not installed, or the file is not OTLP.
    """
    try:
        # Imported here: reading JSON must not need the extra.
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise ConfigError(path, "protobuf files need the extra `otel-evals[otlp]`") from error
    for number, message in enumerate(_messages(stream, path), 1):
        try:
            traces = ExportTraceServiceRequest.FromString(message)
            if _has_ids(traces):
                yield len(message), traces, number
                continue
        except DecodeError:  # these may be logs, whose fields have other types
            pass
        try:
            yield len(message), ExportLogsServiceRequest.FromString(message), number
        except DecodeError as error:
            if number == 1:
                raise ConfigError(path, "is neither JSON nor an OTLP export request") from error
            skipped(path, number)


def protobuf_records(request: Any) -> Iterator[Record]:
    """Yield the spans or log records of an export request's message."""
    if not hasattr(request, "resource_spans"):
        for block in request.resource_logs:
            for scope_block in block.scope_logs:
                for log in scope_block.log_records:
                    yield log.trace_id.hex(), log.span_id.hex(), log_event(log)
        return
    for block in request.resource_spans:
        resource = attributes_of(block.resource)
        for scope_block in block.scope_spans:
            for span in scope_block.spans:
                yield span_record(span, resource, scope_block.scope)


def _messages(stream: BufferedReader, path: str) -> Iterator[bytes]:
    if stream.peek(1)[:1] == _FIRST_FIELD:
        yield stream.read()
        return
    # The Collector's file exporter writes each request's size in front, in 4 bytes.
    while head := stream.read(4):
        size = int.from_bytes(head, "big")
        message = stream.read(size) if size <= _LARGEST else b""
        if len(message) < size or len(head) < 4:
            raise DamagedFileError(path, "is neither JSON nor an OTLP export request, or ends within one")
        yield message


def _has_ids(request: Any) -> bool:
    """Return True for spans; logs read as spans have no ids."""
    return any(
        len(span.trace_id) == 16 and len(span.span_id) == 8
        for block in request.resource_spans
        for scope_block in block.scope_spans
        for span in scope_block.spans
    )


def span_record(
    span: Any, resource: dict[str, Any], scope: Any, trace_state: str | None = None
) -> SpanRecord:
    """Convert a span message to a record; `trace_state` replaces its own."""
    return SpanRecord(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex() or None,
        name=span.name,
        kind=KINDS[span.kind] if 0 <= span.kind < len(KINDS) else KINDS[0],
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano or None,
        attributes=attributes_of(span),
        events=tuple(map(_event, span.events)),
        status=cast(
            "Literal['UNSET', 'OK', 'ERROR']", STATUS[span.status.code] if span.status.code < 3 else "UNSET"
        ),
        status_message=span.status.message,
        scope_name=scope.name,
        scope_version=scope.version,
        resource=resource,
        trace_flags=span.flags & 0xFF or 1,
        trace_state=span.trace_state if trace_state is None else trace_state,
        parent_is_remote=bool(span.flags & 0x200),
        dropped_attributes=span.dropped_attributes_count,
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
    )


def _event(event: Any) -> SpanEvent:
    return SpanEvent(
        name=event.name,
        time=event.time_unix_nano,
        attributes=attributes_of(event),
        dropped_attributes=event.dropped_attributes_count,
    )


def log_event(log: Any) -> SpanEvent:
    """Convert a log record message to an event of its span."""
    attributes = attributes_of(log)
    return SpanEvent(
        name=log.event_name or str(attributes.get("event.name") or ""),
        time=log.time_unix_nano or log.observed_time_unix_nano,
        attributes=attributes,
        body=_value(log.body),
        dropped_attributes=log.dropped_attributes_count,
    )


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a span, resource, event or log record message."""
    attributes: dict[str, Any] = read_only({a.key: _value(a.value) for a in node.attributes})
    return attributes


def _value(value: Any, depth: int = 0) -> Any:
    """Return the value of an AnyValue; arrays become tuples, as in the SDK."""
    kind = value.WhichOneof("value")
    if kind is None or depth > _DEPTH:
        return None
    if kind == "array_value":
        return tuple(_value(item, depth + 1) for item in value.array_value.values)
    if kind == "kvlist_value":
        return {item.key: _value(item.value, depth + 1) for item in value.kvlist_value.values}
    return getattr(value, kind)
