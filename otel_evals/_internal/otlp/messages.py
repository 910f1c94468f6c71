"""Reads the spans and log records in OTLP messages, JSON and protobuf, and files of the latter."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from io import BufferedReader
from typing import Any, Literal

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.records import read_only
from otel_evals.errors import ConfigError

LogRecord = tuple[str, str, SpanEvent]
"""A log record with the trace id and the span id it belongs to."""

Record = SpanRecord | LogRecord

# By number in OTLP, where 0 is unspecified and may be taken for INTERNAL.
KINDS = ("INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS: tuple[Literal["UNSET", "OK", "ERROR"], ...] = ("UNSET", "OK", "ERROR")


def records_of(request: Any) -> Iterator[Record]:
    """Yield the spans and log records in an export request: a message, OTLP/JSON, or a list of these."""
    for part in request if isinstance(request, list) else (request,):
        message = part if hasattr(part, "SerializeToString") else _Json(part)
        for block in getattr(message, "resource_spans", ()):
            resource = attributes_of(block.resource)
            for scope_block in block.scope_spans:
                for span in scope_block.spans:
                    yield span_record(span, resource, scope_block.scope)
        for block in getattr(message, "resource_logs", ()):
            for scope_block in block.scope_logs:
                for log in scope_block.log_records:
                    yield log.trace_id.hex(), log.span_id.hex(), log_event(log)


class _Json:
    """An OTLP/JSON object with the fields of the message: missing and malformed ones have their defaults."""

    __slots__ = ("_node",)

    def __init__(self, node: Any) -> None:
        self._node = node if isinstance(node, Mapping) else {}

    def __getattr__(self, name: str) -> Any:
        key, read = _FIELDS[name]
        return read(self._node.get(key))

    def WhichOneof(self, _: str) -> str | None:  # noqa: N802 (a message's method)
        return _KINDS_OF_VALUES.get(next(iter(self._node), ""))


class _Id(str):
    """An id in hex."""

    __slots__ = ()

    def hex(self) -> str:
        return str(self)


def _id(value: Any) -> _Id:
    """Return an id in lower case; accepts base64, protobuf's own JSON form."""
    if not isinstance(value, str):
        return _Id()
    # 16 and 8 bytes in base64; hex has no padding.
    if len(value) in (24, 12) and value.endswith("="):
        try:
            return _Id(base64.b64decode(value, validate=True).hex())
        except ValueError:
            return _Id(value)
    return _Id(value.lower())


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any) -> int:
    try:
        # Protobuf's JSON has 64-bit numbers as strings: JavaScript's cannot hold them.
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0


def _or_as_it_is(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def value(given: Any) -> Any:
        try:
            return read(given)
        except (TypeError, ValueError):
            return given

    return value


def _enum(names: tuple[str, ...], prefix: str) -> Callable[[Any], int]:
    """Return a function that reads an enum given by number or name."""

    def number(value: Any) -> int:
        if isinstance(value, str):
            name = value.removeprefix(prefix)
            return names.index(name) if name in names else 0
        return _number(value)

    return number


def _list(value: Any) -> Iterator[_Json]:
    items = value if isinstance(value, list) else ()
    return (_Json(item) for item in items if isinstance(item, Mapping))


_READERS: dict[Callable[[Any], Any], str] = {
    _list: """resourceSpans scopeSpans spans resourceLogs scopeLogs logRecords events links attributes
        values""",
    _Json: "resource scope status body value arrayValue kvlistValue",
    _id: "traceId spanId parentSpanId",
    _text: "name version message key traceState eventName",
    _number: """startTimeUnixNano endTimeUnixNano timeUnixNano observedTimeUnixNano flags
        droppedAttributesCount intValue""",
    _enum(KINDS, "SPAN_KIND_"): "kind",
    _enum(STATUS, "STATUS_CODE_"): "code",
    _or_as_it_is(float): "doubleValue",
    _or_as_it_is(base64.b64decode): "bytesValue",
    (lambda value: value): "stringValue boolValue",
}
_FIELDS = {
    re.sub("([A-Z])", lambda capital: f"_{capital[0].lower()}", key): (key, read)
    for read, keys in _READERS.items()
    for key in keys.split()
}
"""JSON's key of a field, and how its value is read."""
_KINDS_OF_VALUES = {key: name for name, (key, _) in _FIELDS.items() if key.endswith("Value")}
# A sender may nest values until a recursion exhausts the stack.
_DEPTH = 60


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
        # Later versions of OTLP may add values.
        status=STATUS[span.status.code] if 0 <= span.status.code < len(STATUS) else STATUS[0],
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
